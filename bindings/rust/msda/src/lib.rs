//! Multi-scale deformable attention, forward and backward, on slices: a safe interface to libmsda.
//!
//! What is computed, and what each field means, is written in `msda.h`. In short, with the letters used there
//! (B batch, S tokens, M heads, D channels of a head, Q queries, K points of all levels):
//! `output[b][q][m][:]` is the sum over the K points of `weight * sample(value, coord)`.
//!
//! ```
//! use msda::{Dtype, Handle, Inputs, Problem};
//!
//! # fn main() -> Result<(), msda::Error> {
//! let handle = Handle::cpu(0)?; // all hardware threads
//! // One level of 2 x 2 pixels, one point a query, one query, one head of one channel.
//! let problem = Problem::new(&[[2, 2]], Dtype::F32).points(1).queries(1).heads(1, 1);
//! let plan = handle.plan(&problem)?;
//!
//! let value = [1.0f32, 2.0, 3.0, 4.0]; // [B][S][M][D]
//! let coord = [0.5f32, 0.5]; //           [B][Q][M][K][2], the middle of the map
//! let weight = [1.0f32]; //               [B][Q][M][K]
//! let mut output = [0.0f32]; //           [B][Q][M][D]
//! plan.forward(&Inputs::sampled(&value, &coord, &weight), &mut output)?;
//! assert_eq!(output, [2.5]);
//!
//! let too_short = [0.0f32; 3];
//! let error = plan.forward(&Inputs::sampled(&too_short, &coord, &weight), &mut output).unwrap_err();
//! assert_eq!(error.to_string(), "value has 3 elements: must have 4");
//! # Ok(())
//! # }
//! ```
//!
//! [`Plan`] and [`Handle`] are `Send` and `Sync`: any number of threads may run one plan at once.
//!
//! # Features
//!
//! | feature | what |
//! |---|---|
//! | `vendored` | builds libmsda for the CPU where none is installed; see the crate `msda-sys` |
//! | `ndarray` | arrays and views of the crate ndarray are tensors; their shapes are checked |
//! | `cudarc` | `Plan::forward_on` and `Plan::backward_on` take streams and device slices of the crate cudarc |
//!
//! `cudarc` loads the CUDA driver when it is first used and compiles without one. Its `CudaContext::new` panics
//! where there is none; [`Handle::cuda`] says so in an [`Error`], so call that first.

#[cfg(feature = "ndarray")]
mod arrays;
mod calls;
#[cfg(feature = "cudarc")]
mod device;
mod element;
mod error;
mod handle;
mod plan;
mod problem;
mod tensor_table;
mod tensors;

#[cfg(feature = "cudarc")]
pub use cudarc;
#[cfg(feature = "cudarc")]
pub use device::{DeviceSlice, DeviceSliceMut, DeviceWorkspace};
pub use element::*;
pub use error::{Error, Result, Status};
pub use half::{bf16, f16};
pub use handle::{build_info, version, Handle, Kernel};
pub use msda_sys as sys;
#[cfg(feature = "ndarray")]
pub use ndarray;
pub use plan::{Plan, PlanInfo, PlanOptions, Workspace};
pub use problem::{Determinism, MathMode, Operation, PointLocality, Problem, SamplingMode};
pub use tensors::{Gradients, Inputs, Outputs, Slice, SliceMut};
