use core::fmt;

use crate::struct_sizes::{StructSize, STRUCT_SIZES};

/// Why the library that was loaded must not be called by what was compiled here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbiMismatch {
    /// `MSDA_ABI_VERSION` of the library, which differs from this crate's.
    Version(u32),
    /// A struct whose bytes in this program differ from those of the library's interface.
    StructSize { name: &'static str, here: usize, interface: usize },
}

impl fmt::Display for AbiMismatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AbiMismatch::Version(library) => write!(
                formatter,
                "libmsda has ABI version {library}, this crate was written for {}; install a library and a \
                 crate of the same version",
                crate::MSDA_ABI_VERSION
            ),
            AbiMismatch::StructSize { name, here, interface } => write!(
                formatter,
                "struct {name} has {here} bytes in this program and {interface} in the library's interface"
            ),
        }
    }
}

/// Compares the ABI version of the library that was loaded, and the size of every struct, with those of the
/// interface that this crate declares. The library itself compares struct_size in every call.
pub fn check_abi() -> Result<(), AbiMismatch> {
    // SAFETY: takes nothing and cannot fail.
    compare(unsafe { crate::msda_abi_version() }, STRUCT_SIZES)
}

fn compare(library: u32, sizes: &[StructSize]) -> Result<(), AbiMismatch> {
    if library != crate::MSDA_ABI_VERSION {
        return Err(AbiMismatch::Version(library));
    }
    for &(name, here, interface) in sizes {
        if here != interface {
            return Err(AbiMismatch::StructSize { name, here, interface });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::ToString;

    use super::*;

    #[test]
    fn the_library_is_the_one_that_was_declared() {
        assert_eq!(check_abi(), Ok(()));
        assert!(STRUCT_SIZES.len() >= 6);
    }

    #[test]
    fn another_version_is_named() {
        let mismatch = compare(7, STRUCT_SIZES).unwrap_err();
        assert_eq!(mismatch, AbiMismatch::Version(7));
        let start = "libmsda has ABI version 7, this crate was written for 0";
        assert!(mismatch.to_string().starts_with(start), "{mismatch}");
    }

    #[test]
    fn a_struct_of_another_size_is_named() {
        let planted = [("msda_tensors", 8, 16)];
        let mismatch = compare(crate::MSDA_ABI_VERSION, &planted).unwrap_err();
        assert_eq!(
            mismatch.to_string(),
            "struct msda_tensors has 8 bytes in this program and 16 in the library's interface"
        );
    }
}
