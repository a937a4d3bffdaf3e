// Generated from include/msda.h by tools/generate; do not edit.

pub const MSDA_VERSION_MAJOR: u32 = 0;
pub const MSDA_VERSION_MINOR: u32 = 1;
pub const MSDA_VERSION_PATCH: u32 = 0;
pub const MSDA_ABI_VERSION: u32 = 0;
pub const MSDA_DEVICE_CPU: i32 = -1;
/** How a call ended. msda_status_name() gives the name as text.
 @since 0.1*/
pub type msda_status = i32;
/// Done; every output is set.
pub const MSDA_SUCCESS: _bindgen_ty_1 = 0;
/// The caller's mistake. msda_last_error() names the field, its value and what is allowed.
pub const MSDA_ERROR_INVALID_ARGUMENT: _bindgen_ty_1 = 1;
/** A legal request that nothing in this build can carry out. For a problem, msda_explain() gives
  the reason of each kernel.*/
pub const MSDA_ERROR_UNSUPPORTED: _bindgen_ty_1 = 2;
/** A struct_size is larger than this library knows and the part it does not know is not zero: the
  client asks for something newer than the library.*/
pub const MSDA_ERROR_ABI_MISMATCH: _bindgen_ty_1 = 3;
/** A text, blob or workspace is too small. For texts and blobs *size was set to the size needed;
  for a workspace msda_plan_info::workspace_bytes is the size needed.*/
pub const MSDA_ERROR_BUFFER_TOO_SMALL: _bindgen_ty_1 = 4;
/** A serialized plan belongs to another library version, kernel revision or device: create it
  anew. Or a text of tuning records has another version's format.*/
pub const MSDA_ERROR_STALE_PLAN: _bindgen_ty_1 = 5;
/// The allocator, the caller's or the library's own, had no memory left.
pub const MSDA_ERROR_OUT_OF_MEMORY: _bindgen_ty_1 = 6;
/** The CUDA driver or runtime reported an error, or there is none: no driver, no such device, or
  a library built without CUDA.*/
pub const MSDA_ERROR_CUDA: _bindgen_ty_1 = 7;
/// A defect of the library. Please report it with the text of msda_last_error().
pub const MSDA_ERROR_INTERNAL: _bindgen_ty_1 = 8;
pub type _bindgen_ty_1 = core::ffi::c_uint;
/** Type of the elements of a tensor.
 @since 0.1*/
pub type msda_dtype = i32;
/// Not set: the default that the field documents.
pub const MSDA_DTYPE_NONE: _bindgen_ty_2 = 0;
/// IEEE 754 binary32.
pub const MSDA_DTYPE_F32: _bindgen_ty_2 = 1;
/// IEEE 754 binary16.
pub const MSDA_DTYPE_F16: _bindgen_ty_2 = 2;
/// bfloat16: the upper 16 bits of a binary32.
pub const MSDA_DTYPE_BF16: _bindgen_ty_2 = 3;
/// OCP FP8 E4M3: largest value 448, a NaN, no infinity. Only for value; see value_scale.
pub const MSDA_DTYPE_F8_E4M3: _bindgen_ty_2 = 4;
/// IEEE 754 binary64.
pub const MSDA_DTYPE_F64: _bindgen_ty_2 = 5;
pub type _bindgen_ty_2 = core::ffi::c_uint;
/** Which of the two computations a plan does.
 @since 0.1*/
pub type msda_operation = i32;
/// output from the inputs.
pub const MSDA_FORWARD: _bindgen_ty_3 = 0;
/// Gradients of the inputs from the inputs and grad_output. Needs no result of a forward call.
pub const MSDA_BACKWARD: _bindgen_ty_3 = 1;
pub type _bindgen_ty_3 = core::ffi::c_uint;
/** What the inputs are.
 @since 0.1*/
pub type msda_input_mode = i32;
/// coord and weight are given.
pub const MSDA_INPUT_SAMPLED: _bindgen_ty_4 = 0;
/** reference, offset and logit are given; the kernel computes, for point k on level l,
      weight = softmax(logit) over all K points of the head
      coord  = reference.xy + offset / (W, H)                        reference_dim = 2
      coord  = reference.xy + offset / P_l * reference.wh / 2        reference_dim = 4
  The softmax is that of the logits as given: a NaN logit makes its head's output NaN.*/
pub const MSDA_INPUT_FUSED: _bindgen_ty_4 = 1;
pub type _bindgen_ty_4 = core::ffi::c_uint;
/** How precisely the sums are formed. Storage types are the caller's choice either way.
 @since 0.1*/
pub type msda_math_mode = i32;
/** Products and sums in float32 (float64 for MSDA_DTYPE_F64), one rounding to the output type.
 With u = 2^-24, bilinear weights c, corner values v, and dv the largest difference of
 neighbouring values, an element of the forward result is within u * ((4 K + 8) * sum |w c v| +
 4 * max(W, H) * sum |w| * dv) and half a unit in the last place of the output type of the exact
 result; of fused input u * 2 * sum (largest logit - logit) * |w c v| more.*/
pub const MSDA_MATH_ACCURATE: _bindgen_ty_5 = 0;
/** On MSDA_DTYPE_F16 and MSDA_DTYPE_F8_E4M3 values a kernel may round weights to float16, form
 sums of at most 8 corners in float16, and add these in float32. With v = 2^-11 that may add v *
 (12 * sum |w c v| + 8 * sum |w| dv) + K * 2^-22 * (1 + max |v|) to the error above, the last
 term for products below float16's normal numbers, times the head's scale where there is one.
 Sums beyond float16 are formed in float32. Other types, MSDA_DTYPE_BF16 with its 8 bits among
 them, are as accurate as above.*/
pub const MSDA_MATH_FAST: _bindgen_ty_5 = 1;
pub type _bindgen_ty_5 = core::ffi::c_uint;
/** Where the points of a query land, which no shape tells and which decides whether GPU kernels that
 cache the small levels in shared memory pay. A hint: any value is right for any points, and an
 output keeps the same bound. It may choose another kernel, and so other bits within that bound.
 @since 0.1*/
pub type msda_point_locality = i32;
/// Not said; plans are made as for MSDA_POINTS_LOCAL, without kernels that pay only there.
pub const MSDA_POINTS_UNKNOWN: _bindgen_ty_6 = 0;
/** Queries that follow one another have their points near one another, within some pixels of
  their level: those of an encoder, or of a bird's-eye view around its reference points.*/
pub const MSDA_POINTS_LOCAL: _bindgen_ty_6 = 1;
/** The points of neighbouring queries lie anywhere on the maps: for callers who know that their
  queries have no order in space or that their offsets are as long as the maps are wide.*/
