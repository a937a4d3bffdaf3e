use half::{bf16, f16};
use msda_sys as sys;

/// Type of the elements of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Dtype {
    F32 = sys::MSDA_DTYPE_F32 as i32,
    F16 = sys::MSDA_DTYPE_F16 as i32,
    Bf16 = sys::MSDA_DTYPE_BF16 as i32,
    /// Only for value; see [`Inputs::value_scale`](crate::Inputs::value_scale).
    F8E4M3 = sys::MSDA_DTYPE_F8_E4M3 as i32,
    F64 = sys::MSDA_DTYPE_F64 as i32,
}

impl Dtype {
    /// The type that is stored divided by a scale, which a call passes.
    pub(crate) const SCALED: Dtype = Dtype::F8E4M3;

    /// What `NONE` stands for: the type of coordinates and weights that go with values of this one.
    pub(crate) fn default_of_points(self) -> Dtype {
        if self == Dtype::F64 {
            Dtype::F64
        } else {
            Dtype::F32
        }
    }
    /// What `NONE` stands for: the type of outputs and gradients that go with values of this one.
    pub(crate) fn default_of_results(self) -> Dtype {
        if self == Dtype::SCALED {
            Dtype::F32
        } else {
            self
        }
    }
}

/// The bits of an OCP FP8 E4M3 number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct F8E4M3(pub u8);

#[cfg(feature = "cudarc")]
mod on_devices {
    use super::F8E4M3;
    use cudarc::driver::{DeviceRepr, ValidAsZeroBits};

    // SAFETY: one byte, of which every value is valid.
    unsafe impl DeviceRepr for F8E4M3 {}
    // SAFETY: as above.
    unsafe impl ValidAsZeroBits for F8E4M3 {}
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that is one of the library's.
pub trait Element: sealed::Sealed + Copy {
    const DTYPE: Dtype;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),* $(,)?) => {
        $(
            impl sealed::Sealed for $rust {}
            impl Element for $rust {
                const DTYPE: Dtype = Dtype::$dtype;
            }
        )*
    };
}
elements!(f32 => F32, f16 => F16, bf16 => Bf16, F8E4M3 => F8E4M3, f64 => F64);
