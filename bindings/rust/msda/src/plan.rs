use std::alloc::Layout;
use std::ffi::CString;
use std::ptr::{self, NonNull};

use msda_sys as sys;

use crate::element::Dtype;
use crate::error::{check, text, Error, Result, Status};
use crate::handle::Handle;
use crate::problem::{Problem, Shapes};
use crate::tensors::{Gradients, Inputs, SliceMut};

/// How a plan is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanOptions {
    /// This kernel and no other, for example `ref.cpu@1`.
    pub kernel_id: Option<String>,
    /// Kernels that need more workspace are rejected; 0: no limit.
    pub workspace_limit_bytes: usize,
}

/// What a plan is.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanInfo {
    pub kernel_id: String,
    /// What each call needs.
    pub workspace_bytes: usize,
    pub workspace_alignment: usize,
    pub predicted_us: f64,
    pub launch_count: i32,
    /// The result has the same bits on every run.
    pub is_deterministic: bool,
}

/// A problem with the kernel chosen for it. Several threads may run one plan at once.
#[derive(Debug)]
pub struct Plan {
    raw: NonNull<sys::msda_plan>,
    shapes: Shapes,
    on_cpu: bool,
}

// SAFETY: msda.h: a plan is immutable, and any number of threads may execute it.
unsafe impl Send for Plan {}
unsafe impl Sync for Plan {}

impl Plan {
    pub(crate) fn create(
        handle: &Handle,
        problem: &Problem,
        options: &PlanOptions,
    ) -> Result<Self> {
        let kernel_id = (options.kernel_id.as_deref().map(CString::new).transpose())
            .map_err(|_| Error::invalid("kernel_id has a NUL in it: must be the id of a kernel"))?;
        let forced = kernel_id.is_some();
        let mode = if forced { sys::MSDA_PLAN_FORCED } else { sys::MSDA_PLAN_HEURISTIC };
        let options = sys::msda_plan_options {
            struct_size: std::mem::size_of::<sys::msda_plan_options>(),
            kernel_id: kernel_id.as_ref().map_or(ptr::null(), |id| id.as_ptr()),
            workspace_limit_bytes: options.workspace_limit_bytes,
            mode: mode as i32,
            sm_count_limit: 0,
        };
        let mut raw = ptr::null_mut();
        // SAFETY: all pointers are to live values of the right types; nothing of them is kept.
        problem.with_c(|c| {
            check(unsafe { sys::msda_plan_create(handle.raw(), c, &options, &mut raw) })
        })?;
        Ok(Self::adopt(handle, problem, raw))
    }

    pub(crate) fn deserialize(handle: &Handle, blob: &[u8], problem: &Problem) -> Result<Self> {
        let mut raw = ptr::null_mut();
        // SAFETY: pointer and length are of one slice; the library trusts no blob.
        check(unsafe {
            sys::msda_plan_deserialize(handle.raw(), blob.as_ptr().cast(), blob.len(), &mut raw)
        })?;
        let plan = Self::adopt(handle, problem, raw);
        // Slices are checked against `problem`, so it has to be what the bytes were written for: a plan of
        // that problem and kernel has the same bytes.
        let kernel_id = Some(plan.info()?.kernel_id);
        let same = Self::create(handle, problem, &PlanOptions { kernel_id, ..Default::default() })?;
        if same.serialize()? != blob {
            return Err(Error::invalid("blob is the plan of another problem"));
        }
        Ok(plan)
    }

    fn adopt(handle: &Handle, problem: &Problem, raw: *mut sys::msda_plan) -> Self {
        let raw = NonNull::new(raw).expect("set on success");
        Plan { raw, shapes: problem.shapes(), on_cpu: handle.is_cpu() }
    }

    pub fn info(&self) -> Result<PlanInfo> {
        let mut info = sys::msda_plan_info {
            struct_size: std::mem::size_of::<sys::msda_plan_info>(),
            kernel_id: ptr::null(),
            workspace_bytes: 0,
            workspace_alignment: 0,
            predicted_us: 0.0,
            launch_count: 0,
            is_deterministic: 0,
        };
        // SAFETY: on success the text is set and lives as long as the plan.
        unsafe {
            check(sys::msda_plan_get_info(self.raw.as_ptr(), &mut info))?;
            Ok(PlanInfo {
                kernel_id: text(info.kernel_id),
                workspace_bytes: info.workspace_bytes,
                workspace_alignment: info.workspace_alignment,
                predicted_us: info.predicted_us,
                launch_count: info.launch_count,
                is_deterministic: info.is_deterministic != 0,
            })
        }
    }