pub const MSDA_POINTS_SCATTERED: _bindgen_ty_6 = 2;
pub type _bindgen_ty_6 = core::ffi::c_uint;
/** How many pixels a point samples: four, or the one that holds it.
 @since 0.1*/
pub type msda_sampling_mode = i32;
/// The bilinear sum of four pixels, as "what it computes" has it.
pub const MSDA_SAMPLING_BILINEAR: _bindgen_ty_7 = 0;
/** One pixel, that of RT-DETR v2's method="discrete":
      ix = min(max(int(x * W + 0.5), 0), W - 1)   iy = min(max(int(y * H + 0.5), 0), H - 1)
      sample = v[iy][ix]
  int() drops the fraction. Every operation is rounded to float32, to float64 where coord_dtype
  is F64 or reference_dtype of FUSED: all kernels read the same pixel. FUSED rounds its
  coord = reference.xy + offset / (W, H) or reference.xy + offset * (reference.wh * (0.5 / P_l))
  alike. A finite point, however far outside, has the pixel of the map's edge; the tokens that
  value_border adds are never read. On a level without pixels its sample is 0. A point that is
  NaN or infinite contributes nothing, as in the other mode, and nor does one of FUSED whose
  reference or offset is, or whose offset is divided by 0. The gradients of value, weight and
  logit follow from the formula; those of coord, reference and offset are zero.*/
pub const MSDA_SAMPLING_NEAREST: _bindgen_ty_7 = 1;
pub type _bindgen_ty_7 = core::ffi::c_uint;
/** Whether a result has the same bits on every run (same device, library and kernel id). The
 forward result always has; this governs the backward one.
 @since 0.1*/
pub type msda_determinism = i32;
/// Kernels whose bits differ from run to run are rejected.
pub const MSDA_DETERMINISTIC: _bindgen_ty_8 = 0;
/// Any kernel, for example one that sums gradients by atomic additions.
pub const MSDA_NONDETERMINISTIC: _bindgen_ty_8 = 1;
pub type _bindgen_ty_8 = core::ffi::c_uint;
/** How msda_plan_create() picks the kernel.
 @since 0.1*/
pub type msda_plan_mode = i32;
/** The kernel with the smallest predicted time. Those that pay only where points are scattered,
  or local, are left out unless msda_problem::point_locality says so.*/
pub const MSDA_PLAN_HEURISTIC: _bindgen_ty_9 = 0;
/** The kernel measured fastest for this problem, from the handle's tuning records; that of
  MSDA_PLAN_HEURISTIC where no record is of the same problem, options, device, threads, library
  version and kernel revision.*/
pub const MSDA_PLAN_TUNED: _bindgen_ty_9 = 1;
/// The kernel that kernel_id names, or a failure that says why it does not take the problem.
pub const MSDA_PLAN_FORCED: _bindgen_ty_9 = 2;
pub type _bindgen_ty_9 = core::ffi::c_uint;
/** How much the log callback is told. Each level includes those above it.
 @since 0.1*/
pub type msda_log_level = i32;
/// Nothing: the callback is never called.
pub const MSDA_LOG_OFF: _bindgen_ty_10 = 0;
/// Failures that are also returned as a status.
pub const MSDA_LOG_ERROR: _bindgen_ty_10 = 1;
/// Things that work but cost the caller something.
pub const MSDA_LOG_WARN: _bindgen_ty_10 = 2;
/// What was chosen: devices, kernels, plans.
pub const MSDA_LOG_INFO: _bindgen_ty_10 = 3;
/// Every call.
pub const MSDA_LOG_TRACE: _bindgen_ty_10 = 4;
pub type _bindgen_ty_10 = core::ffi::c_uint;
/** A device, its threads, allocator, log and tuning records. Opaque.
 @since 0.1*/
#[repr(C)]
#[derive(Debug)]
pub struct msda_handle {
    _unused: [u8; 0],
}
/** A problem with the kernel chosen for it, prepared to run. Opaque, immutable.
 @since 0.1*/
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
/** A CUDA stream: the same type as cudaStream_t and CUstream, without their headers. NULL on a CPU
 handle, and the default stream on a CUDA handle.
 @since 0.1*/
pub type msda_stream = *mut CUstream_st;
/** Receives log messages, on the thread that made the call they are about. It must not call the
 library, and must not throw or jump out.

 @param user     msda_handle_options::log_user
 @param level    how serious it is, MSDA_LOG_ERROR to MSDA_LOG_TRACE
 @param message  UTF-8, one line, ends in a NUL; valid during the call only
 @param length   bytes of the message, the NUL not counted
 @since 0.1*/
pub type msda_log_fn = ::core::option::Option<
    unsafe extern "C" fn(
        user: *mut core::ffi::c_void,
        level: msda_log_level,
        message: *const core::ffi::c_char,
        length: usize,
    ),
>;
/** Allocates what the library keeps for itself: handles, plans, tables, tuning records. Called while
 they are created, never by msda_execute(). Must be safe to call from several threads.

 @param user       msda_handle_options::alloc_user
 @param bytes      how much, at least 1
 @param alignment  of the address, a power of two
 @param device     CUDA ordinal of the memory wanted, or MSDA_DEVICE_CPU for host memory
 @return the memory, or NULL when there is none: the call then ends in MSDA_ERROR_OUT_OF_MEMORY
 @since 0.1*/
pub type msda_alloc_fn = ::core::option::Option<
    unsafe extern "C" fn(
        user: *mut core::ffi::c_void,
        bytes: usize,
        alignment: usize,
        device: i32,
    ) -> *mut core::ffi::c_void,
>;
/** Frees what a msda_alloc_fn returned. Must be safe to call from several threads.

 @param user     msda_handle_options::alloc_user
 @param pointer  what the msda_alloc_fn returned, never NULL
 @param bytes    the size it was asked for
 @param device   the device it was asked for
 @since 0.1*/
pub type msda_free_fn = ::core::option::Option<
    unsafe extern "C" fn(
        user: *mut core::ffi::c_void,
        pointer: *mut core::ffi::c_void,
        bytes: usize,
        device: i32,
    ),
