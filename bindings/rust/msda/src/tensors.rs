use std::ffi::c_void;
use std::marker::PhantomData;

use crate::element::{Dtype, Element};
use crate::error::{Error, Result};
use crate::problem::Shape;

/// A slice of any [`Element`], as the library reads it.
#[derive(Clone, Copy, Debug)]
pub struct Slice<'a> {
    pointer: *const c_void,
    len: usize,
    dtype: Dtype,
    data: PhantomData<&'a [u8]>,
}

impl<'a, T: Element, S: AsRef<[T]> + ?Sized> From<&'a S> for Slice<'a>
where
    S: Elements<Item = T>,
{
    fn from(slice: &'a S) -> Self {
        let slice = slice.as_ref();
        Slice {
            pointer: slice.as_ptr().cast(),
            len: slice.len(),
            dtype: T::DTYPE,
            data: PhantomData,
        }
    }
}

/// A slice of any [`Element`], as the library writes it.
#[derive(Debug)]
pub struct SliceMut<'a> {
    pointer: *mut c_void,
    len: usize,
    dtype: Dtype,
    data: PhantomData<&'a mut [u8]>,
}

impl<'a, T: Element, S: AsMut<[T]> + ?Sized> From<&'a mut S> for SliceMut<'a>
where
    S: Elements<Item = T>,
{
    fn from(slice: &'a mut S) -> Self {
        let slice = slice.as_mut();
        SliceMut {
            pointer: slice.as_mut_ptr().cast(),
            len: slice.len(),
            dtype: T::DTYPE,
            data: PhantomData,
        }
    }
}

/// Slices, arrays and vectors: what a [`Slice`] is made from.
pub trait Elements {
    type Item: Element;
}
impl<T: Element> Elements for [T] {
    type Item = T;
}
impl<T: Element, const N: usize> Elements for [T; N] {
    type Item = T;
}
impl<T: Element> Elements for Vec<T> {
    type Item = T;
}

impl Slice<'_> {
    pub(crate) fn checked(&self, name: &str, shape: Shape) -> Result<*const c_void> {
        check(name, self.len, self.dtype, shape)?;
        Ok(self.pointer)
    }
}

impl SliceMut<'_> {
    pub(crate) fn checked(&mut self, name: &str, shape: Shape) -> Result<*mut c_void> {
        check(name, self.len, self.dtype, shape)?;
        Ok(self.pointer)
    }
}

fn check(name: &str, len: usize, dtype: Dtype, shape: Shape) -> Result<()> {
    if dtype != shape.dtype {
        return Err(Error::invalid(format!(
            "{name} is of {dtype:?}: must be of {:?}",
            shape.dtype
        )));
    }
    let enough = len as u128 >= shape.len;
    if enough && (shape.strided || len as u128 == shape.len) {
        return Ok(());
    }
    let wanted = if shape.strided { "must have at least" } else { "must have" };
    Err(Error::invalid(format!("{name} has {len} elements: {wanted} {}", shape.len)))
}

/// The inputs of one call.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    pub(crate) value: Slice<'a>,
    pub(crate) points: Slice<'a>,
    pub(crate) weights: Slice<'a>,
    pub(crate) reference: Option<Slice<'a>>,
    pub(crate) value_scale: Option<Slice<'a>>,
}

impl<'a> Inputs<'a> {
    /// value \[B\]\[S\]\[M\]\[D\], coord \[B\]\[Q\]\[M\]\[K\]\[2\], weight \[B\]\[Q\]\[M\]\[K\].
    pub fn sampled(
        value: impl Into<Slice<'a>>,
        coord: impl Into<Slice<'a>>,
        weight: impl Into<Slice<'a>>,
    ) -> Self {
        Inputs {
            value: value.into(),
            points: coord.into(),
            weights: weight.into(),
            reference: None,
            value_scale: None,
        }
    }

    /// value \[B\]\[S\]\[M\]\[D\], reference \[B\]\[Q\]\[L\]\[2 or 4\], offset \[B\]\[Q\]\[M\]\[K\]\[2\],
    /// logit \[B\]\[Q\]\[M\]\[K\].
    pub fn fused(
        value: impl Into<Slice<'a>>,
        reference: impl Into<Slice<'a>>,
        offset: impl Into<Slice<'a>>,
        logit: impl Into<Slice<'a>>,
    ) -> Self {
        Inputs { reference: Some(reference.into()), ..Inputs::sampled(value, offset, logit) }
    }

    /// \[M\]: what the stored [`F8E4M3`](crate::F8E4M3) values of each head are multiplied by.
    pub fn value_scale(mut self, scale: &'a [f32]) -> Self {
        self.value_scale = Some(scale.into());
        self
    }
}

/// Where the gradients of one call go; those not given are not computed. All are packed.
#[derive(Debug, Default)]
pub struct Gradients<'a> {
    pub(crate) value: Option<SliceMut<'a>>,
    pub(crate) coord: Option<SliceMut<'a>>,
    pub(crate) weight: Option<SliceMut<'a>>,
    pub(crate) reference: Option<SliceMut<'a>>,
    pub(crate) offset: Option<SliceMut<'a>>,
    pub(crate) logit: Option<SliceMut<'a>>,
}

macro_rules! gradient_setters {
    ($($name:ident),*) => {
        impl<'a> Gradients<'a> {
            /// None yet.
            pub fn new() -> Self {
                Self::default()
            }
            $(
                #[doc = concat!("The gradient of ", stringify!($name), ", in that input's shape.")]
                pub fn $name(mut self, gradient: impl Into<SliceMut<'a>>) -> Self {
                    self.$name = Some(gradient.into());
                    self
                }
            )*
        }
    };
}
gradient_setters!(value, coord, weight, reference, offset, logit);