    /// The plan as bytes, for [`Handle::deserialize`] with the same library on the same kind of device.
    pub fn serialize(&self) -> Result<Vec<u8>> {
        let mut size = 0;
        // SAFETY: a null blob asks for the size.
        check(unsafe { sys::msda_plan_serialize(self.raw.as_ptr(), ptr::null_mut(), &mut size) })?;
        let mut blob = vec![0u8; size];
        // SAFETY: `blob` has `size` bytes.
        check(unsafe {
            sys::msda_plan_serialize(self.raw.as_ptr(), blob.as_mut_ptr().cast(), &mut size)
        })?;
        Ok(blob)
    }

    /// Memory for one call at a time.
    pub fn workspace(&self) -> Result<Workspace> {
        Workspace::new(&self.info()?)
    }

    /// Computes the output \[B\]\[Q\]\[M\]\[D\]. Takes memory for a workspace if the plan needs one.
    pub fn forward<'a>(&self, inputs: &Inputs<'_>, output: impl Into<SliceMut<'a>>) -> Result<()> {
        self.forward_in(&mut self.workspace()?, inputs, output)
    }

    /// [`forward`](Self::forward) in a workspace that is there already.
    pub fn forward_in<'a>(
        &self,
        workspace: &mut Workspace,
        inputs: &Inputs<'_>,
        output: impl Into<SliceMut<'a>>,
    ) -> Result<()> {
        self.expect_operation(false, "forward")?;
        let mut tensors = self.input_tensors(inputs)?;
        let mut output = output.into();
        tensors.output = output.checked("output", self.shapes.output)?;
        self.execute(workspace, tensors)
    }

    /// Computes the gradients that are asked for from the inputs and the gradient of the output.
    /// Takes memory for a workspace if the plan needs one.
    pub fn backward<'a>(
        &self,
        inputs: &Inputs<'_>,
        grad_output: impl Into<crate::Slice<'a>>,
        gradients: Gradients<'_>,
    ) -> Result<()> {
        self.backward_in(&mut self.workspace()?, inputs, grad_output, gradients)
    }

    /// [`backward`](Self::backward) in a workspace that is there already.
    pub fn backward_in<'a>(
        &self,
        workspace: &mut Workspace,
        inputs: &Inputs<'_>,
        grad_output: impl Into<crate::Slice<'a>>,
        gradients: Gradients<'_>,
    ) -> Result<()> {
        self.expect_operation(true, "backward")?;
        let mut tensors = self.input_tensors(inputs)?;
        tensors.grad_output = grad_output.into().checked("grad_output", self.shapes.output)?;
        let shapes = &self.shapes;
        let pointer = |name, gradient: Option<SliceMut<'_>>, shape| match gradient {
            Some(mut gradient) => gradient.checked(name, shape),
            None => Ok(ptr::null_mut()),
        };
        tensors.grad_value = pointer("grad_value", gradients.value, shapes.grad_value)?;
        tensors.grad_coord = pointer("grad_coord", gradients.coord, shapes.grad_points)?;
        tensors.grad_weight = pointer("grad_weight", gradients.weight, shapes.grad_weights)?;
        tensors.grad_reference = pointer("grad_reference", gradients.reference, shapes.reference)?;
        tensors.grad_offset = pointer("grad_offset", gradients.offset, shapes.grad_points)?;
        tensors.grad_logit = pointer("grad_logit", gradients.logit, shapes.grad_weights)?;
        self.execute(workspace, tensors)
    }

    /// Runs the plan on pointers that are not checked here, for example to device memory.
    ///
    /// # Safety
    /// Every pointer is to as much memory as `msda.h` says, on the plan's device, and stays valid until the
    /// work is done.
    pub unsafe fn execute_raw(
        &self,
        tensors: &sys::msda_tensors,
        stream: sys::msda_stream,
    ) -> Result<()> {
        check(sys::msda_execute(self.raw.as_ptr(), tensors, stream))
    }

    fn expect_operation(&self, backward: bool, name: &str) -> Result<()> {
        if !self.on_cpu {
            return Err(Error::new(
                Status::UNSUPPORTED,
                format!(
                    "{name} takes slices of host memory and this plan is of a CUDA device: use execute_raw"
                ),
            ));
        }
        if self.shapes.backward != backward {
            let made_for = if backward { "forward" } else { "backward" };
            return Err(Error::invalid(format!("{name} was called on a plan made for {made_for}")));
        }
        Ok(())
    }

    fn input_tensors(&self, inputs: &Inputs<'_>) -> Result<sys::msda_tensors> {
        let shapes = &self.shapes;
        let mut tensors = empty_tensors();
        tensors.value = inputs.value.checked("value", shapes.value)?;
        match (inputs.reference, shapes.fused) {
            (Some(reference), true) => {
                tensors.reference = reference.checked("reference", shapes.reference)?;
                tensors.offset = inputs.points.checked("offset", shapes.points)?;
                tensors.logit = inputs.weights.checked("logit", shapes.weights)?;
            }
            (None, false) => {
                tensors.coord = inputs.points.checked("coord", shapes.points)?;
                tensors.weight = inputs.weights.checked("weight", shapes.weights)?;
            }
            (_, fused) => {
                let wanted = if fused { "Inputs::fused" } else { "Inputs::sampled" };
                return Err(Error::invalid(format!(
                    "the inputs are of the other mode: must be {wanted}"
                )));
            }
        }
        if let Some(scale) = inputs.value_scale {
            if shapes.value_dtype != Dtype::F8E4M3 {
                return Err(Error::invalid(format!(
                    "value_scale is given with values of {:?}: only F8E4M3 has a scale",
                    shapes.value_dtype
                )));
            }
            tensors.value_scale = scale.checked("value_scale", shapes.value_scale)?.cast();
        }
        Ok(tensors)
    }

    fn execute(&self, workspace: &mut Workspace, mut tensors: sys::msda_tensors) -> Result<()> {
        tensors.workspace = workspace.data.map_or(ptr::null_mut(), |data| data.as_ptr().cast());
        tensors.workspace_bytes = workspace.layout.size();
        // SAFETY: each pointer comes from a slice of at least the plan's length and of its type, that is
        // borrowed until the call returns, and a CPU plan is done by then.
        check(unsafe { sys::msda_execute(self.raw.as_ptr(), &tensors, ptr::null_mut()) })
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: nobody else has it any more.
        unsafe { sys::msda_plan_destroy(self.raw.as_ptr()) }
    }
}

