use std::alloc::Layout;
use std::ffi::CString;
use std::fmt;
use std::ptr::{self, NonNull};
use std::time::Duration;

use msda_sys as sys;

use crate::calls::{Calls, Memory};
use crate::error::{check, text, Error, Result, Status};
use crate::handle::Handle;
use crate::problem::Problem;
use crate::tensors::{Gradients, Inputs, Outputs, Slice, SliceMut};

/// How a plan is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanOptions {
    /// This kernel and no other, for example `ref.cpu@1`.
    pub kernel_id: Option<String>,
    /// The kernel that the handle's tuning records have for the problem, these options and the handle's
    /// threads; where there is none, the one predicted to be the fastest. Not together with `kernel_id`.
    pub tuned: bool,
    /// Kernels that need more workspace are rejected; 0: no limit.
    pub workspace_limit_bytes: usize,
}

impl PlanOptions {
    /// Calls `f` with the struct of the C interface, whose text lives no longer than the call.
    fn with_c<T>(&self, f: impl FnOnce(&sys::msda_plan_options) -> Result<T>) -> Result<T> {
        let kernel_id = (self.kernel_id.as_deref().map(CString::new).transpose())
            .map_err(|_| Error::invalid("kernel_id has a NUL in it: must be the id of a kernel"))?;
        let mode = match (&kernel_id, self.tuned) {
            (Some(_), true) => {
                return Err(Error::invalid("tuned is true: kernel_id must be None"));
            }
            (Some(_), false) => sys::MSDA_PLAN_FORCED,
            (None, true) => sys::MSDA_PLAN_TUNED,
            (None, false) => sys::MSDA_PLAN_HEURISTIC,
        };
        f(&sys::msda_plan_options {
            struct_size: std::mem::size_of::<sys::msda_plan_options>(),
            kernel_id: kernel_id.as_ref().map_or(ptr::null(), |id| id.as_ptr()),
            workspace_limit_bytes: self.workspace_limit_bytes,
            mode: mode as i32,
            sm_count_limit: 0,
        })
    }
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

/// A problem with the kernel chosen for it. Several threads may run one plan at once. `{:?}` prints its [`PlanInfo`].
pub struct Plan {
    raw: NonNull<sys::msda_plan>,
    pub(crate) calls: Calls,
}

// SAFETY: msda.h: a plan is immutable, and any number of threads may execute it.
unsafe impl Send for Plan {}
unsafe impl Sync for Plan {}

const _: () = {
    const fn shared_by_threads<T: Send + Sync>() {}
    shared_by_threads::<Plan>();
    shared_by_threads::<Handle>();
    shared_by_threads::<Error>();
};

/// Plans of this handle.
impl Handle {
    /// The kernel that is predicted to be the fastest, prepared for the problem.
    pub fn plan(&self, problem: &Problem) -> Result<Plan> {
        self.plan_with(problem, &PlanOptions::default())
    }

    pub fn plan_with(&self, problem: &Problem, options: &PlanOptions) -> Result<Plan> {
        Plan::create(self, problem, options)
    }

    /// The plan that [`Plan::serialize`] wrote. `problem` is its problem, against which slices are checked;
    /// the bytes of another problem are refused.
    pub fn deserialize(&self, blob: &[u8], problem: &Problem) -> Result<Plan> {
        Plan::deserialize(self, blob, problem)
    }

    /// The plan with the kernel that is the fastest on these very slices, for a forward problem.
    ///
    /// Times the kernels predicted to be fast, as many as the budget allows, and takes the one predicted
    /// fastest unless another was clearly faster. How long a kernel takes depends on where the points land,
    /// so the sample should be typical. The outputs hold the new plan's results afterwards. The winner is kept
    /// in the tuning records, where [`PlanOptions::tuned`] finds it.
    pub fn tune_forward<'a>(
        &self,
        problem: &Problem,
        options: &PlanOptions,
        inputs: &Inputs<Slice<'_>>,
        outputs: impl Into<Outputs<SliceMut<'a>>>,
        budget: Duration,
    ) -> Result<Plan> {
        let calls = Calls::new(self.device(), problem);
        let sample = calls.forward("tune_forward", Memory::Host, inputs, outputs.into())?;
        // SAFETY: every pointer was checked against the problem and is borrowed until the call returns; a
        // CPU handle is done by then.
        unsafe { Plan::tune(self, problem, options, &sample, ptr::null_mut(), budget) }
    }

