use std::ffi::{c_char, CStr};
use std::fmt;

use msda_sys as sys;

pub type Result<T> = std::result::Result<T, Error>;

/// How a call failed: a number of `msda.h`, which may be one that this crate does not know.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(pub i32);

impl Status {
    pub const INVALID_ARGUMENT: Status = Status(sys::MSDA_ERROR_INVALID_ARGUMENT as i32);
    pub const UNSUPPORTED: Status = Status(sys::MSDA_ERROR_UNSUPPORTED as i32);
    pub const ABI_MISMATCH: Status = Status(sys::MSDA_ERROR_ABI_MISMATCH as i32);
    pub const BUFFER_TOO_SMALL: Status = Status(sys::MSDA_ERROR_BUFFER_TOO_SMALL as i32);
    pub const STALE_PLAN: Status = Status(sys::MSDA_ERROR_STALE_PLAN as i32);
    pub const OUT_OF_MEMORY: Status = Status(sys::MSDA_ERROR_OUT_OF_MEMORY as i32);
    pub const CUDA: Status = Status(sys::MSDA_ERROR_CUDA as i32);
    pub const INTERNAL: Status = Status(sys::MSDA_ERROR_INTERNAL as i32);

    /// As it is spelled in `msda.h`.
    pub fn name(self) -> String {
        // SAFETY: takes any number and returns a text that lives as long as the library.
        unsafe { text(sys::msda_status_name(self.0)) }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name())
    }
}

/// A failed call: its status, and a message that names the field, its value and what is allowed. `{:?}`, which
/// `main` prints of an error that it returns, has both.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    status: Status,
    message: String,
}

impl Error {
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        Error { status, message: message.into() }
    }
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Error::new(Status::INVALID_ARGUMENT, message)
    }
    pub fn status(&self) -> Status {
        self.status
    }
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}: {}", self.status, self.message)
    }
}

impl std::error::Error for Error {}

/// The library's failure as an `Err`. Must follow the call at once, on its thread.
pub(crate) fn check(status: sys::msda_status) -> Result<()> {
    if status == sys::MSDA_SUCCESS as i32 {
        return Ok(());
    }
    // SAFETY: never null, valid until this thread's next call of the library.
    let message = unsafe { text(sys::msda_last_error()) };
    Err(Error::new(Status(status), message))
}

/// # Safety
/// The pointer is to a text that ends in a NUL.
pub(crate) unsafe fn text(pointer: *const c_char) -> String {
    CStr::from_ptr(pointer).to_string_lossy().into_owned()
}
