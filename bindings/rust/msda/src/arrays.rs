//! Arrays of the crate ndarray as tensors. They say their shape and strides, which are compared with the
//! problem's.

use ndarray::{ArrayBase, Data, DataMut, Dimension};

use crate::element::Element;
use crate::tensors::{Form, Slice, SliceMut};

impl<'a, T: Element, S: Data<Elem = T>, D: Dimension> From<&'a ArrayBase<S, D>> for Slice<'a> {
    fn from(array: &'a ArrayBase<S, D>) -> Self {
        let form = Form::of_array::<T>(array.shape(), array.strides());
        // SAFETY: borrowed for 'a; strides other than the problem's are refused before it is read.
        unsafe { Slice::new(array.as_ptr(), form) }
    }
}

impl<'a, T: Element, S: DataMut<Elem = T>, D: Dimension> From<&'a mut ArrayBase<S, D>>
    for SliceMut<'a>
{
    fn from(array: &'a mut ArrayBase<S, D>) -> Self {
        let form = Form::of_array::<T>(array.shape(), array.strides());
        // SAFETY: borrowed for 'a; strides other than the problem's are refused before it is written.
        unsafe { SliceMut::new(array.as_mut_ptr(), form) }
    }
}
