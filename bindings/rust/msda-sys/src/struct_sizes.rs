// Generated from include/msda.h by tools/generate; do not edit.

use core::mem::size_of;

/// Name, bytes as compiled here, and bytes that the library has on a 64-bit machine.
pub type StructSize = (&'static str, usize, usize);

pub const STRUCT_SIZES: &[StructSize] = &[
    ("msda_handle_options", size_of::<crate::msda_handle_options>(), 64),
    ("msda_problem", size_of::<crate::msda_problem>(), 296),
    ("msda_plan_options", size_of::<crate::msda_plan_options>(), 32),
    ("msda_plan_info", size_of::<crate::msda_plan_info>(), 48),
    ("msda_tensors", size_of::<crate::msda_tensors>(), 152),
    ("msda_kernel_info", size_of::<crate::msda_kernel_info>(), 32),
];