fn empty_tensors() -> sys::msda_tensors {
    // SAFETY: a struct of pointers and sizes; all zero is its documented default.
    let mut tensors: sys::msda_tensors = unsafe { std::mem::zeroed() };
    tensors.struct_size = std::mem::size_of::<sys::msda_tensors>();
    tensors
}

/// Scratch memory of the calls of one plan, one call at a time.
#[derive(Debug)]
pub struct Workspace {
    data: Option<NonNull<u8>>,
    layout: Layout,
}

// SAFETY: it owns its memory, as a Vec does.
unsafe impl Send for Workspace {}
unsafe impl Sync for Workspace {}

impl Workspace {
    fn new(info: &PlanInfo) -> Result<Self> {
        let out_of_memory = || {
            let bytes = info.workspace_bytes;
            Error::new(Status::OUT_OF_MEMORY, format!("no memory for a workspace of {bytes} bytes"))
        };
        let layout = Layout::from_size_align(info.workspace_bytes, info.workspace_alignment.max(1))
            .map_err(|_| out_of_memory())?;
        if layout.size() == 0 {
            return Ok(Workspace { data: None, layout });
        }
        // SAFETY: the size is not 0.
        let data = NonNull::new(unsafe { std::alloc::alloc(layout) }).ok_or_else(out_of_memory)?;
        Ok(Workspace { data: Some(data), layout })
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if let Some(data) = self.data {
            // SAFETY: allocated with this layout.
            unsafe { std::alloc::dealloc(data.as_ptr(), self.layout) }
        }
    }
}
