// Generated from include/msda.h by tools/gen_bindings; do not edit.

pub const MSDA_VERSION_MAJOR: u32 = 0;
pub const MSDA_VERSION_MINOR: u32 = 1;
pub const MSDA_VERSION_PATCH: u32 = 0;
pub const MSDA_ABI_VERSION: u32 = 0;
pub const MSDA_DEVICE_CPU: i32 = -1;
#[doc = " How a call ended. msda_status_name() gives the name as text.\n @since 0.1"]
pub type msda_status = i32;
#[doc = " Done; every output is set."]
pub const MSDA_SUCCESS: _bindgen_ty_1 = 0;
#[doc = " The caller's mistake. msda_last_error() names the field, its value and what is allowed."]
pub const MSDA_ERROR_INVALID_ARGUMENT: _bindgen_ty_1 = 1;
#[doc = " A legal request that nothing in this build can carry out. For a problem, msda_explain() gives\n  the reason of each kernel."]
pub const MSDA_ERROR_UNSUPPORTED: _bindgen_ty_1 = 2;
#[doc = " A struct_size is larger than this library knows and the part it does not know is not zero: the\n  client asks for something newer than the library."]
pub const MSDA_ERROR_ABI_MISMATCH: _bindgen_ty_1 = 3;
#[doc = " A text, blob or workspace is too small. For texts and blobs *size was set to the size needed;\n  for a workspace msda_plan_info::workspace_bytes is the size needed."]
pub const MSDA_ERROR_BUFFER_TOO_SMALL: _bindgen_ty_1 = 4;
#[doc = " A serialized plan or tuning record belongs to another library version, kernel revision or\n  device. Create the plan anew."]
pub const MSDA_ERROR_STALE_PLAN: _bindgen_ty_1 = 5;
#[doc = " The allocator, the caller's or the library's own, had no memory left."]
pub const MSDA_ERROR_OUT_OF_MEMORY: _bindgen_ty_1 = 6;
#[doc = " The CUDA driver or runtime reported an error, or there is none: no driver, no such device, or\n  a library built without CUDA."]
pub const MSDA_ERROR_CUDA: _bindgen_ty_1 = 7;
#[doc = " A defect of the library. Please report it with the text of msda_last_error()."]
pub const MSDA_ERROR_INTERNAL: _bindgen_ty_1 = 8;
pub type _bindgen_ty_1 = core::ffi::c_uint;
#[doc = " Type of the elements of a tensor.\n @since 0.1"]
pub type msda_dtype = i32;
#[doc = " Not set: the default that the field documents."]
pub const MSDA_DTYPE_NONE: _bindgen_ty_2 = 0;
#[doc = " IEEE 754 binary32."]
pub const MSDA_F32: _bindgen_ty_2 = 1;
#[doc = " IEEE 754 binary16."]
pub const MSDA_F16: _bindgen_ty_2 = 2;
#[doc = " bfloat16: the upper 16 bits of a binary32."]
pub const MSDA_BF16: _bindgen_ty_2 = 3;
#[doc = " OCP FP8 E4M3: largest value 448, a NaN, no infinity. Only for value; see value_scale."]
pub const MSDA_F8_E4M3: _bindgen_ty_2 = 4;
#[doc = " IEEE 754 binary64."]
pub const MSDA_F64: _bindgen_ty_2 = 5;
pub type _bindgen_ty_2 = core::ffi::c_uint;
#[doc = " Which of the two computations a plan does.\n @since 0.1"]
pub type msda_operation = i32;
#[doc = " output from the inputs."]
pub const MSDA_FORWARD: _bindgen_ty_3 = 0;
#[doc = " Gradients of the inputs from the inputs and grad_output. Needs no result of a forward call."]
pub const MSDA_BACKWARD: _bindgen_ty_3 = 1;
pub type _bindgen_ty_3 = core::ffi::c_uint;
#[doc = " What the inputs are.\n @since 0.1"]
pub type msda_input_mode = i32;
#[doc = " coord and weight are given."]
pub const MSDA_INPUT_SAMPLED: _bindgen_ty_4 = 0;
#[doc = " reference, offset and logit are given; the kernel computes, for point k on level l,\n      weight = softmax(logit) over all K points of the head\n      coord  = reference.xy + offset / (W, H)                        reference_dim = 2\n      coord  = reference.xy + offset / P_l * reference.wh / 2        reference_dim = 4\n  The softmax is that of the logits as given: a NaN logit makes its head's output NaN."]
pub const MSDA_INPUT_FUSED: _bindgen_ty_4 = 1;
pub type _bindgen_ty_4 = core::ffi::c_uint;
#[doc = " How precisely the sums are formed. Storage types are the caller's choice either way.\n @since 0.1"]
pub type msda_math_mode = i32;
#[doc = " Products and sums in float32 (float64 for MSDA_F64), one rounding to the output type. With\n  u = 2^-24, bilinear weights c, corner values v, and dv the largest difference of neighbouring\n  values, an element of the forward result is within\n      u * ((4 K + 8) * sum |w c v| + 4 * max(W, H) * sum |w| * dv)\n  and half a unit in the last place of the output type of the exact result."]
pub const MSDA_MATH_ACCURATE: _bindgen_ty_5 = 0;
#[doc = " A kernel may form partial sums of at most 8 corners in 16 bits and flush them to float32.\n  Only for 16-bit values; it never makes other types less accurate."]
pub const MSDA_MATH_FAST: _bindgen_ty_5 = 1;
pub type _bindgen_ty_5 = core::ffi::c_uint;
#[doc = " Whether a result has the same bits on every run (same device, library and kernel id). The\n forward result always has; this governs the backward one.\n @since 0.1"]
pub type msda_determinism = i32;
#[doc = " Kernels whose bits differ from run to run are rejected."]
pub const MSDA_DETERMINISTIC: _bindgen_ty_6 = 0;
#[doc = " Any kernel, for example one that sums gradients by atomic additions."]
pub const MSDA_NOT_GUARANTEED: _bindgen_ty_6 = 1;
pub type _bindgen_ty_6 = core::ffi::c_uint;
#[doc = " How msda_plan_create() picks the kernel.\n @since 0.1"]
pub type msda_plan_mode = i32;
#[doc = " The kernel with the smallest predicted time, as msda_explain() ranks them."]
pub const MSDA_PLAN_HEURISTIC: _bindgen_ty_7 = 0;
#[doc = " The kernel measured fastest for this problem, from the handle's tuning records."]
pub const MSDA_PLAN_TUNED: _bindgen_ty_7 = 1;
#[doc = " The kernel that kernel_id names, or a failure that says why it does not take the problem."]
pub const MSDA_PLAN_FORCED: _bindgen_ty_7 = 2;
pub type _bindgen_ty_7 = core::ffi::c_uint;
#[doc = " How much the log callback is told. Each level includes those above it.\n @since 0.1"]
pub type msda_log_level = i32;
#[doc = " Nothing: the callback is never called."]
pub const MSDA_LOG_OFF: _bindgen_ty_8 = 0;
#[doc = " Failures that are also returned as a status."]
pub const MSDA_LOG_ERROR: _bindgen_ty_8 = 1;
#[doc = " Things that work but cost the caller something."]
pub const MSDA_LOG_WARN: _bindgen_ty_8 = 2;
#[doc = " What was chosen: devices, kernels, plans."]
pub const MSDA_LOG_INFO: _bindgen_ty_8 = 3;
#[doc = " Every call."]
pub const MSDA_LOG_TRACE: _bindgen_ty_8 = 4;
pub type _bindgen_ty_8 = core::ffi::c_uint;
#[doc = " A device, its threads, allocator, log and tuning records. Opaque.\n @since 0.1"]
#[repr(C)]
#[derive(Debug)]
pub struct msda_handle {
    _unused: [u8; 0],
}
#[doc = " A problem with the kernel chosen for it, prepared to run. Opaque, immutable.\n @since 0.1"]
#[repr(C)]
#[derive(Debug)]
pub struct msda_plan {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct CUstream_st {
    _unused: [u8; 0],
}
#[doc = " A CUDA stream: the same type as cudaStream_t and CUstream, without their headers. NULL on a CPU\n handle, and the default stream on a CUDA handle.\n @since 0.1"]
pub type msda_stream = *mut CUstream_st;
#[doc = " Receives log messages, on the thread that made the call they are about. It must not call the\n library, and must not throw or jump out.\n\n @param user     msda_handle_options::log_user\n @param level    how serious it is, MSDA_LOG_ERROR to MSDA_LOG_TRACE\n @param message  UTF-8, one line, ends in a NUL; valid during the call only\n @param length   bytes of the message, the NUL not counted\n @since 0.1"]
pub type msda_log_fn = ::core::option::Option<
    unsafe extern "C" fn(
        user: *mut core::ffi::c_void,
        level: msda_log_level,
        message: *const core::ffi::c_char,
        length: usize,
    ),
>;
#[doc = " Allocates what the library keeps for itself: handles, plans, tables. Called while handles and\n plans are created, never by msda_execute(). Must be safe to call from several threads.\n\n @param user       msda_handle_options::alloc_user\n @param bytes      how much, at least 1\n @param alignment  of the address, a power of two\n @param device     CUDA ordinal of the memory wanted, or MSDA_DEVICE_CPU for host memory\n @return the memory, or NULL when there is none: the call then ends in MSDA_ERROR_OUT_OF_MEMORY\n @since 0.1"]
pub type msda_alloc_fn = ::core::option::Option<
    unsafe extern "C" fn(
        user: *mut core::ffi::c_void,
        bytes: usize,
        alignment: usize,
        device: i32,
    ) -> *mut core::ffi::c_void,
>;
#[doc = " Frees what a msda_alloc_fn returned. Must be safe to call from several threads.\n\n @param user     msda_handle_options::alloc_user\n @param pointer  what the msda_alloc_fn returned, never NULL\n @param bytes    the size it was asked for\n @param device   the device it was asked for\n @since 0.1"]
pub type msda_free_fn = ::core::option::Option<
    unsafe extern "C" fn(
        user: *mut core::ffi::c_void,
        pointer: *mut core::ffi::c_void,
        bytes: usize,
        device: i32,
    ),
>;
#[doc = " What a handle is to be. Zeroed: CUDA device 0, no log, the library's own memory.\n @since 0.1"]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct msda_handle_options {
    #[doc = " sizeof(msda_handle_options)."]
    pub struct_size: usize,
    #[doc = " Log callback, or NULL."]
    pub log_fn: msda_log_fn,
    #[doc = " Handed to log_fn. Must live as long as the handle and its plans."]
    pub log_user: *mut core::ffi::c_void,
    #[doc = " Allocator, together with free_fn; both NULL: the library's own."]
    pub alloc_fn: msda_alloc_fn,
    #[doc = " Frees what alloc_fn returned; NULL exactly when alloc_fn is."]
    pub free_fn: msda_free_fn,
    #[doc = " Handed to alloc_fn and free_fn. Must live as long as the handle and its plans."]
    pub alloc_user: *mut core::ffi::c_void,
    #[doc = " Least serious level that log_fn is told."]
    pub log_level: msda_log_level,
    #[doc = " CUDA ordinal (0 or more), or MSDA_DEVICE_CPU."]
    pub device: i32,
    #[doc = " CPU handle: threads that work on one call, the caller's included; 0: all hardware threads.\n  Never changes a result. A CUDA handle ignores it."]
    pub thread_count: i32,
    #[doc = " No flags exist yet: 0."]
    pub flags: u32,
}
#[test]
fn bindgen_test_layout_msda_handle_options() {
    const UNINIT: ::core::mem::MaybeUninit<msda_handle_options> =
        ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<msda_handle_options>(),
        64usize,
        "Size of msda_handle_options"
    );
    assert_eq!(
        ::core::mem::align_of::<msda_handle_options>(),
        8usize,
        "Alignment of msda_handle_options"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: msda_handle_options::struct_size"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).log_fn) as usize - ptr as usize },
        8usize,
        "Offset of field: msda_handle_options::log_fn"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).log_user) as usize - ptr as usize },
        16usize,
        "Offset of field: msda_handle_options::log_user"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).alloc_fn) as usize - ptr as usize },
        24usize,
        "Offset of field: msda_handle_options::alloc_fn"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).free_fn) as usize - ptr as usize },
        32usize,
        "Offset of field: msda_handle_options::free_fn"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).alloc_user) as usize - ptr as usize },
        40usize,
        "Offset of field: msda_handle_options::alloc_user"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).log_level) as usize - ptr as usize },
        48usize,
        "Offset of field: msda_handle_options::log_level"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).device) as usize - ptr as usize },
        52usize,
        "Offset of field: msda_handle_options::device"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).thread_count) as usize - ptr as usize },
        56usize,
        "Offset of field: msda_handle_options::thread_count"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).flags) as usize - ptr as usize },
        60usize,
        "Offset of field: msda_handle_options::flags"
    );
}
#[doc = " The shapes, strides and types of one computation.\n\n Strides are in elements, never negative. A group of three that is all 0 means packed. Otherwise\n each is used as it is: 0 in part of a group repeats an input (broadcast). Two rows of output must\n not overlap. Gradients of inputs (grad_value, grad_coord, grad_weight, grad_reference,\n grad_offset, grad_logit) and reference are always packed.\n @since 0.1"]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct msda_problem {
    #[doc = " sizeof(msda_problem)."]
    pub struct_size: usize,
    #[doc = " Host [L][2]: (H, W) of each level in pixels, each 0 or more. NULL only if L is 0."]
    pub level_hw: *const i32,
    #[doc = " Host [L]: P_l, points of each level; NULL: point_count on every level."]
    pub point_counts: *const i32,
    #[doc = " Host [query_grid_count][2] = (H, W), or NULL. A hint of locality that never changes a result:\n  the queries are the pixels, row by row, of these grids in turn, so sum of H * W = Q. In an\n  encoder it is level_hw, in a bird's-eye-view model its one grid, in a decoder NULL."]
    pub query_hw: *const i32,
    #[doc = " B, 0 or more."]
    pub batch: i64,
    #[doc = " Q, 0 or more."]
    pub query_count: i64,
    #[doc = " M, 0 or more."]
    pub head_count: i64,
    #[doc = " D, 0 or more."]
    pub head_dim: i64,
    #[doc = " Elements between neighbours along [B][S][M] of value; D is contiguous."]
    pub value_strides: [i64; 3usize],
    #[doc = " Elements between neighbours along [B][Q][M] of coord and of offset; [K][2] is packed."]
    pub coord_strides: [i64; 3usize],
    #[doc = " Elements between neighbours along [B][Q][M] of weight and of logit; [K] is packed."]
    pub weight_strides: [i64; 3usize],
    #[doc = " Elements between neighbours along [B][Q][M] of output and of grad_output; D is contiguous."]
    pub output_strides: [i64; 3usize],
    #[doc = " L, 0 or more."]
    pub level_count: i32,
    #[doc = " P of every level, 0 or more; not looked at when point_counts is given."]
    pub point_count: i32,
    #[doc = " 0, or 1: each level is stored as (H + 2) x (W + 2) tokens with a border of one pixel around\n  it, and S counts the border. Coordinates and level_hw stay those of the H x W map. The border\n  must hold zeros (a kernel may read it or not); its gradient is zero."]
    pub value_border: i32,
    #[doc = " FUSED: 2 = (x, y), or 4 = (centre x, centre y, width, height), all normalised. SAMPLED: 0."]
    pub reference_dim: i32,
    #[doc = " Forward or backward."]
    pub operation: msda_operation,
    #[doc = " Which of the inputs of msda_tensors are given."]
    pub input_mode: msda_input_mode,
    #[doc = " Of value; has no default, MSDA_DTYPE_NONE is an error."]
    pub value_dtype: msda_dtype,
    #[doc = " Of coord, reference, offset and their gradients: F64, F32, F16 or BF16. NONE: F64 when value\n  is F64, else F32. Mind that 16-bit normalised coordinates are coarse: they step by 0.08\n  (F16) or 0.65 (BF16) pixels on a map of width 167."]
    pub coord_dtype: msda_dtype,
    #[doc = " Of weight, logit and their gradients: F64, F32, F16 or BF16. NONE: F64 when value is F64, else\n  F32."]
    pub weight_dtype: msda_dtype,
    #[doc = " Of output and grad_output: F64, F32, F16 or BF16. NONE: value_dtype, or F32 when value is\n  F8_E4M3."]
    pub output_dtype: msda_dtype,
    #[doc = " Of grad_value: F64, F32, F16 or BF16. NONE: value_dtype, or F32 when value is F8_E4M3."]
    pub grad_value_dtype: msda_dtype,
    #[doc = " How precisely the sums are formed."]
    pub math_mode: msda_math_mode,
    #[doc = " Whether the gradients have the same bits on every run."]
    pub determinism: msda_determinism,
    #[doc = " Grids in query_hw; 0 when it is NULL."]
    pub query_grid_count: i32,
}
#[test]
fn bindgen_test_layout_msda_problem() {
    const UNINIT: ::core::mem::MaybeUninit<msda_problem> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<msda_problem>(),
        216usize,
        "Size of msda_problem"
    );
    assert_eq!(
        ::core::mem::align_of::<msda_problem>(),
        8usize,
        "Alignment of msda_problem"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: msda_problem::struct_size"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).level_hw) as usize - ptr as usize },
        8usize,
        "Offset of field: msda_problem::level_hw"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).point_counts) as usize - ptr as usize },
        16usize,
        "Offset of field: msda_problem::point_counts"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).query_hw) as usize - ptr as usize },
        24usize,
        "Offset of field: msda_problem::query_hw"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).batch) as usize - ptr as usize },
        32usize,
        "Offset of field: msda_problem::batch"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).query_count) as usize - ptr as usize },
        40usize,
        "Offset of field: msda_problem::query_count"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).head_count) as usize - ptr as usize },
        48usize,
        "Offset of field: msda_problem::head_count"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).head_dim) as usize - ptr as usize },
        56usize,
        "Offset of field: msda_problem::head_dim"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).value_strides) as usize - ptr as usize },
        64usize,
        "Offset of field: msda_problem::value_strides"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).coord_strides) as usize - ptr as usize },
        88usize,
        "Offset of field: msda_problem::coord_strides"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).weight_strides) as usize - ptr as usize },
        112usize,
        "Offset of field: msda_problem::weight_strides"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).output_strides) as usize - ptr as usize },
        136usize,
        "Offset of field: msda_problem::output_strides"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).level_count) as usize - ptr as usize },
        160usize,
        "Offset of field: msda_problem::level_count"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).point_count) as usize - ptr as usize },
        164usize,
        "Offset of field: msda_problem::point_count"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).value_border) as usize - ptr as usize },
        168usize,
        "Offset of field: msda_problem::value_border"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reference_dim) as usize - ptr as usize },
        172usize,
        "Offset of field: msda_problem::reference_dim"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).operation) as usize - ptr as usize },
        176usize,
        "Offset of field: msda_problem::operation"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).input_mode) as usize - ptr as usize },
        180usize,
        "Offset of field: msda_problem::input_mode"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).value_dtype) as usize - ptr as usize },
        184usize,
        "Offset of field: msda_problem::value_dtype"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).coord_dtype) as usize - ptr as usize },
        188usize,
        "Offset of field: msda_problem::coord_dtype"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).weight_dtype) as usize - ptr as usize },
        192usize,
        "Offset of field: msda_problem::weight_dtype"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).output_dtype) as usize - ptr as usize },
        196usize,
        "Offset of field: msda_problem::output_dtype"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).grad_value_dtype) as usize - ptr as usize },
        200usize,
        "Offset of field: msda_problem::grad_value_dtype"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).math_mode) as usize - ptr as usize },
        204usize,
        "Offset of field: msda_problem::math_mode"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).determinism) as usize - ptr as usize },
        208usize,
        "Offset of field: msda_problem::determinism"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).query_grid_count) as usize - ptr as usize },
        212usize,
        "Offset of field: msda_problem::query_grid_count"
    );
}
#[doc = " How a plan is made. Zeroed: the kernel predicted to be fastest, any workspace, the whole device.\n @since 0.1"]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct msda_plan_options {
    #[doc = " sizeof(msda_plan_options)."]
    pub struct_size: usize,
    #[doc = " MSDA_PLAN_FORCED: the kernel's id as msda_kernel_get() gives it, for example \"ref.cpu@1\".\n  Else NULL."]
    pub kernel_id: *const core::ffi::c_char,
    #[doc = " Kernels that need more workspace than this many bytes are rejected; 0: no limit."]
    pub workspace_limit_bytes: usize,
    #[doc = " How the kernel is picked."]
    pub mode: msda_plan_mode,
    #[doc = " CUDA: streaming multiprocessors to use at most; 0: all. CPU: 0."]
    pub sm_count_limit: i32,
}
#[test]
fn bindgen_test_layout_msda_plan_options() {
    const UNINIT: ::core::mem::MaybeUninit<msda_plan_options> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<msda_plan_options>(),
        32usize,
        "Size of msda_plan_options"
    );
    assert_eq!(
        ::core::mem::align_of::<msda_plan_options>(),
        8usize,
        "Alignment of msda_plan_options"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: msda_plan_options::struct_size"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).kernel_id) as usize - ptr as usize },
        8usize,
        "Offset of field: msda_plan_options::kernel_id"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).workspace_limit_bytes) as usize - ptr as usize },
        16usize,
        "Offset of field: msda_plan_options::workspace_limit_bytes"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).mode) as usize - ptr as usize },
        24usize,
        "Offset of field: msda_plan_options::mode"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).sm_count_limit) as usize - ptr as usize },
        28usize,
        "Offset of field: msda_plan_options::sm_count_limit"
    );
}
#[doc = " What a plan is. Set struct_size, the library sets the rest.\n @since 0.1"]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct msda_plan_info {
    #[doc = " sizeof(msda_plan_info), set by the caller."]
    pub struct_size: usize,
    #[doc = " The kernel chosen, \"family.target.dtype[...]@revision\"; the same id and device always give\n  the same bits. Lives as long as the plan."]
    pub kernel_id: *const core::ffi::c_char,
    #[doc = " Bytes of workspace that each call needs; 0: none."]
    pub workspace_bytes: usize,
    #[doc = " The alignment that the workspace needs, in bytes."]
    pub workspace_alignment: usize,
    #[doc = " Predicted time of one call, in microseconds."]
    pub predicted_us: f64,
    #[doc = " Kernels launched by one call; 1 on the CPU."]
    pub launch_count: i32,
    #[doc = " 1: the result has the same bits on every run; 0: that is not promised."]
    pub is_deterministic: i32,
}
#[test]
fn bindgen_test_layout_msda_plan_info() {
    const UNINIT: ::core::mem::MaybeUninit<msda_plan_info> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<msda_plan_info>(),
        48usize,
        "Size of msda_plan_info"
    );
    assert_eq!(
        ::core::mem::align_of::<msda_plan_info>(),
        8usize,
        "Alignment of msda_plan_info"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: msda_plan_info::struct_size"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).kernel_id) as usize - ptr as usize },
        8usize,
        "Offset of field: msda_plan_info::kernel_id"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).workspace_bytes) as usize - ptr as usize },
        16usize,
        "Offset of field: msda_plan_info::workspace_bytes"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).workspace_alignment) as usize - ptr as usize },
        24usize,
        "Offset of field: msda_plan_info::workspace_alignment"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).predicted_us) as usize - ptr as usize },
        32usize,
        "Offset of field: msda_plan_info::predicted_us"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).launch_count) as usize - ptr as usize },
        40usize,
        "Offset of field: msda_plan_info::launch_count"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).is_deterministic) as usize - ptr as usize },
        44usize,
        "Offset of field: msda_plan_info::is_deterministic"
    );
}
#[doc = " The buffers of one call: device pointers on a CUDA handle, host pointers on a CPU handle, each\n aligned to its element size.\n\n Inputs of the plan that are not empty must be given. The inputs of the other input mode, and the\n buffers of the other operation, are not looked at, so one struct can serve a forward and a\n backward plan. A buffer that is written must not overlap any other buffer.\n @since 0.1"]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct msda_tensors {
    #[doc = " sizeof(msda_tensors)."]
    pub struct_size: usize,
    #[doc = " [B][S][M][D] of value_dtype, value_strides."]
    pub value: *const core::ffi::c_void,
    #[doc = " SAMPLED: [B][Q][M][K][2] of coord_dtype, coord_strides: normalised (x, y)."]
    pub coord: *const core::ffi::c_void,
    #[doc = " SAMPLED: [B][Q][M][K] of weight_dtype, weight_strides."]
    pub weight: *const core::ffi::c_void,
    #[doc = " FUSED: [B][Q][L][reference_dim] of coord_dtype, packed: normalised points or boxes."]
    pub reference: *const core::ffi::c_void,
    #[doc = " FUSED: [B][Q][M][K][2] of coord_dtype, coord_strides: in pixels of the point's level\n  (reference_dim 2) or in units of box size / (2 P_l) (reference_dim 4)."]
    pub offset: *const core::ffi::c_void,
    #[doc = " FUSED: [B][Q][M][K] of weight_dtype, weight_strides: attention weights before the softmax."]
    pub logit: *const core::ffi::c_void,
    #[doc = " [M] float: the value of head m is value_scale[m] times what is stored. NULL: 1. Only with\n  F8_E4M3 values, else NULL."]
    pub value_scale: *const f32,
    #[doc = " FORWARD: [B][Q][M][D] of output_dtype, output_strides."]
    pub output: *mut core::ffi::c_void,
    #[doc = " BACKWARD: [B][Q][M][D] of output_dtype, output_strides: derivative of the loss by output."]
    pub grad_output: *const core::ffi::c_void,
    #[doc = " BACKWARD, this and those below: the derivative of the loss by an input, written in full, not\n  accumulated; NULL: not wanted and not computed.\n  [B][S][M][D] of grad_value_dtype, packed."]
    pub grad_value: *mut core::ffi::c_void,
    #[doc = " SAMPLED: [B][Q][M][K][2] of coord_dtype, packed."]
    pub grad_coord: *mut core::ffi::c_void,
    #[doc = " SAMPLED: [B][Q][M][K] of weight_dtype, packed."]
    pub grad_weight: *mut core::ffi::c_void,
    #[doc = " FUSED: [B][Q][L][reference_dim] of coord_dtype, packed."]
    pub grad_reference: *mut core::ffi::c_void,
    #[doc = " FUSED: [B][Q][M][K][2] of coord_dtype, packed."]
    pub grad_offset: *mut core::ffi::c_void,
    #[doc = " FUSED: [B][Q][M][K] of weight_dtype, packed."]
    pub grad_logit: *mut core::ffi::c_void,
    #[doc = " Scratch memory of the call, aligned to msda_plan_info::workspace_alignment; its content before\n  and after means nothing. NULL only if the plan needs none."]
    pub workspace: *mut core::ffi::c_void,
    #[doc = " Bytes of workspace, at least msda_plan_info::workspace_bytes."]
    pub workspace_bytes: usize,
}
#[test]
fn bindgen_test_layout_msda_tensors() {
    const UNINIT: ::core::mem::MaybeUninit<msda_tensors> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<msda_tensors>(),
        144usize,
        "Size of msda_tensors"
    );
    assert_eq!(
        ::core::mem::align_of::<msda_tensors>(),
        8usize,
        "Alignment of msda_tensors"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: msda_tensors::struct_size"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).value) as usize - ptr as usize },
        8usize,
        "Offset of field: msda_tensors::value"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).coord) as usize - ptr as usize },
        16usize,
        "Offset of field: msda_tensors::coord"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).weight) as usize - ptr as usize },
        24usize,
        "Offset of field: msda_tensors::weight"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reference) as usize - ptr as usize },
        32usize,
        "Offset of field: msda_tensors::reference"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).offset) as usize - ptr as usize },
        40usize,
        "Offset of field: msda_tensors::offset"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).logit) as usize - ptr as usize },
        48usize,
        "Offset of field: msda_tensors::logit"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).value_scale) as usize - ptr as usize },
        56usize,
        "Offset of field: msda_tensors::value_scale"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).output) as usize - ptr as usize },
        64usize,
        "Offset of field: msda_tensors::output"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).grad_output) as usize - ptr as usize },
        72usize,
        "Offset of field: msda_tensors::grad_output"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).grad_value) as usize - ptr as usize },
        80usize,
        "Offset of field: msda_tensors::grad_value"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).grad_coord) as usize - ptr as usize },
        88usize,
        "Offset of field: msda_tensors::grad_coord"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).grad_weight) as usize - ptr as usize },
        96usize,
        "Offset of field: msda_tensors::grad_weight"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).grad_reference) as usize - ptr as usize },
        104usize,
        "Offset of field: msda_tensors::grad_reference"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).grad_offset) as usize - ptr as usize },
        112usize,
        "Offset of field: msda_tensors::grad_offset"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).grad_logit) as usize - ptr as usize },
        120usize,
        "Offset of field: msda_tensors::grad_logit"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).workspace) as usize - ptr as usize },
        128usize,
        "Offset of field: msda_tensors::workspace"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).workspace_bytes) as usize - ptr as usize },
        136usize,
        "Offset of field: msda_tensors::workspace_bytes"
    );
}
#[doc = " What a kernel is. Set struct_size, the library sets the rest.\n @since 0.1"]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct msda_kernel_info {
    #[doc = " sizeof(msda_kernel_info), set by the caller."]
    pub struct_size: usize,
    #[doc = " Its id, \"family.target.dtype[...]@revision\". The revision rises when its results or the\n  meaning of its tuning change. Lives as long as the library is loaded."]
    pub kernel_id: *const core::ffi::c_char,
    #[doc = " The first part of the id. Lives as long as the library is loaded."]
    pub family: *const core::ffi::c_char,
    #[doc = " Lowest compute capability it runs on, times ten (90 is 9.0); 0: it runs on the CPU."]
    pub sm_min: i32,
    #[doc = " Highest compute capability it runs on, times ten; 0: no upper end."]
    pub sm_max: i32,
}
#[test]
fn bindgen_test_layout_msda_kernel_info() {
    const UNINIT: ::core::mem::MaybeUninit<msda_kernel_info> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<msda_kernel_info>(),
        32usize,
        "Size of msda_kernel_info"
    );
    assert_eq!(
        ::core::mem::align_of::<msda_kernel_info>(),
        8usize,
        "Alignment of msda_kernel_info"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: msda_kernel_info::struct_size"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).kernel_id) as usize - ptr as usize },
        8usize,
        "Offset of field: msda_kernel_info::kernel_id"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).family) as usize - ptr as usize },
        16usize,
        "Offset of field: msda_kernel_info::family"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).sm_min) as usize - ptr as usize },
        24usize,
        "Offset of field: msda_kernel_info::sm_min"
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).sm_max) as usize - ptr as usize },
        28usize,
        "Offset of field: msda_kernel_info::sm_max"
    );
}
extern "C" {
    #[doc = " Version of the library that is loaded, which may be newer than this header.\n\n @return MSDA_VERSION_MAJOR * 10000 + MSDA_VERSION_MINOR * 100 + MSDA_VERSION_PATCH of the library\n @sync host only\n @threads any, at any time\n @owns nothing\n @since 0.1"]
    pub fn msda_version() -> u32;
}
extern "C" {
    #[doc = " Version of the binary interface of the library that is loaded. A client built with another\n MSDA_ABI_VERSION must not call anything else.\n\n @return MSDA_ABI_VERSION of the library\n @sync host only\n @threads any, at any time\n @owns nothing\n @since 0.1"]
    pub fn msda_abi_version() -> u32;
}
extern "C" {
    #[doc = " One line about how the library was built: version, compiler, CPU targets, and CUDA architectures\n or why there are none. For people and logs; its form is not part of the contract.\n\n @return UTF-8 text, never NULL\n @sync host only\n @threads any, at any time\n @owns the library; the text lives as long as the library is loaded\n @since 0.1"]
    pub fn msda_build_info() -> *const core::ffi::c_char;
}
extern "C" {
    #[doc = " The name of a status as it is spelled in this header, for example \"MSDA_ERROR_CUDA\".\n\n @param status  any number\n @return the name; \"MSDA_ERROR_UNKNOWN\" for a number that is no status; never NULL\n @sync host only\n @threads any, at any time\n @owns the library; the text lives as long as the library is loaded\n @since 0.1"]
    pub fn msda_status_name(status: msda_status) -> *const core::ffi::c_char;
}
extern "C" {
    #[doc = " What went wrong in the last call on this thread that failed, as one sentence: the function, the\n field, its value, and what is allowed. Read it right after the failure.\n\n @return UTF-8 text, \"\" when no call on this thread has failed; never NULL\n @sync host only\n @threads any; every thread sees its own text\n @owns the library; the text lives until the next call of the library on this thread\n @since 0.1"]
    pub fn msda_last_error() -> *const core::ffi::c_char;
}
extern "C" {
    #[doc = " Creates a handle for one device. A CPU handle starts its threads here; they sleep when idle.\n\n @param options  what it is to be, or NULL for a zeroed struct\n @param out      receives the handle\n @status MSDA_SUCCESS  *out is a handle\n @status MSDA_ERROR_INVALID_ARGUMENT  a field is out of range, only one of alloc_fn and free_fn is\n     set, or out is NULL\n @status MSDA_ERROR_ABI_MISMATCH  options has unknown fields that are not zero\n @status MSDA_ERROR_CUDA  a CUDA device was asked for and there is no driver, no such device, or\n     the library was built without CUDA\n @sync host only for a CPU handle; may block for a CUDA handle (context creation)\n @threads any, at any time\n @owns the caller, who ends it with msda_handle_destroy(); options is not kept, but the pointers\n     log_user and alloc_user in it are\n @since 0.1"]
    pub fn msda_handle_create(
        options: *const msda_handle_options,
        out: *mut *mut msda_handle,
    ) -> msda_status;
}
extern "C" {
    #[doc = " Gives up a handle. Its threads and memory go with it or, if it still has plans, with the last of\n those: a plan stays good when its handle is destroyed first.\n\n @param handle  the handle, or NULL (then nothing happens)\n @sync may block until its threads have ended\n @threads no other thread may be inside a call with the handle; calls with its plans may go on\n @owns frees the handle, once its plans are destroyed too\n @since 0.1"]
    pub fn msda_handle_destroy(handle: *mut msda_handle);
}
extern "C" {
    #[doc = " How many kernels the library has, whether or not they run on the handle's device.\n\n @param handle  a handle\n @param out     receives the number\n @status MSDA_SUCCESS  *out is set\n @status MSDA_ERROR_INVALID_ARGUMENT  handle or out is NULL\n @sync host only\n @threads any\n @owns nothing\n @since 0.1"]
    pub fn msda_kernel_count(handle: *const msda_handle, out: *mut usize) -> msda_status;
}
extern "C" {
    #[doc = " Describes one kernel of the library.\n\n @param handle  a handle\n @param index   which one, 0 to msda_kernel_count() - 1; the order is that of the library's list\n @param out     its struct_size is set by the caller; receives the description\n @status MSDA_SUCCESS  *out is set\n @status MSDA_ERROR_INVALID_ARGUMENT  index is too large, struct_size is too small, or handle or\n     out is NULL\n @status MSDA_ERROR_ABI_MISMATCH  out has unknown fields that are not zero\n @sync host only\n @threads any\n @owns the library keeps the texts in *out\n @since 0.1"]
    pub fn msda_kernel_get(
        handle: *const msda_handle,
        index: usize,
        out: *mut msda_kernel_info,
    ) -> msda_status;
}
extern "C" {
    #[doc = " Says what each kernel makes of a problem, one line a kernel, those that take it first and by\n predicted time:\n\n     1  simd.cpu.f32@1  predicted 812.3 us\n     2  ref.cpu@1  predicted 91843.0 us\n     -  simd.cpu.f16@1  rejected: does not take this value_dtype\n\n @param handle     a handle\n @param problem    the problem\n @param text       receives UTF-8 text that ends in a NUL, or NULL to ask for the size\n @param text_size  in: bytes at text; out: bytes of the text with its NUL\n @status MSDA_SUCCESS  the text, or with text NULL the size, is set\n @status MSDA_ERROR_INVALID_ARGUMENT  a field of problem is out of range, or handle, problem or\n     text_size is NULL\n @status MSDA_ERROR_ABI_MISMATCH  problem has unknown fields that are not zero\n @status MSDA_ERROR_BUFFER_TOO_SMALL  *text_size is the size needed; text is untouched\n @sync host only\n @threads any\n @owns nothing is kept\n @since 0.1"]
    pub fn msda_explain(
        handle: *const msda_handle,
        problem: *const msda_problem,
        text: *mut core::ffi::c_char,
        text_size: *mut usize,
    ) -> msda_status;
}
extern "C" {
    #[doc = " Chooses a kernel for a problem and prepares everything but the launch. Nothing runs on the\n device.\n\n @param handle   a handle\n @param problem  the problem; its arrays are copied\n @param options  how the kernel is picked, or NULL for a zeroed struct\n @param out      receives the plan\n @status MSDA_SUCCESS  *out is a plan\n @status MSDA_ERROR_INVALID_ARGUMENT  a field of problem or options is out of range, a tensor\n     would have more elements or bytes than an int64 counts, kernel_id names no kernel, or handle,\n     problem or out is NULL\n @status MSDA_ERROR_UNSUPPORTED  no kernel takes the problem, or the one forced does not; the\n     message has the reason. Also MSDA_PLAN_TUNED, which comes in a later version\n @status MSDA_ERROR_ABI_MISMATCH  problem or options has unknown fields that are not zero\n @status MSDA_ERROR_CUDA  the driver refused a kernel or a table\n @sync host only\n @threads any; several threads may use one handle\n @owns the caller, who ends it with msda_plan_destroy(); problem and options are\n     not kept\n @since 0.1"]
    pub fn msda_plan_create(
        handle: *mut msda_handle,
        problem: *const msda_problem,
        options: *const msda_plan_options,
        out: *mut *mut msda_plan,
    ) -> msda_status;
}
extern "C" {
    #[doc = " Times the front runners on the caller's own tensors, keeps the winner in the handle's tuning\n records and makes a plan with it. The speed of a kernel depends on where the points land, so the\n sample should be typical. This version checks its arguments and returns MSDA_ERROR_UNSUPPORTED.\n\n @param handle     a handle\n @param problem    the problem; its arrays are copied\n @param options    limits of the plan, or NULL for a zeroed struct\n @param sample     tensors of a typical call; its output or gradients are overwritten\n @param stream     where to run, NULL on a CPU handle\n @param budget_ms  time to spend, in milliseconds, greater than 0 and finite\n @param out        receives the plan\n @status MSDA_SUCCESS  *out is a plan\n @status MSDA_ERROR_INVALID_ARGUMENT  a field or argument is out of range, or handle, problem,\n     sample or out is NULL\n @status MSDA_ERROR_UNSUPPORTED  no kernel takes the problem; in this version, always\n @status MSDA_ERROR_ABI_MISMATCH  a struct has unknown fields that are not zero\n @status MSDA_ERROR_CUDA  a kernel could not be run\n @sync may block: runs kernels and waits for them\n @threads any; other work on the device disturbs the measurement\n @owns the caller, who ends it with msda_plan_destroy()\n @since 0.1"]
    pub fn msda_plan_tune(
        handle: *mut msda_handle,
        problem: *const msda_problem,
        options: *const msda_plan_options,
        sample: *const msda_tensors,
        stream: msda_stream,
        budget_ms: f64,
        out: *mut *mut msda_plan,
    ) -> msda_status;
}
extern "C" {
    #[doc = " Describes a plan: its kernel and the workspace that each call needs.\n\n @param plan  a plan\n @param out   its struct_size is set by the caller; receives the description\n @status MSDA_SUCCESS  *out is set\n @status MSDA_ERROR_INVALID_ARGUMENT  struct_size is too small, or plan or out is NULL\n @status MSDA_ERROR_ABI_MISMATCH  out has unknown fields that are not zero\n @sync host only\n @threads any\n @owns the plan keeps the text in *out\n @since 0.1"]
    pub fn msda_plan_get_info(plan: *const msda_plan, out: *mut msda_plan_info) -> msda_status;
}
extern "C" {
    #[doc = " Writes a plan as bytes that msda_plan_deserialize() turns into the same plan again, on the same\n kind of device with the same library. The format is not part of the contract.\n\n @param plan       a plan\n @param blob       receives the bytes, or NULL to ask for the size\n @param blob_size  in: bytes at blob; out: bytes of the blob\n @status MSDA_SUCCESS  the blob, or with blob NULL the size, is set\n @status MSDA_ERROR_INVALID_ARGUMENT  plan or blob_size is NULL\n @status MSDA_ERROR_BUFFER_TOO_SMALL  *blob_size is the size needed; blob is untouched\n @sync host only\n @threads any\n @owns nothing is kept\n @since 0.1"]
    pub fn msda_plan_serialize(
        plan: *const msda_plan,
        blob: *mut core::ffi::c_void,
        blob_size: *mut usize,
    ) -> msda_status;
}
extern "C" {
    #[doc = " Makes the plan again that msda_plan_serialize() wrote, with the same kernel. Safe on bytes from\n anywhere: a damaged blob is refused, never trusted.\n\n @param handle     a handle\n @param blob       the bytes; need not be aligned\n @param blob_size  their number\n @param out        receives the plan\n @status MSDA_SUCCESS  *out is a plan\n @status MSDA_ERROR_INVALID_ARGUMENT  the bytes are damaged, cut short or no plan, or handle, blob\n     or out is NULL\n @status MSDA_ERROR_STALE_PLAN  the plan is of another library version, kernel revision or device\n @status MSDA_ERROR_CUDA  the driver refused a kernel or a table\n @sync host only\n @threads any; several threads may use one handle\n @owns the caller, who ends it with msda_plan_destroy(); blob is not kept\n @since 0.1"]
    pub fn msda_plan_deserialize(
        handle: *mut msda_handle,
        blob: *const core::ffi::c_void,
        blob_size: usize,
        out: *mut *mut msda_plan,
    ) -> msda_status;
}
extern "C" {
    #[doc = " Ends a plan.\n\n @param plan  the plan, or NULL (then nothing happens)\n @sync may block on a CUDA handle, until calls in flight are done\n @threads no thread may be inside msda_execute() with the plan\n @owns frees the plan\n @since 0.1"]
    pub fn msda_plan_destroy(plan: *mut msda_plan);
}
extern "C" {
    #[doc = " Runs a plan on the caller's buffers. Allocates nothing and synchronises nothing; the very first\n call may be captured in a CUDA graph. Runs on the plan's device, whatever the current one is.\n\n @param plan     a plan\n @param tensors  the buffers; the struct is not kept\n @param stream   where to run; NULL on a CPU handle\n @status MSDA_SUCCESS  CPU: done. CUDA: enqueued\n @status MSDA_ERROR_INVALID_ARGUMENT  a buffer that the plan needs is NULL, misaligned or overlaps\n     one that is written, a gradient of the other input mode is asked for, the workspace is NULL\n     or misaligned, value_scale is given without F8_E4M3 values, stream is not NULL on a CPU\n     handle, the process was forked after the handle was created, or plan or tensors is NULL\n @status MSDA_ERROR_BUFFER_TOO_SMALL  workspace_bytes is less than the plan needs\n @status MSDA_ERROR_ABI_MISMATCH  tensors has unknown fields that are not zero\n @status MSDA_ERROR_CUDA  the launch was refused\n @sync CPU: returns when the work is done. CUDA: enqueues\n @threads any; one plan may run on several threads and streams at once, each call with buffers and\n     a workspace of its own. The calls of one CPU handle share its threads\n @owns the caller keeps the buffers, and keeps them alive until the work is done\n @since 0.1"]
    pub fn msda_execute(
        plan: *const msda_plan,
        tensors: *const msda_tensors,
        stream: msda_stream,
    ) -> msda_status;
}
extern "C" {
    #[doc = " Writes the handle's tuning records as text, for msda_tuning_import() in a later run. This version\n checks its arguments and returns MSDA_ERROR_UNSUPPORTED.\n\n @param handle     a handle\n @param text       receives UTF-8 text that ends in a NUL, or NULL to ask for the size\n @param text_size  in: bytes at text; out: bytes of the text with its NUL\n @status MSDA_SUCCESS  the text, or with text NULL the size, is set\n @status MSDA_ERROR_INVALID_ARGUMENT  handle or text_size is NULL\n @status MSDA_ERROR_BUFFER_TOO_SMALL  *text_size is the size needed; text is untouched\n @status MSDA_ERROR_UNSUPPORTED  in this version, always\n @sync host only\n @threads any\n @owns nothing is kept\n @since 0.1"]
    pub fn msda_tuning_export(
        handle: *const msda_handle,
        text: *mut core::ffi::c_char,
        text_size: *mut usize,
    ) -> msda_status;
}
extern "C" {
    #[doc = " Adds the records that msda_tuning_export() wrote to the handle's. This version checks its\n arguments and returns MSDA_ERROR_UNSUPPORTED.\n\n @param handle     a handle\n @param text       UTF-8 text; a NUL at its end is allowed\n @param text_size  its bytes\n @status MSDA_SUCCESS  the records are added\n @status MSDA_ERROR_INVALID_ARGUMENT  the text is no tuning record, or handle or text is NULL\n @status MSDA_ERROR_STALE_PLAN  the records are of another library version or device\n @status MSDA_ERROR_UNSUPPORTED  in this version, always\n @sync host only\n @threads any\n @owns nothing is kept\n @since 0.1"]
    pub fn msda_tuning_import(
        handle: *mut msda_handle,
        text: *const core::ffi::c_char,
        text_size: usize,
    ) -> msda_status;
}
