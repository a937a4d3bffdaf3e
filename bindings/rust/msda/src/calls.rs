use std::ptr;

use msda_sys as sys;

use crate::element::Dtype;
use crate::error::{Error, Result, Status};
use crate::problem::{Problem, Shapes};
use crate::tensor_table::Tensor;
use crate::tensors::{Gradients, Inputs, Outputs, Slice, SliceMut};

/// Makes the struct of a call from slices, each checked against the problem. Every pointer in it is to as
/// many elements as the problem needs, of its type; the workspace is left out.
#[derive(Debug)]
pub(crate) struct Calls {
    shapes: Shapes,
    device: i32,
}

/// The memory that a function takes tensors of: the host's, or that of the CUDA device of an ordinal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    Host,
    #[cfg(feature = "cudarc")]
    Device(usize),
}

impl Calls {
    pub fn new(device: i32, problem: &Problem) -> Self {
        Calls { shapes: problem.shapes(), device }
    }

    pub fn forward(
        &self,
        name: &str,
        memory: Memory,
        inputs: &Inputs<Slice<'_>>,
        mut outputs: Outputs<SliceMut<'_>>,
    ) -> Result<sys::msda_tensors> {
        self.expect_memory(memory, name)?;
        self.expect_operation(false, name)?;
        let mut tensors = self.inputs(inputs)?;
        tensors.output = outputs.output.checked(self.shapes.of(Tensor::Output))?;
        if let Some(attention) = &mut outputs.attention {
            tensors.attention = attention.checked(self.shapes.of(Tensor::Attention))?;
        }
        Ok(tensors)
    }

    pub fn backward(
        &self,
        name: &str,
        memory: Memory,
        inputs: &Inputs<Slice<'_>>,
        grad_output: Slice<'_>,
        gradients: Gradients<SliceMut<'_>>,
    ) -> Result<sys::msda_tensors> {
        self.expect_memory(memory, name)?;
        self.expect_operation(true, name)?;
        let mut tensors = self.inputs(inputs)?;
        let shapes = &self.shapes;
        tensors.grad_output = grad_output.checked(shapes.of(Tensor::GradOutput))?;
        let (mode, other) = if shapes.fused { ("fused", "sampled") } else { ("sampled", "fused") };
        let of_other = match shapes.fused {
            true => [("coord", &gradients.coord), ("weight", &gradients.weight), ("", &None)],
            false => [
                ("reference", &gradients.reference),
                ("offset", &gradients.offset),
                ("logit", &gradients.logit),
            ],
        };
        if let Some((name, _)) = of_other.iter().find(|(_, gradient)| gradient.is_some()) {
            return Err(Error::invalid(format!(
                "the gradient of {name}, a {other} input, was asked of a {mode} plan: must be of its inputs"
            )));
        }
        let pointer = |gradient: Option<SliceMut<'_>>, tensor| match gradient {
            Some(mut gradient) => gradient.checked(shapes.of(tensor)),
            None => Ok(ptr::null_mut()),
        };
        tensors.grad_value = pointer(gradients.value, Tensor::GradValue)?;
        tensors.grad_coord = pointer(gradients.coord, Tensor::GradCoord)?;
        tensors.grad_weight = pointer(gradients.weight, Tensor::GradWeight)?;
        tensors.grad_reference = pointer(gradients.reference, Tensor::GradReference)?;
        tensors.grad_offset = pointer(gradients.offset, Tensor::GradOffset)?;
        tensors.grad_logit = pointer(gradients.logit, Tensor::GradLogit)?;
        Ok(tensors)
    }

    /// Refuses tensors that the plan's device does not read.
    fn expect_memory(&self, memory: Memory, name: &str) -> Result<()> {
        let fault = match (memory, self.device) {
            (Memory::Host, sys::MSDA_DEVICE_CPU) => return Ok(()),
            (Memory::Host, device) => format!(
                "{name} takes slices of host memory and the plan is for CUDA device {device}: use the function \
                 that ends in _on (feature cudarc) or _raw"
            ),
            #[cfg(feature = "cudarc")]
            (Memory::Device(_), sys::MSDA_DEVICE_CPU) => {
                format!("{name} takes device memory and the plan is for the CPU: use the function without _on")
            }
            #[cfg(feature = "cudarc")]
            (Memory::Device(ordinal), device) => {
                if i32::try_from(ordinal) == Ok(device) {
                    return Ok(());
                }
                return Err(Error::invalid(format!(
                    "stream is of CUDA device {ordinal}: must be of {device}, the plan's"
                )));
            }
        };
        Err(Error::new(Status::UNSUPPORTED, fault))
    }

    fn expect_operation(&self, backward: bool, name: &str) -> Result<()> {
        if self.shapes.backward != backward {
            let made_for = if backward { "forward" } else { "backward" };
            return Err(Error::invalid(format!("{name} was called on a plan made for {made_for}")));
        }
        Ok(())
    }

    fn inputs(&self, inputs: &Inputs<Slice<'_>>) -> Result<sys::msda_tensors> {
        let shapes = &self.shapes;
        let mut tensors = empty_tensors();
        tensors.value = inputs.value.checked(shapes.of(Tensor::Value))?;
        match (inputs.reference, shapes.fused) {
            (Some(reference), true) => {
                tensors.reference = reference.checked(shapes.of(Tensor::Reference))?;
                tensors.offset = inputs.points.checked(shapes.of(Tensor::Offset))?;
                tensors.logit = inputs.weights.checked(shapes.of(Tensor::Logit))?;
            }
            (None, false) => {
                tensors.coord = inputs.points.checked(shapes.of(Tensor::Coord))?;
                tensors.weight = inputs.weights.checked(shapes.of(Tensor::Weight))?;
            }
            (_, fused) => {
                let wanted = if fused { "Inputs::fused" } else { "Inputs::sampled" };
                return Err(Error::invalid(format!(
                    "the inputs are of the other mode: must be {wanted}"
                )));
            }
        }
        if let Some(scale) = inputs.value_scale {
            if shapes.value_dtype != Dtype::SCALED {
                return Err(Error::invalid(format!(
                    "value_scale is given with values of {:?}: only {:?} has a scale",
                    shapes.value_dtype,
                    Dtype::SCALED
                )));
            }
            tensors.value_scale = scale.checked(shapes.of(Tensor::ValueScale))?.cast();
        }
        Ok(tensors)
    }
}

fn empty_tensors() -> sys::msda_tensors {
    // SAFETY: a struct of pointers and sizes; all zero is its documented default.
    let mut tensors: sys::msda_tensors = unsafe { std::mem::zeroed() };
    tensors.struct_size = std::mem::size_of::<sys::msda_tensors>();
    tensors
}