>;
/** What a handle is to be. Zeroed: CUDA device 0, no log, the library's own memory.
 @since 0.1*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct msda_handle_options {
    /// sizeof(msda_handle_options).
    pub struct_size: usize,
    /// Log callback, or NULL.
    pub log_fn: msda_log_fn,
    /// Handed to log_fn. Must live as long as the handle and its plans.
    pub log_user: *mut core::ffi::c_void,
    /// Allocator, together with free_fn; both NULL: the library's own.
    pub alloc_fn: msda_alloc_fn,
    /// Frees what alloc_fn returned; NULL exactly when alloc_fn is.
    pub free_fn: msda_free_fn,
    /// Handed to alloc_fn and free_fn. Must live as long as the handle and its plans.
    pub alloc_user: *mut core::ffi::c_void,
    /// Least serious level that log_fn is told.
    pub log_level: msda_log_level,
    /// CUDA ordinal (0 or more), or MSDA_DEVICE_CPU.
    pub device: i32,
    /** CPU handle: threads that work on one call, the caller's included; 0: all hardware threads.
  Never changes a result. A CUDA handle ignores it.*/
    pub thread_count: i32,
    /// No flags exist yet: 0.
    pub flags: u32,
}
#[test]
fn bindgen_test_layout_msda_handle_options() {
    const UNINIT: ::core::mem::MaybeUninit<msda_handle_options> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<msda_handle_options>(),
        64usize,
        "Size of msda_handle_options",
    );
    assert_eq!(
        ::core::mem::align_of::<msda_handle_options>(),
        8usize,
        "Alignment of msda_handle_options",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: msda_handle_options::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).log_fn) as usize - ptr as usize },
        8usize,
        "Offset of field: msda_handle_options::log_fn",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).log_user) as usize - ptr as usize },
        16usize,
        "Offset of field: msda_handle_options::log_user",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).alloc_fn) as usize - ptr as usize },
        24usize,
        "Offset of field: msda_handle_options::alloc_fn",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).free_fn) as usize - ptr as usize },
        32usize,
        "Offset of field: msda_handle_options::free_fn",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).alloc_user) as usize - ptr as usize },
        40usize,
        "Offset of field: msda_handle_options::alloc_user",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).log_level) as usize - ptr as usize },
        48usize,
        "Offset of field: msda_handle_options::log_level",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).device) as usize - ptr as usize },
        52usize,
        "Offset of field: msda_handle_options::device",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).thread_count) as usize - ptr as usize },
        56usize,
        "Offset of field: msda_handle_options::thread_count",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).flags) as usize - ptr as usize },
        60usize,
        "Offset of field: msda_handle_options::flags",
    );
}
/** The shapes, strides and types of one computation.

 Strides are in elements, never negative. A group of three that is all 0 means packed. Otherwise
 each is used as it is: 0 in part of a group repeats an input (broadcast). Two rows of a result
 must not overlap. reference, grad_value and grad_reference are always packed.
 @since 0.1*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct msda_problem {
    /// sizeof(msda_problem).
    pub struct_size: usize,
    /// Host [L][2], cast from int64 shapes: (H, W) of each level, 0 or more. NULL only if L is 0.
    pub level_hw: *const i32,
    /// Host [L]: P_l, points of each level; NULL: point_count on every level.
    pub point_counts: *const i32,
    /** Host [query_grid_count][2] = (H, W), or NULL. A hint of locality that never changes a result:
  the queries are the pixels, row by row, of these grids in turn, so sum of H * W = Q. In an
  encoder it is level_hw, in a bird's-eye-view model its one grid, in a decoder NULL.*/
    pub query_hw: *const i32,
    /// B, 0 or more.
    pub batch: i64,
    /// Q, 0 or more.
    pub query_count: i64,
    /// M, 0 or more.
    pub head_count: i64,
    /// D, 0 or more.
    pub head_dim: i64,
    /// Elements between neighbours along [B][S][M] of value; D is contiguous.
    pub value_strides: [i64; 3usize],
    /// Elements between neighbours along [B][Q][M] of coord and of offset; [K][2] is packed.
    pub coord_strides: [i64; 3usize],
    /// Elements between neighbours along [B][Q][M] of weight and of logit; [K] is packed.
    pub weight_strides: [i64; 3usize],
    /// Elements between neighbours along [B][Q][M] of output and of grad_output; D is contiguous.
    pub output_strides: [i64; 3usize],
    /// L, 0 or more.
    pub level_count: i32,
    /// P of every level, 0 or more; not looked at when point_counts is given.
    pub point_count: i32,
    /** 0, or 1: each level is stored as (H + 2) x (W + 2) tokens with a border of one pixel around
  it, which level_start and S count. Coordinates and level_hw stay those of the H x W map. The
  border must hold zeros (a kernel may read it or not); its gradient is zero.*/
    pub value_border: i32,
    /// FUSED: 2 = (x, y), or 4 = (centre x, centre y, width, height), all normalised. SAMPLED: 0.
    pub reference_dim: i32,
    /// Forward or backward.
    pub operation: msda_operation,
    /// Which of the inputs of msda_tensors are given.
    pub input_mode: msda_input_mode,
    /// Type of value; has no default, MSDA_DTYPE_NONE is an error.
    pub value_dtype: msda_dtype,
    /** Type of coord, offset and their gradients: F64, F32, F16 or BF16. NONE: F64 when value is F64,
  else F32. Mind that 16-bit normalised coordinates are coarse: they step by 0.08
  (F16) or 0.65 (BF16) pixels on a map of width 167.*/
    pub coord_dtype: msda_dtype,
    /** Type of weight, logit and their gradients: F64, F32, F16 or BF16. NONE: F64 when value is F64,
  else F32.*/
    pub weight_dtype: msda_dtype,
    /** Type of output and grad_output: F64, F32, F16 or BF16. NONE: value_dtype, or F32 when value is
  F8_E4M3.*/
    pub output_dtype: msda_dtype,
    /// Type of grad_value: F64, F32, F16, BF16. NONE: value_dtype, or F32 when value is F8_E4M3.
    pub grad_value_dtype: msda_dtype,
    /// How precisely the sums are formed.
    pub math_mode: msda_math_mode,
    /// Whether the gradients have the same bits on every run.
    pub determinism: msda_determinism,
    /// Grids in query_hw; 0 when it is NULL.
    pub query_grid_count: i32,
    /** Where the points land. A hint for the choice of the kernel that any points are right with;
  msda_plan_tune() measures instead.*/
    pub point_locality: msda_point_locality,
    /// No flags exist yet: 0.
    pub flags: u32,
    /** Host [L]: the token at which each level starts, 0 or more, in any order; NULL: the first level
  at 0, each other one where the one before it ends. Every level must end within S. Levels may
  share tokens; some kernels do not compute the gradients of such levels.*/
    pub level_start: *const i64,
    /// S, the tokens of value and grad_value; 0: the largest token at which a level ends.
    pub token_count: i64,
    /** Elements between neighbours along [B][Q][M] of grad_coord and grad_offset; [K][2] is packed.
  0 0 0: packed, whatever coord_strides are. A 0 among others must not make rows overlap.*/
    pub grad_coord_strides: [i64; 3usize],
    /** Elements between neighbours along [B][Q][M] of grad_weight and of grad_logit; [K] is packed.
  0 0 0: packed, whatever weight_strides are. A 0 among others must not make rows overlap.*/
    pub grad_weight_strides: [i64; 3usize],
    /// Whether a point samples four pixels or one.
    pub sampling_mode: msda_sampling_mode,
    /** Type of reference and grad_reference: F64, F32, F16 or BF16. NONE: coord_dtype. Offsets of 16
  bits with references of F32 keep positions exact where 16-bit normalised ones are coarse.*/
    pub reference_dtype: msda_dtype,
}
#[test]
fn bindgen_test_layout_msda_problem() {
    const UNINIT: ::core::mem::MaybeUninit<msda_problem> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(::core::mem::size_of::<msda_problem>(), 296usize, "Size of msda_problem");
    assert_eq!(
        ::core::mem::align_of::<msda_problem>(),
        8usize,
        "Alignment of msda_problem",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: msda_problem::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).level_hw) as usize - ptr as usize },
        8usize,
        "Offset of field: msda_problem::level_hw",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).point_counts) as usize - ptr as usize },
        16usize,
        "Offset of field: msda_problem::point_counts",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).query_hw) as usize - ptr as usize },
        24usize,
        "Offset of field: msda_problem::query_hw",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).batch) as usize - ptr as usize },
        32usize,
        "Offset of field: msda_problem::batch",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).query_count) as usize - ptr as usize },
        40usize,
        "Offset of field: msda_problem::query_count",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).head_count) as usize - ptr as usize },
        48usize,
        "Offset of field: msda_problem::head_count",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).head_dim) as usize - ptr as usize },
        56usize,
        "Offset of field: msda_problem::head_dim",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).value_strides) as usize - ptr as usize },
        64usize,
        "Offset of field: msda_problem::value_strides",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).coord_strides) as usize - ptr as usize },
        88usize,
        "Offset of field: msda_problem::coord_strides",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).weight_strides) as usize - ptr as usize },
        112usize,
        "Offset of field: msda_problem::weight_strides",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).output_strides) as usize - ptr as usize },
        136usize,
        "Offset of field: msda_problem::output_strides",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).level_count) as usize - ptr as usize },
        160usize,
        "Offset of field: msda_problem::level_count",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).point_count) as usize - ptr as usize },
        164usize,
        "Offset of field: msda_problem::point_count",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).value_border) as usize - ptr as usize },
        168usize,
        "Offset of field: msda_problem::value_border",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reference_dim) as usize - ptr as usize },
        172usize,
        "Offset of field: msda_problem::reference_dim",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).operation) as usize - ptr as usize },
        176usize,
        "Offset of field: msda_problem::operation",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).input_mode) as usize - ptr as usize },
        180usize,
        "Offset of field: msda_problem::input_mode",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).value_dtype) as usize - ptr as usize },
        184usize,
        "Offset of field: msda_problem::value_dtype",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).coord_dtype) as usize - ptr as usize },
        188usize,
        "Offset of field: msda_problem::coord_dtype",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).weight_dtype) as usize - ptr as usize },
        192usize,
        "Offset of field: msda_problem::weight_dtype",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).output_dtype) as usize - ptr as usize },
        196usize,
        "Offset of field: msda_problem::output_dtype",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).grad_value_dtype) as usize - ptr as usize
        },
        200usize,
        "Offset of field: msda_problem::grad_value_dtype",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).math_mode) as usize - ptr as usize },
        204usize,
        "Offset of field: msda_problem::math_mode",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).determinism) as usize - ptr as usize },
        208usize,
        "Offset of field: msda_problem::determinism",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).query_grid_count) as usize - ptr as usize
        },
        212usize,
        "Offset of field: msda_problem::query_grid_count",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).point_locality) as usize - ptr as usize },
        216usize,
        "Offset of field: msda_problem::point_locality",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).flags) as usize - ptr as usize },
        220usize,
        "Offset of field: msda_problem::flags",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).level_start) as usize - ptr as usize },
        224usize,
        "Offset of field: msda_problem::level_start",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).token_count) as usize - ptr as usize },
        232usize,
        "Offset of field: msda_problem::token_count",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).grad_coord_strides) as usize - ptr as usize
        },
        240usize,
        "Offset of field: msda_problem::grad_coord_strides",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).grad_weight_strides) as usize - ptr as usize
        },
        264usize,
        "Offset of field: msda_problem::grad_weight_strides",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).sampling_mode) as usize - ptr as usize },
        288usize,
        "Offset of field: msda_problem::sampling_mode",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reference_dtype) as usize - ptr as usize },
        292usize,
        "Offset of field: msda_problem::reference_dtype",
    );
}
/** How a plan is made. Zeroed: the kernel predicted to be fastest, any workspace, the whole device.
 @since 0.1*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct msda_plan_options {
    /// sizeof(msda_plan_options).
    pub struct_size: usize,
    /** MSDA_PLAN_FORCED: the kernel's id as msda_kernel_get() gives it, for example "ref.cpu@1".
  Else NULL.*/
    pub kernel_id: *const core::ffi::c_char,
    /// Kernels that need more workspace than this many bytes are rejected; 0: no limit.
    pub workspace_limit_bytes: usize,
    /// How the kernel is picked.
    pub mode: msda_plan_mode,
    /// CUDA: streaming multiprocessors to use at most; 0: all. CPU: 0.
    pub sm_count_limit: i32,
}
#[test]
fn bindgen_test_layout_msda_plan_options() {
    const UNINIT: ::core::mem::MaybeUninit<msda_plan_options> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<msda_plan_options>(),
        32usize,
        "Size of msda_plan_options",
    );
    assert_eq!(
        ::core::mem::align_of::<msda_plan_options>(),
        8usize,
        "Alignment of msda_plan_options",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: msda_plan_options::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).kernel_id) as usize - ptr as usize },
        8usize,
        "Offset of field: msda_plan_options::kernel_id",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).workspace_limit_bytes) as usize - ptr as usize
        },
        16usize,
        "Offset of field: msda_plan_options::workspace_limit_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).mode) as usize - ptr as usize },
        24usize,
        "Offset of field: msda_plan_options::mode",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).sm_count_limit) as usize - ptr as usize },
        28usize,
        "Offset of field: msda_plan_options::sm_count_limit",
    );
}
/** What a plan is. Set struct_size, the library sets the rest.
 @since 0.1*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct msda_plan_info {
    /// sizeof(msda_plan_info), set by the caller.
    pub struct_size: usize,
    /** The kernel chosen, "family.target.dtype[...]@revision"; where is_deterministic is 1 the
  same id and device always give the same bits. Lives as long as the plan.*/
    pub kernel_id: *const core::ffi::c_char,
    /// Bytes of workspace that each call needs; 0: none.
    pub workspace_bytes: usize,
    /// The alignment that the workspace needs, in bytes.
    pub workspace_alignment: usize,
    /// Predicted time of one call, in microseconds.
    pub predicted_us: f64,
    /// Kernels that one call launches at most; results not asked for need fewer. 1 on the CPU.
    pub launch_count: i32,
    /// 1: the result has the same bits on every run; 0: that is not promised.
    pub is_deterministic: i32,
}
#[test]
fn bindgen_test_layout_msda_plan_info() {
    const UNINIT: ::core::mem::MaybeUninit<msda_plan_info> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<msda_plan_info>(),
        48usize,
        "Size of msda_plan_info",
    );
    assert_eq!(
        ::core::mem::align_of::<msda_plan_info>(),
        8usize,
        "Alignment of msda_plan_info",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: msda_plan_info::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).kernel_id) as usize - ptr as usize },
        8usize,
        "Offset of field: msda_plan_info::kernel_id",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).workspace_bytes) as usize - ptr as usize },
        16usize,
        "Offset of field: msda_plan_info::workspace_bytes",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).workspace_alignment) as usize - ptr as usize
        },
        24usize,
        "Offset of field: msda_plan_info::workspace_alignment",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).predicted_us) as usize - ptr as usize },
        32usize,
        "Offset of field: msda_plan_info::predicted_us",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).launch_count) as usize - ptr as usize },
        40usize,
        "Offset of field: msda_plan_info::launch_count",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).is_deterministic) as usize - ptr as usize
        },
        44usize,
        "Offset of field: msda_plan_info::is_deterministic",
    );
}
/** The buffers of one call: device pointers on a CUDA handle, host pointers on a CPU handle, each
 aligned to its element size. On the CPU a call is the fastest where all of them begin at
 multiples of 64 bytes.

 Inputs of the plan that are not empty must be given. The inputs of the other input mode, and the
 buffers of the other operation, are not looked at, so one struct can serve a forward and a
 backward plan. A buffer that is written must not overlap any other buffer, but the gradients of
 coordinates and weights may take turns in memory: as parts of each row, or of each head of it, of
 one tensor, where such parts have the same strides in bytes.
 @since 0.1*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct msda_tensors {
    /// sizeof(msda_tensors).
    pub struct_size: usize,
    /// [B][S][M][D] of value_dtype, value_strides.
    pub value: *const core::ffi::c_void,
    /// SAMPLED: [B][Q][M][K][2] of coord_dtype, coord_strides: normalised (x, y).
    pub coord: *const core::ffi::c_void,
    /// SAMPLED: [B][Q][M][K] of weight_dtype, weight_strides.
    pub weight: *const core::ffi::c_void,
    /// FUSED: [B][Q][L][reference_dim] of reference_dtype, packed: normalised points or boxes.
    pub reference: *const core::ffi::c_void,
    /** FUSED: [B][Q][M][K][2] of coord_dtype, coord_strides: in pixels of the point's level
  (reference_dim 2) or in units of box size / (2 P_l) (reference_dim 4).*/
    pub offset: *const core::ffi::c_void,
    /// FUSED: [B][Q][M][K] of weight_dtype, weight_strides: attention weights before the softmax.
    pub logit: *const core::ffi::c_void,
    /** [M] float: the value of head m is value_scale[m] times what is stored. NULL: 1. Only with
  F8_E4M3 values, else NULL.*/
    pub value_scale: *const f32,
    /// FORWARD: [B][Q][M][D] of output_dtype, output_strides.
    pub output: *mut core::ffi::c_void,
    /// BACKWARD: [B][Q][M][D] of output_dtype, output_strides: derivative of the loss by output.
    pub grad_output: *const core::ffi::c_void,
    /** BACKWARD, this and those below: the derivative of the loss by an input, written in full, not
  accumulated; NULL: not wanted and not computed.
  [B][S][M][D] of grad_value_dtype, packed.*/
    pub grad_value: *mut core::ffi::c_void,
    /// SAMPLED: [B][Q][M][K][2] of coord_dtype, grad_coord_strides.
    pub grad_coord: *mut core::ffi::c_void,
    /// SAMPLED: [B][Q][M][K] of weight_dtype, grad_weight_strides.
    pub grad_weight: *mut core::ffi::c_void,
    /// FUSED: [B][Q][L][reference_dim] of reference_dtype, packed.
    pub grad_reference: *mut core::ffi::c_void,
    /// FUSED: [B][Q][M][K][2] of coord_dtype, grad_coord_strides.
    pub grad_offset: *mut core::ffi::c_void,
    /// FUSED: [B][Q][M][K] of weight_dtype, grad_weight_strides.
    pub grad_logit: *mut core::ffi::c_void,
    /** Scratch memory of the call, aligned to msda_plan_info::workspace_alignment; its content before
  and after means nothing. NULL only if the plan needs none.*/
    pub workspace: *mut core::ffi::c_void,
    /// Bytes of workspace, at least msda_plan_info::workspace_bytes.
    pub workspace_bytes: usize,
    /** FORWARD, FUSED: [B][Q][M][K] of weight_dtype, packed: the softmax of logit, for callers who
  return the attention weights. NULL: not wanted, at no cost. Must be NULL for SAMPLED.*/
    pub attention: *mut core::ffi::c_void,
}
#[test]
fn bindgen_test_layout_msda_tensors() {
    const UNINIT: ::core::mem::MaybeUninit<msda_tensors> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(::core::mem::size_of::<msda_tensors>(), 152usize, "Size of msda_tensors");
    assert_eq!(
        ::core::mem::align_of::<msda_tensors>(),
        8usize,
        "Alignment of msda_tensors",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: msda_tensors::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).value) as usize - ptr as usize },
        8usize,
        "Offset of field: msda_tensors::value",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).coord) as usize - ptr as usize },
        16usize,
        "Offset of field: msda_tensors::coord",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).weight) as usize - ptr as usize },
        24usize,
        "Offset of field: msda_tensors::weight",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reference) as usize - ptr as usize },
        32usize,
        "Offset of field: msda_tensors::reference",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).offset) as usize - ptr as usize },
        40usize,
        "Offset of field: msda_tensors::offset",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).logit) as usize - ptr as usize },
        48usize,
        "Offset of field: msda_tensors::logit",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).value_scale) as usize - ptr as usize },
        56usize,
        "Offset of field: msda_tensors::value_scale",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).output) as usize - ptr as usize },
        64usize,
        "Offset of field: msda_tensors::output",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).grad_output) as usize - ptr as usize },
        72usize,
        "Offset of field: msda_tensors::grad_output",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).grad_value) as usize - ptr as usize },
        80usize,
        "Offset of field: msda_tensors::grad_value",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).grad_coord) as usize - ptr as usize },
        88usize,
        "Offset of field: msda_tensors::grad_coord",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).grad_weight) as usize - ptr as usize },
        96usize,
        "Offset of field: msda_tensors::grad_weight",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).grad_reference) as usize - ptr as usize },
        104usize,
        "Offset of field: msda_tensors::grad_reference",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).grad_offset) as usize - ptr as usize },
        112usize,
        "Offset of field: msda_tensors::grad_offset",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).grad_logit) as usize - ptr as usize },
        120usize,
        "Offset of field: msda_tensors::grad_logit",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).workspace) as usize - ptr as usize },
        128usize,
        "Offset of field: msda_tensors::workspace",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).workspace_bytes) as usize - ptr as usize },
        136usize,
        "Offset of field: msda_tensors::workspace_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).attention) as usize - ptr as usize },
        144usize,
        "Offset of field: msda_tensors::attention",
    );
}
/** What a kernel is. Set struct_size, the library sets the rest.
 @since 0.1*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct msda_kernel_info {
    /// sizeof(msda_kernel_info), set by the caller.
    pub struct_size: usize,
    /** Its id, "family.target.dtype[...]@revision". The revision rises when its results for
  finite inputs or the meaning of its tuning change. Lives as long as the library is loaded.*/
    pub kernel_id: *const core::ffi::c_char,
    /// The first part of the id. Lives as long as the library is loaded.
    pub family: *const core::ffi::c_char,
    /// Lowest compute capability it runs on, times ten (90 is 9.0); 0: it runs on the CPU.
    pub sm_min: i32,
    /// Highest compute capability it runs on, times ten; 0: no upper end.
    pub sm_max: i32,
}
#[test]
fn bindgen_test_layout_msda_kernel_info() {
    const UNINIT: ::core::mem::MaybeUninit<msda_kernel_info> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<msda_kernel_info>(),
        32usize,
        "Size of msda_kernel_info",
    );
    assert_eq!(
        ::core::mem::align_of::<msda_kernel_info>(),
        8usize,
        "Alignment of msda_kernel_info",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: msda_kernel_info::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).kernel_id) as usize - ptr as usize },
        8usize,
        "Offset of field: msda_kernel_info::kernel_id",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).family) as usize - ptr as usize },
        16usize,
        "Offset of field: msda_kernel_info::family",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).sm_min) as usize - ptr as usize },
        24usize,
        "Offset of field: msda_kernel_info::sm_min",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).sm_max) as usize - ptr as usize },
        28usize,
        "Offset of field: msda_kernel_info::sm_max",
    );
}
extern "C" {
    /** Version of the library that is loaded, which may be newer than this header.

 @return MSDA_VERSION_MAJOR * 10000 + MSDA_VERSION_MINOR * 100 + MSDA_VERSION_PATCH of the library
 @sync host only
 @threads any, at any time
 @owns nothing
 @since 0.1*/
    pub fn msda_version() -> u32;
}
extern "C" {
    /** Version of the binary interface of the library that is loaded. A client built with another
 MSDA_ABI_VERSION must not call anything else.

 @return MSDA_ABI_VERSION of the library
 @sync host only
 @threads any, at any time
 @owns nothing
 @since 0.1*/
    pub fn msda_abi_version() -> u32;
}
extern "C" {
    /** One line about how the library was built: version, compiler, CPU targets, and CUDA architectures
 or why there are none. For people and logs; its form is not part of the contract.

 @return UTF-8 text, never NULL
 @sync host only
 @threads any, at any time
 @owns the library; the text lives as long as the library is loaded
 @since 0.1*/
    pub fn msda_build_info() -> *const core::ffi::c_char;
}
extern "C" {
    /** The name of a status as it is spelled in this header, for example "MSDA_ERROR_CUDA".

 @param status  any number
 @return the name; "MSDA_ERROR_UNKNOWN" for a number that is no status; never NULL
 @sync host only
 @threads any, at any time
 @owns the library; the text lives as long as the library is loaded
 @since 0.1*/
    pub fn msda_status_name(status: msda_status) -> *const core::ffi::c_char;
}
extern "C" {
    /** What went wrong in the last call on this thread that failed, as one sentence: the function, the
 field, its value, and what is allowed. Read it right after the failure.

 @return UTF-8 text, "" when no call on this thread has failed; never NULL
 @sync host only
 @threads any; every thread sees its own text
 @owns the library; the text lives until the next call of the library on this thread
 @since 0.1*/
    pub fn msda_last_error() -> *const core::ffi::c_char;
}
extern "C" {
    /** Creates a handle for one device. A CPU handle starts its threads here; they sleep when idle.

 @param options  what it is to be, or NULL for a zeroed struct
 @param out      receives the handle
 @status MSDA_SUCCESS  *out is a handle
 @status MSDA_ERROR_INVALID_ARGUMENT  a field is out of range, only one of alloc_fn and free_fn is
     set, or out is NULL
 @status MSDA_ERROR_ABI_MISMATCH  options has unknown fields that are not zero
 @status MSDA_ERROR_CUDA  a CUDA device was asked for and there is no driver, no such device, or
     the library was built without CUDA
 @sync host only for a CPU handle; may block for a CUDA handle (context creation)
 @threads any, at any time
 @owns the caller, who ends it with msda_handle_destroy(); options is not kept, but the pointers
     log_user and alloc_user in it are
 @since 0.1*/
    pub fn msda_handle_create(
        options: *const msda_handle_options,
        out: *mut *mut msda_handle,
    ) -> msda_status;
}
extern "C" {
    /** Gives up a handle. Its threads and memory go with it or, if it still has plans, with the last of
 those: a plan stays good when its handle is destroyed first.

 @param handle  the handle, or NULL (then nothing happens)
 @sync may block until its threads have ended
 @threads no other thread may be inside a call with the handle; calls with its plans may go on
 @owns frees the handle, once its plans are destroyed too
 @since 0.1*/
    pub fn msda_handle_destroy(handle: *mut msda_handle);
}
extern "C" {
    /** How many kernels the library has, whether or not they run on the handle's device.

 @param handle  a handle
 @param out     receives the number
 @status MSDA_SUCCESS  *out is set
 @status MSDA_ERROR_INVALID_ARGUMENT  handle or out is NULL
 @sync host only
 @threads any
 @owns nothing
 @since 0.1*/
    pub fn msda_kernel_count(handle: *const msda_handle, out: *mut usize) -> msda_status;
}
extern "C" {
    /** Describes one kernel of the library.

 @param handle  a handle
 @param index   which one, 0 to msda_kernel_count() - 1; the order is that of the library's list
 @param out     its struct_size is set by the caller; receives the description
 @status MSDA_SUCCESS  *out is set
 @status MSDA_ERROR_INVALID_ARGUMENT  index is too large, struct_size is too small, or handle or
     out is NULL
 @status MSDA_ERROR_ABI_MISMATCH  out has unknown fields that are not zero
 @sync host only
 @threads any
 @owns the library keeps the texts in *out
 @since 0.1*/
    pub fn msda_kernel_get(
        handle: *const msda_handle,
        index: usize,
        out: *mut msda_kernel_info,
    ) -> msda_status;
}
extern "C" {
    /** Says what each kernel makes of a problem, one line a kernel: those that take it first, the one
 chosen, then by predicted time; ", only chosen for scattered points or by tuning", the same for
 local ones, or ", only chosen where no other kernel takes the problem" ends a line where that is
 so:

     1  simd.cpu.f32@2  predicted 812.3 us
     2  ref.cpu@1  predicted 91843.0 us, only chosen where no other kernel takes the problem
     -  simd.cpu.f16@2  rejected: does not take this value_dtype

 @param handle     a handle
 @param problem    the problem
 @param text       receives UTF-8 text that ends in a NUL, or NULL to ask for the size
 @param text_size  in: bytes at text; out: bytes of the text with its NUL
 @status MSDA_SUCCESS  the text, or with text NULL the size, is set
 @status MSDA_ERROR_INVALID_ARGUMENT  a field of problem is out of range, or handle, problem or
     text_size is NULL
 @status MSDA_ERROR_ABI_MISMATCH  problem has unknown fields that are not zero
 @status MSDA_ERROR_BUFFER_TOO_SMALL  *text_size is the size needed; text is untouched
 @sync host only
 @threads any
 @owns nothing is kept
 @since 0.1*/
    pub fn msda_explain(
        handle: *const msda_handle,
        problem: *const msda_problem,
        text: *mut core::ffi::c_char,
        text_size: *mut usize,
    ) -> msda_status;
}
extern "C" {
    /** Chooses a kernel for a problem and prepares everything but the launch. Nothing runs on the
 device. With query_hw, or with more than 16 levels, a GPU's plan copies a table into device
 memory and waits for it, so make it before another thread captures in global mode.

 @param handle   a handle
 @param problem  the problem; its arrays are copied
 @param options  how the kernel is picked, or NULL for a zeroed struct
 @param out      receives the plan
 @status MSDA_SUCCESS  *out is a plan
 @status MSDA_ERROR_INVALID_ARGUMENT  a field of problem or options is out of range, a tensor
     would have more elements or bytes than an int64 counts, kernel_id names no kernel, or handle,
     problem or out is NULL
 @status MSDA_ERROR_UNSUPPORTED  no kernel takes the problem, or the one forced does not; the
     message has the reason
 @status MSDA_ERROR_ABI_MISMATCH  problem or options has unknown fields that are not zero
 @status MSDA_ERROR_CUDA  the driver refused a kernel or a table
 @sync host only
 @threads any; several threads may use one handle
 @owns the caller, who ends it with msda_plan_destroy(); problem and options are
     not kept
 @since 0.1*/
    pub fn msda_plan_create(
        handle: *mut msda_handle,
        problem: *const msda_problem,
        options: *const msda_plan_options,
        out: *mut *mut msda_plan,
    ) -> msda_status;
}
extern "C" {
    /** Times the front runners on the caller's own tensors and makes a plan with the fastest. The speed
 of a kernel depends on where the points land, so the sample should be typical.

 Kernels are tried in the order of msda_explain(), as many as the budget has time for, and none
 that is predicted to take ten times as long as the first. The first, which MSDA_PLAN_HEURISTIC
 would take, is run at least once, however long that takes. It stays the plan's kernel unless
 another was faster by more than noise twice: among all that were tried, and alone against it. A
 kernel that fails is left out. About twenty times the time of a call is enough to compare two
 kernels; with less the plan is the heuristic's.

 The winner goes into the handle's tuning records if the budget was enough to compare, in the
 place of an earlier record of the same problem and options. MSDA_PLAN_TUNED finds it there.

 @param handle     a handle
 @param problem    the problem; its arrays are copied
 @param options    limits that the plan and every kernel tried keep to, or NULL for a zeroed
     struct; mode MSDA_PLAN_HEURISTIC and MSDA_PLAN_TUNED mean the same here
 @param sample     tensors of a typical call. Its output or gradients are overwritten, and hold
 the result of the plan's kernel afterwards; after MSDA_ERROR_CUDA their content means nothing.
     Kernels that need more than its workspace are left out; with workspace NULL and
     workspace_bytes 0 the library takes what they need from the handle's allocator for the time
     of the call
 @param stream     where to run, not capturing a graph; NULL on a CPU handle
 @param budget_ms  time to spend, in milliseconds, greater than 0 and finite
 @param out        receives the plan
 @status MSDA_SUCCESS  *out is a plan
 @status MSDA_ERROR_INVALID_ARGUMENT  a field or argument is out of range, the mode is
     MSDA_PLAN_FORCED, a buffer is wrong as for msda_execute(), stream is capturing, or handle,
     problem, sample or out is NULL
 @status MSDA_ERROR_UNSUPPORTED  no kernel takes the problem
 @status MSDA_ERROR_BUFFER_TOO_SMALL  workspace_bytes is less than the heuristic's kernel needs
 @status MSDA_ERROR_ABI_MISMATCH  a struct has unknown fields that are not zero
 @status MSDA_ERROR_CUDA  the heuristic's kernel could not be run, or stream is of another device
 @sync may block: runs kernels and waits for them
 @threads any, with tensors of its own; other work on the device disturbs the measurement. No
     thread may be capturing a graph in global mode
 @owns the caller, who ends the plan with msda_plan_destroy(); nothing else is kept
 @since 0.1*/
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
    /** Describes a plan: its kernel and the workspace that each call needs.

 @param plan  a plan
 @param out   its struct_size is set by the caller; receives the description
 @status MSDA_SUCCESS  *out is set
 @status MSDA_ERROR_INVALID_ARGUMENT  struct_size is too small, or plan or out is NULL
 @status MSDA_ERROR_ABI_MISMATCH  out has unknown fields that are not zero
 @sync host only
 @threads any
 @owns the plan keeps the text in *out
 @since 0.1*/
    pub fn msda_plan_get_info(
        plan: *const msda_plan,
        out: *mut msda_plan_info,
    ) -> msda_status;
}
extern "C" {
    /** Writes a plan as bytes that msda_plan_deserialize() turns into the same plan again, on the same
 kind of device with the same library. The format is not part of the contract.

 @param plan       a plan
 @param blob       receives the bytes, or NULL to ask for the size
 @param blob_size  in: bytes at blob; out: bytes of the blob
 @status MSDA_SUCCESS  the blob, or with blob NULL the size, is set
 @status MSDA_ERROR_INVALID_ARGUMENT  plan or blob_size is NULL
 @status MSDA_ERROR_BUFFER_TOO_SMALL  *blob_size is the size needed; blob is untouched
 @sync host only
 @threads any
 @owns nothing is kept
 @since 0.1*/
    pub fn msda_plan_serialize(
        plan: *const msda_plan,
        blob: *mut core::ffi::c_void,
        blob_size: *mut usize,
    ) -> msda_status;
}
extern "C" {
    /** Makes the plan again that msda_plan_serialize() wrote, with the same kernel. Safe on bytes from
 anywhere: a damaged blob is refused, never trusted.

 @param handle     a handle
 @param blob       the bytes; need not be aligned
 @param blob_size  their number
 @param out        receives the plan
 @status MSDA_SUCCESS  *out is a plan
 @status MSDA_ERROR_INVALID_ARGUMENT  the bytes are damaged, cut short or no plan, or handle, blob
     or out is NULL
 @status MSDA_ERROR_STALE_PLAN  the plan is of another library version, kernel revision or device
 @status MSDA_ERROR_CUDA  the driver refused a kernel or a table
 @sync host only
 @threads any; several threads may use one handle
 @owns the caller, who ends it with msda_plan_destroy(); blob is not kept
 @since 0.1*/
    pub fn msda_plan_deserialize(
        handle: *mut msda_handle,
        blob: *const core::ffi::c_void,
        blob_size: usize,
        out: *mut *mut msda_plan,
    ) -> msda_status;
}
extern "C" {
    /** Ends a plan.

 @param plan  the plan, or NULL (then nothing happens)
 @sync may block on a CUDA handle, until calls in flight are done
 @threads no thread may be inside msda_execute() with the plan
 @owns frees the plan
 @since 0.1*/
    pub fn msda_plan_destroy(plan: *mut msda_plan);
}
extern "C" {
    /** Runs a plan on the caller's buffers. Allocates nothing and synchronises nothing; the very first
 call may be captured in a CUDA graph. Runs on the plan's device, whatever the current one is.

 @param plan     a plan
 @param tensors  the buffers; the struct is not kept
 @param stream   where to run; NULL on a CPU handle. While it captures, its device is not checked
 @status MSDA_SUCCESS  CPU: done. CUDA: enqueued
 @status MSDA_ERROR_INVALID_ARGUMENT  a buffer that the plan needs is NULL, misaligned or overlaps
     one that is written, a gradient of the other input mode is asked for, the workspace is NULL
     or misaligned, value_scale is given without F8_E4M3 values, stream is not NULL on a CPU
     handle, the process was forked after a handle of more than one thread was created, or plan or
     tensors is NULL
 @status MSDA_ERROR_BUFFER_TOO_SMALL  workspace_bytes is less than the plan needs
 @status MSDA_ERROR_ABI_MISMATCH  tensors has unknown fields that are not zero
 @status MSDA_ERROR_CUDA  the launch was refused, or stream is of another device than the plan
 @sync CPU: returns when the work is done. CUDA: enqueues
 @threads any; one plan may run on several threads and streams at once, each call with buffers and
     a workspace of its own. The calls of one CPU handle share its threads
 @owns the caller keeps the buffers, and keeps them alive until the work is done
 @since 0.1*/
    pub fn msda_execute(
        plan: *const msda_plan,
        tensors: *const msda_tensors,
        stream: msda_stream,
    ) -> msda_status;
}
extern "C" {
    /** Writes the handle's tuning records as text, for msda_tuning_import() in a later run: those of
 msda_plan_tune() and those imported. The first line names the format's version; each other line
 is a record and says what it belongs to (library version, device, threads, options, problem) and
 what was measured. Sorted, so that the same records give the same text.

 @param handle     a handle
 @param text       receives ASCII text that ends in a NUL, or NULL to ask for the size
 @param text_size  in: bytes at text; out: bytes of the text with its NUL
 @status MSDA_SUCCESS  the text, or with text NULL the size, is set
 @status MSDA_ERROR_INVALID_ARGUMENT  handle or text_size is NULL
 @status MSDA_ERROR_BUFFER_TOO_SMALL  *text_size is the size needed; text is untouched
 @sync host only
 @threads any; another thread may add records between two calls
 @owns nothing is kept
 @since 0.1*/
    pub fn msda_tuning_export(
        handle: *const msda_handle,
        text: *mut core::ffi::c_char,
        text_size: *mut usize,
    ) -> msda_status;
}
extern "C" {
    /** Adds the records that msda_tuning_export() wrote to the handle's, replacing those of the same
 problem; all of them, or after a failure none. Records of other devices, thread counts, library
 versions or kernels that this library does not have are kept and exported again, but never used:
 one text can serve several machines.

 @param handle     a handle
 @param text       the text, its lines ended by LF or CR LF; a NUL at its end is allowed
 @param text_size  its bytes, at most one NUL counted
 @status MSDA_SUCCESS  the records are added
 @status MSDA_ERROR_INVALID_ARGUMENT  the text is cut off, has two records of one problem or is
     otherwise no tuning record: the message has the number of the line and what is wrong there.
     Or handle or text is NULL
 @status MSDA_ERROR_STALE_PLAN  the text has the format of another version of the library
 @sync host only
 @threads any
 @owns nothing is kept
 @since 0.1*/
    pub fn msda_tuning_import(
        handle: *mut msda_handle,
        text: *const core::ffi::c_char,
        text_size: usize,
    ) -> msda_status;
}