    /// [`tune_forward`](Self::tune_forward) for a backward problem.
    pub fn tune_backward<'a>(
        &self,
        problem: &Problem,
        options: &PlanOptions,
        inputs: &Inputs<Slice<'_>>,
        grad_output: impl Into<Slice<'a>>,
        gradients: Gradients<SliceMut<'_>>,
        budget: Duration,
    ) -> Result<Plan> {
        let calls = Calls::new(self.device(), problem);
        let sample =
            calls.backward("tune_backward", Memory::Host, inputs, grad_output.into(), gradients)?;
        // SAFETY: as above.
        unsafe { Plan::tune(self, problem, options, &sample, ptr::null_mut(), budget) }
    }

    /// The same on pointers that are not checked here, for example to device memory. With a null workspace
    /// and its size 0 the library takes what the kernels need for the time of the call.
    ///
    /// # Safety
    /// Every pointer is to as much memory as `msda.h` says, on the handle's device.
    pub unsafe fn tune_raw(
        &self,
        problem: &Problem,
        options: &PlanOptions,
        sample: &sys::msda_tensors,
        stream: sys::msda_stream,
        budget: Duration,
    ) -> Result<Plan> {
        Plan::tune(self, problem, options, sample, stream, budget)
    }
}

impl Plan {
    fn create(handle: &Handle, problem: &Problem, options: &PlanOptions) -> Result<Self> {
        let mut raw = ptr::null_mut();
        // SAFETY: all pointers are to live values of the right types; nothing of them is kept.
        options.with_c(|options| {
            problem.with_c(|c| {
                check(unsafe { sys::msda_plan_create(handle.raw(), c, options, &mut raw) })
            })
        })?;
        Ok(Self::adopt(handle, problem, raw))
    }

    /// The plan with the fastest kernel on these tensors.
    ///
    /// # Safety
    /// As [`execute_raw`](Self::execute_raw).
    unsafe fn tune(
        handle: &Handle,
        problem: &Problem,
        options: &PlanOptions,
        sample: &sys::msda_tensors,
        stream: sys::msda_stream,
        budget: Duration,
    ) -> Result<Self> {
        let mut raw = ptr::null_mut();
        let budget_ms = budget.as_secs_f64() * 1e3;
        options.with_c(|options| {
            problem.with_c(|c| {
                check(sys::msda_plan_tune(
                    handle.raw(),
                    c,
                    options,
                    sample,
                    stream,
                    budget_ms,
                    &mut raw,
                ))
            })
        })?;
        Ok(Self::adopt(handle, problem, raw))
    }

    fn deserialize(handle: &Handle, blob: &[u8], problem: &Problem) -> Result<Self> {
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
        Plan { raw, calls: Calls::new(handle.device(), problem) }
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

    /// Computes the output \[B\]\[Q\]\[M\]\[D\], given as `&mut output`, and what else the [`Outputs`] ask for.
    /// Takes memory for a workspace if the plan needs one.
    pub fn forward<'a>(
        &self,
        inputs: &Inputs<Slice<'_>>,
        outputs: impl Into<Outputs<SliceMut<'a>>>,
    ) -> Result<()> {
        self.forward_in(&mut self.workspace()?, inputs, outputs)
    }

    /// [`forward`](Self::forward) in a workspace that is there already.
    pub fn forward_in<'a>(
        &self,
        workspace: &mut Workspace,
        inputs: &Inputs<Slice<'_>>,
        outputs: impl Into<Outputs<SliceMut<'a>>>,
    ) -> Result<()> {
        let tensors = self.calls.forward("forward", Memory::Host, inputs, outputs.into())?;
        self.execute(workspace, tensors)
    }

    /// Computes the gradients that are asked for from the inputs and the gradient of the output.
    /// Takes memory for a workspace if the plan needs one.
    pub fn backward<'a>(
        &self,
        inputs: &Inputs<Slice<'_>>,
        grad_output: impl Into<Slice<'a>>,
        gradients: Gradients<SliceMut<'_>>,
    ) -> Result<()> {
        self.backward_in(&mut self.workspace()?, inputs, grad_output, gradients)
    }

    /// [`backward`](Self::backward) in a workspace that is there already.
    pub fn backward_in<'a>(
        &self,
        workspace: &mut Workspace,
        inputs: &Inputs<Slice<'_>>,
        grad_output: impl Into<Slice<'a>>,
        gradients: Gradients<SliceMut<'_>>,
    ) -> Result<()> {
        let tensors =
            self.calls.backward("backward", Memory::Host, inputs, grad_output.into(), gradients)?;
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

    fn execute(&self, workspace: &mut Workspace, mut tensors: sys::msda_tensors) -> Result<()> {
        tensors.workspace = workspace.data.map_or(ptr::null_mut(), |data| data.as_ptr().cast());
        tensors.workspace_bytes = workspace.layout.size();
        // SAFETY: each pointer comes from a slice of at least the plan's length and of its type, that is
        // borrowed until the call returns, and a CPU plan is done by then.
        check(unsafe { sys::msda_execute(self.raw.as_ptr(), &tensors, ptr::null_mut()) })
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = self.info().map_err(|_| fmt::Error)?;
        formatter.debug_tuple("Plan").field(&info).finish()
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: nobody else has it any more.
        unsafe { sys::msda_plan_destroy(self.raw.as_ptr()) }
    }
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
