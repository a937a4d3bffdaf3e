use std::ffi::c_void;
use std::marker::PhantomData;

use crate::element::{Dtype, Element};
use crate::error::{Error, Result};
use crate::problem::{packed_strides, Dims, Shape};

/// A slice of any [`Element`], as the library reads it.
#[derive(Clone, Copy, Debug)]
pub struct Slice<'a> {
    pointer: *const c_void,
    form: Form,
    data: PhantomData<&'a [u8]>,
}

impl<'a, T: Element, S: AsRef<[T]> + ?Sized> From<&'a S> for Slice<'a>
where
    S: Elements<Item = T>,
{
    fn from(slice: &'a S) -> Self {
        let slice = slice.as_ref();
        // SAFETY: borrowed for 'a.
        unsafe { Slice::new(slice.as_ptr(), Form::of::<T>(slice.len())) }
    }
}

/// A slice of any [`Element`], as the library writes it.
#[derive(Debug)]
pub struct SliceMut<'a> {
    pointer: *mut c_void,
    form: Form,
    data: PhantomData<&'a mut [u8]>,
}

impl<'a, T: Element, S: AsMut<[T]> + ?Sized> From<&'a mut S> for SliceMut<'a>
where
    S: Elements<Item = T>,
{
    fn from(slice: &'a mut S) -> Self {
        let slice = slice.as_mut();
        // SAFETY: borrowed for 'a.
        unsafe { SliceMut::new(slice.as_mut_ptr(), Form::of::<T>(slice.len())) }
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

/// What is known of a tensor besides its address: its length and type, and of an array its dimensions and
/// strides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    len: usize,
    dtype: Dtype,
    array: Option<(Dims, Dims)>,
}

impl Form {
    pub fn of<T: Element>(len: usize) -> Self {
        Form { len, dtype: T::DTYPE, array: None }
    }

    #[cfg(feature = "ndarray")]
    pub fn of_array<T: Element>(dims: &[usize], strides: &[isize]) -> Self {
        let sizes = Dims::new(dims.iter().map(|&n| n as i128));
        let strides = Dims::new(strides.iter().map(|&stride| stride as i128));
        Form { array: Some((sizes, strides)), ..Form::of::<T>(dims.iter().product()) }
    }

    fn check(&self, shape: Shape) -> Result<()> {
        let Form { len, dtype, .. } = *self;
        let name = shape.name;
        if dtype != shape.dtype {
            return Err(Error::invalid(format!(
                "{name} is of {dtype:?}: must be of {:?}",
                shape.dtype
            )));
        }
        if let Some((dims, strides)) = &self.array {
            return check_array(len, dims.as_slice(), strides.as_slice(), shape);
        }
        let enough = len as u128 >= shape.len;
        if enough && (shape.strided || len as u128 == shape.len) {
            return Ok(());
        }
        let wanted = if shape.strided { "must have at least" } else { "must have" };
        Err(Error::invalid(format!("{name} has {len} elements: {wanted} {}", shape.len)))
    }
}

/// An array of the tensor's dimensions has the strides of the problem, where it has more than one element along
/// them. With strides, a packed array of other dimensions is memory of `len` elements, which are enough.
fn check_array(len: usize, dims: &[i128], strides: &[i128], shape: Shape) -> Result<()> {
    let name = shape.name;
    let has = |wanted: &[i128]| {
        dims.contains(&0)
            || (dims.iter().zip(strides).zip(wanted)).all(|((&n, a), b)| n == 1 || a == b)
    };
    if dims == shape.dims() {
        return if has(shape.strides()) {
            Ok(())
        } else {
            Err(other_strides(dims, strides, shape))
        };
    }
    if !shape.strided || !has(&packed_strides(dims)) {
        let wanted = shape.dims();
        return Err(Error::invalid(format!("{name} has shape {dims:?}: must have {wanted:?}")));
    }
    if (len as u128) < shape.len {
        let wanted = shape.len;
        return Err(Error::invalid(format!(
            "{name} has {len} elements: must have at least {wanted}"
        )));
    }
    Ok(())
}

fn other_strides(dims: &[i128], strides: &[i128], shape: Shape) -> Error {
    let (name, wanted) = (shape.name, shape.strides());
    // Along a dimension of one, ndarray has any stride.
    let strides: Vec<i128> = (dims.iter().zip(strides).zip(wanted))
        .map(|((&n, &a), &b)| if n == 1 { b } else { a })
        .collect();
    let hint = shape.hint(&strides);
    Error::invalid(format!(
        "{name} is an array with strides {strides:?}: must have {wanted:?}, as the problem says{hint}"
    ))
}

impl Slice<'_> {
    /// # Safety
    /// The pointer is to as many elements as `form` says, which are not written during the lifetime.
    pub(crate) unsafe fn new<T>(pointer: *const T, form: Form) -> Self {
        Slice { pointer: pointer.cast(), form, data: PhantomData }
    }

    pub(crate) fn checked(&self, shape: Shape) -> Result<*const c_void> {
        self.form.check(shape)?;
        Ok(self.pointer)
    }
}

