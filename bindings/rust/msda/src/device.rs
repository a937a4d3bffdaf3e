//! Calls on memory of a CUDA device, with streams and slices of the crate cudarc.

use std::fmt;
use std::sync::Arc;

use cudarc::driver::{
    CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DeviceSlice as _,
    DriverError, SyncOnDrop,
};
use msda_sys as sys;

use crate::calls::Memory;
use crate::element::Element;
use crate::error::{Error, Result, Status};
use crate::plan::Plan;
use crate::tensors::{Form, Gradients, Inputs, Outputs, Slice, SliceMut};

trait Read {
    fn context_ordinal(&self) -> usize;
    fn read<'a>(&'a self, stream: &'a CudaStream) -> (Slice<'a>, SyncOnDrop<'a>);
}

trait Write {
    fn context_ordinal(&self) -> usize;
    fn write<'a>(&'a mut self, stream: &'a CudaStream) -> (SliceMut<'a>, SyncOnDrop<'a>);
}

/// Memory of a device that a call reads: made from `&CudaSlice<T>` or `&CudaView<T>` of any [`Element`].
#[derive(Clone, Copy)]
pub struct DeviceSlice<'a>(&'a dyn Read);

/// Memory of a device that a call writes: made from `&mut CudaSlice<T>` or `&mut CudaViewMut<T>` of any
/// [`Element`].
pub struct DeviceSliceMut<'a>(&'a mut dyn Write);

macro_rules! readable {
    ($($memory:ty),*) => {$(
        impl<T: Element> Read for $memory {
            fn context_ordinal(&self) -> usize {
                self.stream().context().ordinal()
            }
            fn read<'a>(&'a self, stream: &'a CudaStream) -> (Slice<'a>, SyncOnDrop<'a>) {
                let (pointer, guard) = self.device_ptr(stream);
                // SAFETY: memory of the device, borrowed for 'a and ordered by the guard.
                (unsafe { Slice::new(pointer as *const T, Form::of::<T>(self.len())) }, guard)
            }
        }
        impl<'a, T: Element> From<&'a $memory> for DeviceSlice<'a> {
            fn from(memory: &'a $memory) -> Self {
                DeviceSlice(memory)
            }
        }
    )*};
}
readable!(CudaSlice<T>, CudaView<'_, T>);

macro_rules! writable {
    ($($memory:ty),*) => {$(
        impl<T: Element> Write for $memory {
            fn context_ordinal(&self) -> usize {
                self.stream().context().ordinal()
            }
            fn write<'a>(&'a mut self, stream: &'a CudaStream) -> (SliceMut<'a>, SyncOnDrop<'a>) {
                let form = Form::of::<T>(self.len());
                let (pointer, guard) = self.device_ptr_mut(stream);
                // SAFETY: as above, and borrowed by this alone.
                (unsafe { SliceMut::new(pointer as *mut T, form) }, guard)
            }
        }
        impl<'a, T: Element> From<&'a mut $memory> for DeviceSliceMut<'a> {
            fn from(memory: &'a mut $memory) -> Self {
                DeviceSliceMut(memory)
            }
        }
    )*};
}
writable!(CudaSlice<T>, CudaViewMut<'_, T>);

impl<'a, T: Into<DeviceSliceMut<'a>>> From<T> for Outputs<DeviceSliceMut<'a>> {
    fn from(output: T) -> Self {
        Outputs::new(output)
    }
}

impl fmt::Debug for DeviceSlice<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "DeviceSlice of CUDA device {}", self.0.context_ordinal())
    }
}

impl fmt::Debug for DeviceSliceMut<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "DeviceSliceMut of CUDA device {}", self.0.context_ordinal())
    }
}

/// Scratch memory of a device for the calls of one plan. Calls on several streams that share one wait for each
/// other.
#[derive(Debug)]
pub struct DeviceWorkspace(Option<CudaSlice<u8>>);

/// What orders a call among those that use the same memory: dropped when the call is enqueued.
struct Call<'a> {
    stream: &'a CudaStream,
    guards: Vec<SyncOnDrop<'a>>,
    /// A device of some tensor that is not the stream's.
    stray: Option<usize>,
}

impl<'a> Call<'a> {
    fn new(stream: &'a CudaStream) -> Self {
        Call { stream, guards: Vec::new(), stray: None }
    }

    fn visit(&mut self, ordinal: usize) {
        if ordinal != self.stream.context().ordinal() {
            self.stray = Some(ordinal);
        }
    }

    fn read(&mut self, memory: DeviceSlice<'a>) -> Slice<'a> {
        self.visit(memory.0.context_ordinal());
        let (slice, guard) = memory.0.read(self.stream);
        self.guards.push(guard);
        slice
    }

    fn write(&mut self, memory: &'a mut DeviceSliceMut<'_>) -> SliceMut<'a> {
        self.visit(memory.0.context_ordinal());
        let (slice, guard) = memory.0.write(self.stream);
        self.guards.push(guard);
        slice
    }

