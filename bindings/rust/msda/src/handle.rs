use std::ptr::{self, NonNull};

use msda_sys as sys;

use crate::error::{check, text, Error, Result, Status};
use crate::problem::Problem;

/// Version of the library that is loaded: major * 10000 + minor * 100 + patch.
pub fn version() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { sys::msda_version() }
}

/// One line about how the library was built; for people and logs.
pub fn build_info() -> String {
    // SAFETY: the text lives as long as the library.
    unsafe { text(sys::msda_build_info()) }
}

/// A kernel of the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    pub id: String,
    pub family: String,
    /// Lowest and highest compute capability times ten; 0: CPU, and no upper end.
    pub sm_min: i32,
    pub sm_max: i32,
}

/// A device and its threads. Plans made from it stay good when it is dropped first.
#[derive(Debug)]
pub struct Handle {
    raw: NonNull<sys::msda_handle>,
    device: i32,
}

// SAFETY: msda.h lets any number of threads use one handle; drop has it alone.
unsafe impl Send for Handle {}
unsafe impl Sync for Handle {}

impl Handle {
    /// The CPU; `thread_count` 0 takes all hardware threads.
    pub fn cpu(thread_count: i32) -> Result<Self> {
        Self::create(sys::MSDA_DEVICE_CPU, thread_count)
    }

    /// The CUDA device of this ordinal. Its plans run by [`Plan::execute_raw`](crate::Plan::execute_raw), on device pointers, and with
    /// the feature `cudarc` by `Plan::forward_on` and `Plan::backward_on`.
    pub fn cuda(ordinal: i32) -> Result<Self> {
        Self::create(ordinal, 0)
    }

    fn create(device: i32, thread_count: i32) -> Result<Self> {
        sys::check_abi()
            .map_err(|mismatch| Error::new(Status::ABI_MISMATCH, mismatch.to_string()))?;
        let options = sys::msda_handle_options {
            struct_size: std::mem::size_of::<sys::msda_handle_options>(),
            log_fn: None,
            log_user: ptr::null_mut(),
            alloc_fn: None,
            free_fn: None,
            alloc_user: ptr::null_mut(),
            log_level: sys::MSDA_LOG_OFF as i32,
            device,
            thread_count,
            flags: 0,
        };
        let mut raw = ptr::null_mut();
        // SAFETY: both pointers are to live variables of the right types.
        check(unsafe { sys::msda_handle_create(&options, &mut raw) })?;
        Ok(Handle { raw: NonNull::new(raw).expect("set on success"), device })
    }

    /// One line a kernel: its rank for the problem, or why it was rejected.
    pub fn explain(&self, problem: &Problem) -> Result<String> {
        problem.with_c(|c| {
            let mut size = 0;
            // SAFETY: a null text asks for the size.
            check(unsafe { sys::msda_explain(self.raw(), c, ptr::null_mut(), &mut size) })?;
            let mut bytes = vec![0u8; size];
            // SAFETY: `bytes` has `size` bytes.
            check(unsafe {
                sys::msda_explain(self.raw(), c, bytes.as_mut_ptr().cast(), &mut size)
            })?;
            bytes.truncate(size.saturating_sub(1)); // the NUL
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        })
    }

    /// All kernels of the library, whether or not they run on this device.
    pub fn kernels(&self) -> Result<Vec<Kernel>> {
        let mut count = 0;
        // SAFETY: the handle is live, and so is `count`.
        check(unsafe { sys::msda_kernel_count(self.raw(), &mut count) })?;
        (0..count).map(|index| self.kernel(index)).collect()
    }

    fn kernel(&self, index: usize) -> Result<Kernel> {
        let mut info = sys::msda_kernel_info {
            struct_size: std::mem::size_of::<sys::msda_kernel_info>(),
            kernel_id: ptr::null(),
            family: ptr::null(),
            sm_min: 0,
            sm_max: 0,
        };
        // SAFETY: on success the texts are set and live as long as the library.
        unsafe {
            check(sys::msda_kernel_get(self.raw(), index, &mut info))?;
            Ok(Kernel {
                id: text(info.kernel_id),
                family: text(info.family),
                sm_min: info.sm_min,
                sm_max: info.sm_max,
            })
        }
    }

    /// The tuning records as text, sorted, one a line: those of tuning and those imported.
    pub fn tuning_export(&self) -> Result<String> {
        let mut size = 0;
        // SAFETY: a null text asks for the size.
        check(unsafe { sys::msda_tuning_export(self.raw(), ptr::null_mut(), &mut size) })?;
        loop {
            let mut bytes = vec![0u8; size];
            // SAFETY: `bytes` has `size` bytes.
            let status = check(unsafe {
                sys::msda_tuning_export(self.raw(), bytes.as_mut_ptr().cast(), &mut size)
            });
            match status {
                // Another thread has added some since.
                Err(error) if error.status() == Status::BUFFER_TOO_SMALL => continue,
                other => other?,
            }
            bytes.truncate(size.saturating_sub(1)); // the NUL
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
    }

    /// Adds what [`tuning_export`](Self::tuning_export) wrote, of this run or another, and replaces records
    /// of the same problem. Those of other devices, thread counts, versions or kernels are kept and exported
    /// again, and not used. After an error nothing is added; its message has the line.
    pub fn tuning_import(&self, records: &str) -> Result<()> {
        // SAFETY: pointer and length are of one text.
        check(unsafe {
            sys::msda_tuning_import(self.raw(), records.as_ptr().cast(), records.len())
        })
    }

    pub(crate) fn raw(&self) -> *mut sys::msda_handle {
        self.raw.as_ptr()
    }
    pub(crate) fn device(&self) -> i32 {
        self.device
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: nobody else has it any more.
        unsafe { sys::msda_handle_destroy(self.raw()) }
    }
}