impl SliceMut<'_> {
    /// # Safety
    /// The pointer is to as many elements as `form` says, which nothing else uses during the lifetime.
    pub(crate) unsafe fn new<T>(pointer: *mut T, form: Form) -> Self {
        SliceMut { pointer: pointer.cast(), form, data: PhantomData }
    }

    pub(crate) fn checked(&mut self, shape: Shape) -> Result<*mut c_void> {
        self.form.check(shape)?;
        Ok(self.pointer)
    }
}

/// The inputs of one call: slices of host memory, or with the feature `cudarc` of a device's (`DeviceSlice`).
#[derive(Clone, Copy, Debug)]
pub struct Inputs<S> {
    pub(crate) value: S,
    pub(crate) points: S,
    pub(crate) weights: S,
    pub(crate) reference: Option<S>,
    pub(crate) value_scale: Option<S>,
}

impl<S> Inputs<S> {
    /// value \[B\]\[S\]\[M\]\[D\], coord \[B\]\[Q\]\[M\]\[K\]\[2\], weight \[B\]\[Q\]\[M\]\[K\].
    pub fn sampled(value: impl Into<S>, coord: impl Into<S>, weight: impl Into<S>) -> Self {
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
        value: impl Into<S>,
        reference: impl Into<S>,
        offset: impl Into<S>,
        logit: impl Into<S>,
    ) -> Self {
        Inputs { reference: Some(reference.into()), ..Inputs::sampled(value, offset, logit) }
    }

    /// \[M\] numbers in float32: what the stored 8-bit values of each head are multiplied by.
    pub fn value_scale(mut self, scale: impl Into<S>) -> Self {
        self.value_scale = Some(scale.into());
        self
    }

    /// The same inputs in other memory.
    #[cfg(feature = "cudarc")]
    pub(crate) fn map<R>(self, mut change: impl FnMut(S) -> R) -> Inputs<R> {
        Inputs {
            value: change(self.value),
            points: change(self.points),
            weights: change(self.weights),
            reference: self.reference.map(&mut change),
            value_scale: self.value_scale.map(&mut change),
        }
    }
}

/// Where the results of one forward call go: made from the output, as `&mut output` where nothing else is wanted.
/// They are slices as the [`Inputs`] are.
#[derive(Debug)]
pub struct Outputs<S> {
    pub(crate) output: S,
    pub(crate) attention: Option<S>,
}

impl<S> Outputs<S> {
    /// output \[B\]\[Q\]\[M\]\[D\].
    pub fn new(output: impl Into<S>) -> Self {
        Outputs { output: output.into(), attention: None }
    }

    /// \[B\]\[Q\]\[M\]\[K\]: the softmax of logit, for a problem that is [`fused`](crate::Problem::fused).
    pub fn attention(mut self, attention: impl Into<S>) -> Self {
        self.attention = Some(attention.into());
        self
    }

    /// The same outputs in other memory.
    #[cfg(feature = "cudarc")]
    pub(crate) fn map<'a, R>(&'a mut self, mut change: impl FnMut(&'a mut S) -> R) -> Outputs<R> {
        let output = change(&mut self.output);
        Outputs { output, attention: self.attention.as_mut().map(change) }
    }
}

impl<'a, T: Into<SliceMut<'a>>> From<T> for Outputs<SliceMut<'a>> {
    fn from(output: T) -> Self {
        Outputs::new(output)
    }
}

macro_rules! gradients {
    ($($name:ident),*) => {
        /// Where the gradients of one call go; those not given are not computed. All are packed. They are slices
        /// as the [`Inputs`] are.
        #[derive(Debug)]
        pub struct Gradients<S> {
            $(pub(crate) $name: Option<S>,)*
        }

        impl<S> Default for Gradients<S> {
            fn default() -> Self {
                Gradients { $($name: None,)* }
            }
        }

        impl<S> Gradients<S> {
            /// None yet.
            pub fn new() -> Self {
                Self::default()
            }
            $(
                #[doc = concat!("The gradient of ", stringify!($name), ", in that input's shape.")]
                pub fn $name(mut self, gradient: impl Into<S>) -> Self {
                    self.$name = Some(gradient.into());
                    self
                }
            )*

            /// The same gradients in other memory.
            #[cfg(feature = "cudarc")]
            pub(crate) fn map<'a, R>(
                &'a mut self,
                mut change: impl FnMut(&'a mut S) -> R,
            ) -> Gradients<R> {
                Gradients { $($name: self.$name.as_mut().map(&mut change),)* }
            }
        }
    };
}
gradients!(value, coord, weight, reference, offset, logit);