    /// The memory that the stream works on.
    fn memory(&self) -> Result<Memory> {
        let ordinal = self.stream.context().ordinal();
        if let Some(stray) = self.stray {
            return Err(Error::invalid(format!(
                "a tensor is on CUDA device {stray}: must be on {ordinal}, the stream's"
            )));
        }
        if !self.stream.context().is_primary() {
            return Err(Error::invalid(
                "stream is of a context of its own: must be of the device's primary context",
            ));
        }
        Ok(Memory::Device(ordinal))
    }

    fn execute(
        mut self,
        plan: &Plan,
        workspace: &'a mut DeviceWorkspace,
        mut tensors: sys::msda_tensors,
    ) -> Result<()> {
        if let Some(memory) = &mut workspace.0 {
            tensors.workspace_bytes = memory.len();
            let (pointer, guard) = memory.device_ptr_mut(self.stream);
            tensors.workspace = pointer as *mut _;
            self.guards.push(guard);
        }
        // SAFETY: the memory was checked against the problem and is the stream's device's. Whoever uses or frees
        // it later waits for the events that the guards record after this call.
        unsafe { plan.execute_raw(&tensors, self.stream.cu_stream().cast()) }
    }
}

impl Plan {
    /// Memory of the stream's device for the calls that end in `_on_in`.
    pub fn workspace_on(&self, stream: &Arc<CudaStream>) -> Result<DeviceWorkspace> {
        let bytes = self.info()?.workspace_bytes;
        if bytes == 0 {
            return Ok(DeviceWorkspace(None));
        }
        // SAFETY: scratch memory, which the library writes before it reads it.
        let memory = unsafe { stream.alloc::<u8>(bytes) };
        Ok(DeviceWorkspace(Some(memory.map_err(|error| no_memory(bytes, &error))?)))
    }

    /// [`forward`](Self::forward) on device memory: enqueues on the stream and returns. The stream waits for
    /// what others do to the same slices, and they for it, as cudarc does it for its own calls.
    pub fn forward_on<'a>(
        &self,
        stream: &Arc<CudaStream>,
        inputs: &Inputs<DeviceSlice<'_>>,
        outputs: impl Into<Outputs<DeviceSliceMut<'a>>>,
    ) -> Result<()> {
        self.forward_on_in(stream, &mut self.workspace_on(stream)?, inputs, outputs)
    }

    /// [`forward_on`](Self::forward_on) in a workspace that is there already.
    pub fn forward_on_in<'a>(
        &self,
        stream: &CudaStream,
        workspace: &mut DeviceWorkspace,
        inputs: &Inputs<DeviceSlice<'_>>,
        outputs: impl Into<Outputs<DeviceSliceMut<'a>>>,
    ) -> Result<()> {
        let mut outputs = outputs.into();
        let mut call = Call::new(stream);
        let inputs = (*inputs).map(|memory| call.read(memory));
        let outputs = outputs.map(|memory| call.write(memory));
        let tensors = self.calls.forward("forward_on", call.memory()?, &inputs, outputs)?;
        call.execute(self, workspace, tensors)
    }

    /// [`backward`](Self::backward) on device memory, as [`forward_on`](Self::forward_on).
    pub fn backward_on<'a>(
        &self,
        stream: &Arc<CudaStream>,
        inputs: &Inputs<DeviceSlice<'_>>,
        grad_output: impl Into<DeviceSlice<'a>>,
        gradients: Gradients<DeviceSliceMut<'_>>,
    ) -> Result<()> {
        let mut workspace = self.workspace_on(stream)?;
        self.backward_on_in(stream, &mut workspace, inputs, grad_output, gradients)
    }

    /// [`backward_on`](Self::backward_on) in a workspace that is there already.
    pub fn backward_on_in<'a>(
        &self,
        stream: &CudaStream,
        workspace: &mut DeviceWorkspace,
        inputs: &Inputs<DeviceSlice<'_>>,
        grad_output: impl Into<DeviceSlice<'a>>,
        mut gradients: Gradients<DeviceSliceMut<'_>>,
    ) -> Result<()> {
        let mut call = Call::new(stream);
        let inputs = (*inputs).map(|memory| call.read(memory));
        let grad_output = call.read(grad_output.into());
        let gradients = gradients.map(|memory| call.write(memory));
        let memory = call.memory()?;
        let tensors =
            self.calls.backward("backward_on", memory, &inputs, grad_output, gradients)?;
        call.execute(self, workspace, tensors)
    }
}

fn no_memory(bytes: usize, error: &DriverError) -> Error {
    Error::new(
        Status::OUT_OF_MEMORY,
        format!("no memory for a workspace of {bytes} bytes on the device: {error}"),
    )
}
