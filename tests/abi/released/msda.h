/**
 * @file msda.h
 * libmsda: multi-scale deformable attention (MSDA), forward and backward, behind one C interface.
 *
 * WHAT IT COMPUTES. A query looks at a few points of a pyramid of feature maps and sums what it
 * finds there. Letters, used everywhere below:
 *
 *     B  batch                           Q  queries
 *     S  tokens of a value               L  levels of the pyramid
 *     M  heads                           P  points of one level (P_l: of level l)
 *     D  channels of one head            K  points of all levels together, K = sum over l of P_l
 *
 * value is [B][S][M][D]: each level row by row, H x W pixels, a token each. Levels follow one
 * another, or start where msda_problem::level_start says: then a token may be of no level, or of
 * several. For each query, head and point k on level l, coord = (x, y) is normalised (0..1 spans
 * the map) and weight = w. With floor taken towards minus infinity,
 *
 *     px = x * W - 0.5           py = y * H - 0.5              ("align_corners = false")
 *     x0 = floor(px)             y0 = floor(py)
 *     fx = px - x0               fy = py - y0
 *     sample = (1 - fx) (1 - fy) v[y0    ][x0] + fx (1 - fy) v[y0    ][x0 + 1]
 *            + (1 - fx)      fy  v[y0 + 1][x0] + fx      fy  v[y0 + 1][x0 + 1]
 *     output[b][q][m][:] = sum over k of w * sample
 *
 * This is equations 2 and 3 of X. Zhu et al., "Deformable DETR: Deformable Transformers for
 * End-to-End Object Detection", ICLR 2021, without the linear layers around the sampling.
 *
 *   - A corner outside its map counts as zero and is never read. A corner inside is read even if
 *     its bilinear weight is zero, so a NaN there propagates, as the formula says.
 *   - An infinite weight gives w * sample as the formula has it, at a border too, where sample is
 *     the sum over the corners inside: infinite, or NaN where sample is 0 or NaN. Where grad_output
 *     is infinite, a kernel may make NaN of an infinite gradient of a coordinate or weight.
 *   - A point whose x or y is NaN or infinite contributes exactly nothing, whatever its weight,
 *     and the gradients of its coordinate and weight are zero.
 *   - A finite point whose four corners are all outside has sample = 0 and still adds w * 0 (so a
 *     NaN weight propagates); its gradients are zero.
 *   - A token of no level is never read, and its gradient is zero. The gradient of a token of
 *     several levels is the sum of what each of them gives.
 *   - No coordinate, however large, makes the library touch memory outside the tensors.
 *   - The derivative by a coordinate at a pixel line is the right-hand one, by the floor above.
 *   - Any of B, Q, M, D, L, P, H, W may be 0. An empty output is not touched; an output without
 *     points is zero; gradients of non-empty inputs are zero-filled.
 *
 * NUMERICS. Coordinates and bilinear weights are float32 (float64 when value is MSDA_DTYPE_F64),
 * whatever their storage type. Batch invariance: with one kernel id, the output row of a query has
 * the same bits whatever B, Q, its position, query_hw or the number of threads.
 *
 * RULES OF THE INTERFACE.
 *   - Every function that can fail returns a msda_status. On failure no output is touched (the one
 *     exception is a size, see MSDA_ERROR_BUFFER_TOO_SMALL) and msda_last_error() says which field
 *     was wrong, what it was and what is allowed. Nothing throws, aborts, exits or prints.
 *   - A struct starts with struct_size = sizeof(the struct) and is zeroed before its fields are
 *     set; zero always means the default. Structs only ever grow at the end.
 *   - No global state: nothing but the arguments, and no environment variable, changes a result.
 *   - Any function may also return MSDA_ERROR_OUT_OF_MEMORY or MSDA_ERROR_INTERNAL; the lists of
 *     statuses below name the others.
 *
 * HOW TO READ THE BLOCKS BELOW. Each function has the same slots:
 *     @param    what the argument is, its shape and unit, whether it may be NULL
 *     @status   a status and when it is returned; or @return, for functions that cannot fail
 *     @sync     "host only" (no device is touched), "enqueues" (returns before the work is done)
 *               or "may block"
 *     @threads  what may run at the same time
 *     @owns     who frees what, and how long pointers stay valid
 *     @since    the first version that has it
 *
 * A complete forward call on the CPU:
 *
 *     msda_handle_options options = {.struct_size = sizeof(options)};
 *     options.device = MSDA_DEVICE_CPU;
 *     msda_handle* handle = NULL;
 *     msda_handle_create(&options, &handle);
 *
 *     const int32_t level_hw[2][2] = {{64, 64}, {32, 32}};
 *     msda_problem problem = {.struct_size = sizeof(problem)};
 *     problem.level_hw = &level_hw[0][0];
 *     problem.level_count = 2;
 *     problem.point_count = 4;
 *     problem.batch = 1;
 *     problem.query_count = 300;
 *     problem.head_count = 8;
 *     problem.head_dim = 32;
 *     problem.value_dtype = MSDA_DTYPE_F32;
 *     msda_plan* plan = NULL;
 *     msda_plan_create(handle, &problem, NULL, &plan);
 *
 *     msda_tensors tensors = {.struct_size = sizeof(tensors)};
 *     tensors.value = value;
 *     tensors.coord = coord;
 *     tensors.weight = weight;
 *     tensors.output = output;
 *     if (msda_execute(plan, &tensors, NULL) != MSDA_SUCCESS) puts(msda_last_error());
 *
 *     msda_plan_destroy(plan);
 *     msda_handle_destroy(handle);
 */
#ifndef MSDA_H_
#define MSDA_H_

#include <stddef.h>
#include <stdint.h>

/** Version of this header; it rises with every release. See msda_version() for the library's. */
#define MSDA_VERSION_MAJOR 0
/** Minor version: additions that leave every existing client working. */
#define MSDA_VERSION_MINOR 1
/** Patch version: corrections only. */
#define MSDA_VERSION_PATCH 0
/** Version of the binary interface, the number in the soname (libmsda.so.0). */
#define MSDA_ABI_VERSION 0

#if defined(__GNUC__)
/** Marks what the shared library exports; everything else in it is hidden. */
#define MSDA_API __attribute__((visibility("default")))
#else
#define MSDA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------------------------------------- scalars --
 * Fixed-width integers with plain enumerators, so a value that this header does not know is still
 * data: a newer library may return one, and an older one refuses it with a message. */

/**
 * How a call ended. msda_status_name() gives the name as text.
 * @since 0.1
 */
typedef int32_t msda_status;
enum {
  /** Done; every output is set. */
  MSDA_SUCCESS = 0,
  /** The caller's mistake. msda_last_error() names the field, its value and what is allowed. */
  MSDA_ERROR_INVALID_ARGUMENT = 1,
  /** A legal request that nothing in this build can carry out. For a problem, msda_explain() gives
   *  the reason of each kernel. */
  MSDA_ERROR_UNSUPPORTED = 2,
  /** A struct_size is larger than this library knows and the part it does not know is not zero: the
   *  client asks for something newer than the library. */
  MSDA_ERROR_ABI_MISMATCH = 3,
  /** A text, blob or workspace is too small. For texts and blobs *size was set to the size needed;
   *  for a workspace msda_plan_info::workspace_bytes is the size needed. */
  MSDA_ERROR_BUFFER_TOO_SMALL = 4,
  /** A serialized plan belongs to another library version, kernel revision or device: create it
   *  anew. Or a text of tuning records has another version's format. */
  MSDA_ERROR_STALE_PLAN = 5,
  /** The allocator, the caller's or the library's own, had no memory left. */
  MSDA_ERROR_OUT_OF_MEMORY = 6,
  /** The CUDA driver or runtime reported an error, or there is none: no driver, no such device, or
   *  a library built without CUDA. */
  MSDA_ERROR_CUDA = 7,
  /** A defect of the library. Please report it with the text of msda_last_error(). */
  MSDA_ERROR_INTERNAL = 8
};

/**
 * Type of the elements of a tensor.
 * @since 0.1
 */
typedef int32_t msda_dtype;
enum {
  /** Not set: the default that the field documents. */
  MSDA_DTYPE_NONE = 0,
  /** IEEE 754 binary32. */
  MSDA_DTYPE_F32 = 1,
  /** IEEE 754 binary16. */
  MSDA_DTYPE_F16 = 2,
  /** bfloat16: the upper 16 bits of a binary32. */
  MSDA_DTYPE_BF16 = 3,
  /** OCP FP8 E4M3: largest value 448, a NaN, no infinity. Only for value; see value_scale. */
  MSDA_DTYPE_F8_E4M3 = 4,
  /** IEEE 754 binary64. */
  MSDA_DTYPE_F64 = 5
};

/**
 * Which of the two computations a plan does.
 * @since 0.1
 */
typedef int32_t msda_operation;
enum {
  /** output from the inputs. */
  MSDA_FORWARD = 0,
  /** Gradients of the inputs from the inputs and grad_output. Needs no result of a forward call. */
  MSDA_BACKWARD = 1
};

/**
 * What the inputs are.
 * @since 0.1
 */
typedef int32_t msda_input_mode;
enum {
  /** coord and weight are given. */
  MSDA_INPUT_SAMPLED = 0,
  /** reference, offset and logit are given; the kernel computes, for point k on level l,
   *      weight = softmax(logit) over all K points of the head
   *      coord  = reference.xy + offset / (W, H)                        reference_dim = 2
   *      coord  = reference.xy + offset / P_l * reference.wh / 2        reference_dim = 4
   *  The softmax is that of the logits as given: a NaN logit makes its head's output NaN. */
  MSDA_INPUT_FUSED = 1
};

/**
 * How precisely the sums are formed. Storage types are the caller's choice either way.
 * @since 0.1
 */
typedef int32_t msda_math_mode;
enum {
  /** Products and sums in float32 (float64 for MSDA_DTYPE_F64), one rounding to the output type.
   * With u = 2^-24, bilinear weights c, corner values v, and dv the largest difference of
   * neighbouring values, an element of the forward result is within u * ((4 K + 8) * sum |w c v| +
   * 4 * max(W, H) * sum |w| * dv) and half a unit in the last place of the output type of the exact
   * result. */
  MSDA_MATH_ACCURATE = 0,
  /** Of MSDA_DTYPE_F16 and MSDA_DTYPE_F8_E4M3 values a kernel may round weights to float16, form
   * sums of at most 8 corners in float16, and add these in float32. With v = 2^-11 that may add v *
   * (12 * sum |w c v| + 8 * sum |w| dv) + K * 2^-22 * (1 + max |v|) to the error above, the last
   * term for products below float16's normal numbers, times the head's scale where there is one.
   * Sums beyond float16 are formed in float32. Other types, MSDA_DTYPE_BF16 with its 8 bits among
   * them, are as accurate as above. */
  MSDA_MATH_FAST = 1
};

/**
 * Where the points of a query land, which no shape tells and which decides whether GPU kernels that
 * cache the small levels in shared memory pay. A hint: any value is right for any points, and an
 * output keeps the same bound. It may choose another kernel, and so other bits within that bound.
 * @since 0.1
 */
typedef int32_t msda_point_locality;
enum {
  /** Not said; plans are made as for MSDA_POINTS_LOCAL. */
  MSDA_POINTS_UNKNOWN = 0,
  /** Queries that follow one another have their points near one another, within some pixels of
   *  their level: those of an encoder, or of a bird's-eye view around its reference points. */
  MSDA_POINTS_LOCAL = 1,
  /** The points of neighbouring queries lie anywhere on the maps: for callers who know that their
   *  queries have no order in space or that their offsets are as long as the maps are wide. */
  MSDA_POINTS_SCATTERED = 2
};

/**
 * Whether a result has the same bits on every run (same device, library and kernel id). The
 * forward result always has; this governs the backward one.
 * @since 0.1
 */
typedef int32_t msda_determinism;
enum {
  /** Kernels whose bits differ from run to run are rejected. */
  MSDA_DETERMINISTIC = 0,
  /** Any kernel, for example one that sums gradients by atomic additions. */
  MSDA_NONDETERMINISTIC = 1
};

/**
 * How msda_plan_create() picks the kernel.
 * @since 0.1
 */
typedef int32_t msda_plan_mode;
enum {
  /** The kernel with the smallest predicted time. Those that pay only where points are scattered
   *  are left out unless msda_problem::point_locality says so. */
  MSDA_PLAN_HEURISTIC = 0,
  /** The kernel measured fastest for this problem, from the handle's tuning records; that of
   *  MSDA_PLAN_HEURISTIC where no record is of the same problem, options, device, threads, library
   *  version and kernel revision. */
  MSDA_PLAN_TUNED = 1,
  /** The kernel that kernel_id names, or a failure that says why it does not take the problem. */
  MSDA_PLAN_FORCED = 2
};

/**
 * How much the log callback is told. Each level includes those above it.
 * @since 0.1
 */
typedef int32_t msda_log_level;
enum {
  /** Nothing: the callback is never called. */
  MSDA_LOG_OFF = 0,
  /** Failures that are also returned as a status. */
  MSDA_LOG_ERROR = 1,
  /** Things that work but cost the caller something. */
  MSDA_LOG_WARN = 2,
  /** What was chosen: devices, kernels, plans. */
  MSDA_LOG_INFO = 3,
  /** Every call. */
  MSDA_LOG_TRACE = 4
};

/* --------------------------------------------------------------------------------- handles -- */

/**
 * A device, its threads, allocator, log and tuning records. Opaque.
 * @since 0.1
 */
typedef struct msda_handle msda_handle;

/**
 * A problem with the kernel chosen for it, prepared to run. Opaque, immutable.
 * @since 0.1
 */
typedef struct msda_plan msda_plan;

/**
 * A CUDA stream: the same type as cudaStream_t and CUstream, without their headers. NULL on a CPU
 * handle, and the default stream on a CUDA handle.
 * @since 0.1
 */
typedef struct CUstream_st* msda_stream;

/* --------------------------------------------------------------------------------- structs -- */

/** msda_handle_options::device of the CPU. */
#define MSDA_DEVICE_CPU (-1)

/**
 * Receives log messages, on the thread that made the call they are about. It must not call the
 * library, and must not throw or jump out.
 *
 * @param user     msda_handle_options::log_user
 * @param level    how serious it is, MSDA_LOG_ERROR to MSDA_LOG_TRACE
 * @param message  UTF-8, one line, ends in a NUL; valid during the call only
 * @param length   bytes of the message, the NUL not counted
 * @since 0.1
 */
typedef void (*msda_log_fn)(void* user, msda_log_level level, const char* message, size_t length);

/**
 * Allocates what the library keeps for itself: handles, plans, tables, tuning records. Called while
 * they are created, never by msda_execute(). Must be safe to call from several threads.
 *
 * @param user       msda_handle_options::alloc_user
 * @param bytes      how much, at least 1
 * @param alignment  of the address, a power of two
 * @param device     CUDA ordinal of the memory wanted, or MSDA_DEVICE_CPU for host memory
 * @return the memory, or NULL when there is none: the call then ends in MSDA_ERROR_OUT_OF_MEMORY
 * @since 0.1
 */
typedef void* (*msda_alloc_fn)(void* user, size_t bytes, size_t alignment, int32_t device);

/**
 * Frees what a msda_alloc_fn returned. Must be safe to call from several threads.
 *
 * @param user     msda_handle_options::alloc_user
 * @param pointer  what the msda_alloc_fn returned, never NULL
 * @param bytes    the size it was asked for
 * @param device   the device it was asked for
 * @since 0.1
 */
typedef void (*msda_free_fn)(void* user, void* pointer, size_t bytes, int32_t device);

/**
 * What a handle is to be. Zeroed: CUDA device 0, no log, the library's own memory.
 * @since 0.1
 */
typedef struct msda_handle_options {
  /** sizeof(msda_handle_options). */
  size_t struct_size;
  /** Log callback, or NULL. */
  msda_log_fn log_fn;
  /** Handed to log_fn. Must live as long as the handle and its plans. */
  void* log_user;
  /** Allocator, together with free_fn; both NULL: the library's own. */
  msda_alloc_fn alloc_fn;
  /** Frees what alloc_fn returned; NULL exactly when alloc_fn is. */
  msda_free_fn free_fn;
  /** Handed to alloc_fn and free_fn. Must live as long as the handle and its plans. */
  void* alloc_user;
  /** Least serious level that log_fn is told. */
  msda_log_level log_level;
  /** CUDA ordinal (0 or more), or MSDA_DEVICE_CPU. */
  int32_t device;
  /** CPU handle: threads that work on one call, the caller's included; 0: all hardware threads.
   *  Never changes a result. A CUDA handle ignores it. */
  int32_t thread_count;
  /** No flags exist yet: 0. */
  uint32_t flags;
} msda_handle_options;

/**
 * The shapes, strides and types of one computation.
 *
 * Strides are in elements, never negative. A group of three that is all 0 means packed. Otherwise
 * each is used as it is: 0 in part of a group repeats an input (broadcast). Two rows of output must
 * not overlap. Gradients of inputs (grad_value, grad_coord, grad_weight, grad_reference,
 * grad_offset, grad_logit) and reference are always packed.
 * @since 0.1
 */
typedef struct msda_problem {
  /** sizeof(msda_problem). */
  size_t struct_size;
  /** Host [L][2]: (H, W) of each level in pixels, each 0 or more. NULL only if L is 0. */
  const int32_t* level_hw;
  /** Host [L]: P_l, points of each level; NULL: point_count on every level. */
  const int32_t* point_counts;
  /** Host [query_grid_count][2] = (H, W), or NULL. A hint of locality that never changes a result:
   *  the queries are the pixels, row by row, of these grids in turn, so sum of H * W = Q. In an
   *  encoder it is level_hw, in a bird's-eye-view model its one grid, in a decoder NULL. */
  const int32_t* query_hw;
  /** B, 0 or more. */
  int64_t batch;
  /** Q, 0 or more. */
  int64_t query_count;
  /** M, 0 or more. */
  int64_t head_count;
  /** D, 0 or more. */
  int64_t head_dim;
  /** Elements between neighbours along [B][S][M] of value; D is contiguous. */
  int64_t value_strides[3];
  /** Elements between neighbours along [B][Q][M] of coord and of offset; [K][2] is packed. */
  int64_t coord_strides[3];
  /** Elements between neighbours along [B][Q][M] of weight and of logit; [K] is packed. */
  int64_t weight_strides[3];
  /** Elements between neighbours along [B][Q][M] of output and of grad_output; D is contiguous. */
  int64_t output_strides[3];
  /** L, 0 or more. */
  int32_t level_count;
  /** P of every level, 0 or more; not looked at when point_counts is given. */
  int32_t point_count;
  /** 0, or 1: each level is stored as (H + 2) x (W + 2) tokens with a border of one pixel around
   *  it, which level_start and S count. Coordinates and level_hw stay those of the H x W map. The
   *  border must hold zeros (a kernel may read it or not); its gradient is zero. */
  int32_t value_border;
  /** FUSED: 2 = (x, y), or 4 = (centre x, centre y, width, height), all normalised. SAMPLED: 0. */
  int32_t reference_dim;
  /** Forward or backward. */
  msda_operation operation;
  /** Which of the inputs of msda_tensors are given. */
  msda_input_mode input_mode;
  /** Of value; has no default, MSDA_DTYPE_NONE is an error. */
  msda_dtype value_dtype;
  /** Of coord, reference, offset and their gradients: F64, F32, F16 or BF16. NONE: F64 when value
   *  is F64, else F32. Mind that 16-bit normalised coordinates are coarse: they step by 0.08
   *  (F16) or 0.65 (BF16) pixels on a map of width 167. */
  msda_dtype coord_dtype;
  /** Of weight, logit and their gradients: F64, F32, F16 or BF16. NONE: F64 when value is F64, else
   *  F32. */
  msda_dtype weight_dtype;
  /** Of output and grad_output: F64, F32, F16 or BF16. NONE: value_dtype, or F32 when value is
   *  F8_E4M3. */
  msda_dtype output_dtype;
  /** Of grad_value: F64, F32, F16 or BF16. NONE: value_dtype, or F32 when value is F8_E4M3. */
  msda_dtype grad_value_dtype;
  /** How precisely the sums are formed. */
  msda_math_mode math_mode;
  /** Whether the gradients have the same bits on every run. */
  msda_determinism determinism;
  /** Grids in query_hw; 0 when it is NULL. */
  int32_t query_grid_count;
  /** Where the points land. A hint for the choice of the kernel that any points are right with;
   *  msda_plan_tune() measures instead. */
  msda_point_locality point_locality;
  /** No flags exist yet: 0. */
  uint32_t flags;
  /** Host [L]: the token at which each level starts, 0 or more, in any order; NULL: the first level
   *  at 0, each other one where the one before it ends. Every level must end within S. Levels may
   *  share tokens; some kernels do not compute the gradients of such levels. */
  const int64_t* level_start;
  /** S, the tokens of value and grad_value; 0: the largest token at which a level ends. */
  int64_t token_count;
} msda_problem;

/**
 * How a plan is made. Zeroed: the kernel predicted to be fastest, any workspace, the whole device.
 * @since 0.1
 */
typedef struct msda_plan_options {
  /** sizeof(msda_plan_options). */
  size_t struct_size;
  /** MSDA_PLAN_FORCED: the kernel's id as msda_kernel_get() gives it, for example "ref.cpu@1".
   *  Else NULL. */
  const char* kernel_id;
  /** Kernels that need more workspace than this many bytes are rejected; 0: no limit. */
  size_t workspace_limit_bytes;
  /** How the kernel is picked. */
  msda_plan_mode mode;
  /** CUDA: streaming multiprocessors to use at most; 0: all. CPU: 0. */
  int32_t sm_count_limit;
} msda_plan_options;

/**
 * What a plan is. Set struct_size, the library sets the rest.
 * @since 0.1
 */
typedef struct msda_plan_info {
  /** sizeof(msda_plan_info), set by the caller. */
  size_t struct_size;
  /** The kernel chosen, "family.target.dtype[...]@revision"; where is_deterministic is 1 the
   *  same id and device always give the same bits. Lives as long as the plan. */
  const char* kernel_id;
  /** Bytes of workspace that each call needs; 0: none. */
  size_t workspace_bytes;
  /** The alignment that the workspace needs, in bytes. */
  size_t workspace_alignment;
  /** Predicted time of one call, in microseconds. */
  double predicted_us;
  /** Kernels that one call launches at most; gradients not asked for need fewer. 1 on the CPU. */
  int32_t launch_count;
  /** 1: the result has the same bits on every run; 0: that is not promised. */
  int32_t is_deterministic;
} msda_plan_info;

/**
 * The buffers of one call: device pointers on a CUDA handle, host pointers on a CPU handle, each
 * aligned to its element size. On the CPU a call is the fastest where all of them begin at
 * multiples of 64 bytes.
 *
 * Inputs of the plan that are not empty must be given. The inputs of the other input mode, and the
 * buffers of the other operation, are not looked at, so one struct can serve a forward and a
 * backward plan. A buffer that is written must not overlap any other buffer.
 * @since 0.1
 */
typedef struct msda_tensors {
  /** sizeof(msda_tensors). */
  size_t struct_size;
  /** [B][S][M][D] of value_dtype, value_strides. */
  const void* value;
  /** SAMPLED: [B][Q][M][K][2] of coord_dtype, coord_strides: normalised (x, y). */
  const void* coord;
  /** SAMPLED: [B][Q][M][K] of weight_dtype, weight_strides. */
  const void* weight;
  /** FUSED: [B][Q][L][reference_dim] of coord_dtype, packed: normalised points or boxes. */
  const void* reference;
  /** FUSED: [B][Q][M][K][2] of coord_dtype, coord_strides: in pixels of the point's level
   *  (reference_dim 2) or in units of box size / (2 P_l) (reference_dim 4). */
  const void* offset;
  /** FUSED: [B][Q][M][K] of weight_dtype, weight_strides: attention weights before the softmax. */
  const void* logit;
  /** [M] float: the value of head m is value_scale[m] times what is stored. NULL: 1. Only with
   *  F8_E4M3 values, else NULL. */
  const float* value_scale;
  /** FORWARD: [B][Q][M][D] of output_dtype, output_strides. */
  void* output;
  /** BACKWARD: [B][Q][M][D] of output_dtype, output_strides: derivative of the loss by output. */
  const void* grad_output;
  /** BACKWARD, this and those below: the derivative of the loss by an input, written in full, not
   *  accumulated; NULL: not wanted and not computed.
   *  [B][S][M][D] of grad_value_dtype, packed. */
  void* grad_value;
  /** SAMPLED: [B][Q][M][K][2] of coord_dtype, packed. */
  void* grad_coord;
  /** SAMPLED: [B][Q][M][K] of weight_dtype, packed. */
  void* grad_weight;
  /** FUSED: [B][Q][L][reference_dim] of coord_dtype, packed. */
  void* grad_reference;
  /** FUSED: [B][Q][M][K][2] of coord_dtype, packed. */
  void* grad_offset;
  /** FUSED: [B][Q][M][K] of weight_dtype, packed. */
  void* grad_logit;
  /** Scratch memory of the call, aligned to msda_plan_info::workspace_alignment; its content before
   *  and after means nothing. NULL only if the plan needs none. */
  void* workspace;
  /** Bytes of workspace, at least msda_plan_info::workspace_bytes. */
  size_t workspace_bytes;
} msda_tensors;

/**
 * What a kernel is. Set struct_size, the library sets the rest.
 * @since 0.1
 */
typedef struct msda_kernel_info {
  /** sizeof(msda_kernel_info), set by the caller. */
  size_t struct_size;
  /** Its id, "family.target.dtype[...]@revision". The revision rises when its results for
   *  finite inputs or the meaning of its tuning change. Lives as long as the library is loaded. */
  const char* kernel_id;
  /** The first part of the id. Lives as long as the library is loaded. */
  const char* family;
  /** Lowest compute capability it runs on, times ten (90 is 9.0); 0: it runs on the CPU. */
  int32_t sm_min;
  /** Highest compute capability it runs on, times ten; 0: no upper end. */
  int32_t sm_max;
} msda_kernel_info;

/* ------------------------------------------------------------------------------- functions --
 * A status comes back, the object comes first, outputs come last and are set only on success. */

/**
 * Version of the library that is loaded, which may be newer than this header.
 *
 * @return MSDA_VERSION_MAJOR * 10000 + MSDA_VERSION_MINOR * 100 + MSDA_VERSION_PATCH of the library
 * @sync host only
 * @threads any, at any time
 * @owns nothing
 * @since 0.1
 */
MSDA_API uint32_t msda_version(void);

/**
 * Version of the binary interface of the library that is loaded. A client built with another
 * MSDA_ABI_VERSION must not call anything else.
 *
 * @return MSDA_ABI_VERSION of the library
 * @sync host only
 * @threads any, at any time
 * @owns nothing
 * @since 0.1
 */
MSDA_API uint32_t msda_abi_version(void);

/**
 * One line about how the library was built: version, compiler, CPU targets, and CUDA architectures
 * or why there are none. For people and logs; its form is not part of the contract.
 *
 * @return UTF-8 text, never NULL
 * @sync host only
 * @threads any, at any time
 * @owns the library; the text lives as long as the library is loaded
 * @since 0.1
 */
MSDA_API const char* msda_build_info(void);

/**
 * The name of a status as it is spelled in this header, for example "MSDA_ERROR_CUDA".
 *
 * @param status  any number
 * @return the name; "MSDA_ERROR_UNKNOWN" for a number that is no status; never NULL
 * @sync host only
 * @threads any, at any time
 * @owns the library; the text lives as long as the library is loaded
 * @since 0.1
 */
MSDA_API const char* msda_status_name(msda_status status);

/**
 * What went wrong in the last call on this thread that failed, as one sentence: the function, the
 * field, its value, and what is allowed. Read it right after the failure.
 *
 * @return UTF-8 text, "" when no call on this thread has failed; never NULL
 * @sync host only
 * @threads any; every thread sees its own text
 * @owns the library; the text lives until the next call of the library on this thread
 * @since 0.1
 */
MSDA_API const char* msda_last_error(void);

/**
 * Creates a handle for one device. A CPU handle starts its threads here; they sleep when idle.
 *
 * @param options  what it is to be, or NULL for a zeroed struct
 * @param out      receives the handle
 * @status MSDA_SUCCESS  *out is a handle
 * @status MSDA_ERROR_INVALID_ARGUMENT  a field is out of range, only one of alloc_fn and free_fn is
 *     set, or out is NULL
 * @status MSDA_ERROR_ABI_MISMATCH  options has unknown fields that are not zero
 * @status MSDA_ERROR_CUDA  a CUDA device was asked for and there is no driver, no such device, or
 *     the library was built without CUDA
 * @sync host only for a CPU handle; may block for a CUDA handle (context creation)
 * @threads any, at any time
 * @owns the caller, who ends it with msda_handle_destroy(); options is not kept, but the pointers
 *     log_user and alloc_user in it are
 * @since 0.1
 */
MSDA_API msda_status msda_handle_create(const msda_handle_options* options, msda_handle** out);

/**
 * Gives up a handle. Its threads and memory go with it or, if it still has plans, with the last of
 * those: a plan stays good when its handle is destroyed first.
 *
 * @param handle  the handle, or NULL (then nothing happens)
 * @sync may block until its threads have ended
 * @threads no other thread may be inside a call with the handle; calls with its plans may go on
 * @owns frees the handle, once its plans are destroyed too
 * @since 0.1
 */
MSDA_API void msda_handle_destroy(msda_handle* handle);

/**
 * How many kernels the library has, whether or not they run on the handle's device.
 *
 * @param handle  a handle
 * @param out     receives the number
 * @status MSDA_SUCCESS  *out is set
 * @status MSDA_ERROR_INVALID_ARGUMENT  handle or out is NULL
 * @sync host only
 * @threads any
 * @owns nothing
 * @since 0.1
 */
MSDA_API msda_status msda_kernel_count(const msda_handle* handle, size_t* out);

/**
 * Describes one kernel of the library.
 *
 * @param handle  a handle
 * @param index   which one, 0 to msda_kernel_count() - 1; the order is that of the library's list
 * @param out     its struct_size is set by the caller; receives the description
 * @status MSDA_SUCCESS  *out is set
 * @status MSDA_ERROR_INVALID_ARGUMENT  index is too large, struct_size is too small, or handle or
 *     out is NULL
 * @status MSDA_ERROR_ABI_MISMATCH  out has unknown fields that are not zero
 * @sync host only
 * @threads any
 * @owns the library keeps the texts in *out
 * @since 0.1
 */
MSDA_API msda_status msda_kernel_get(const msda_handle* handle, size_t index,
                                     msda_kernel_info* out);

/**
 * Says what each kernel makes of a problem, one line a kernel: those that take it first, the one
 * chosen, then by predicted time; ", only chosen for scattered points or by tuning" or ", only
 * chosen where no other kernel takes the problem" ends a line where that is so:
 *
 *     1  simd.cpu.f32@1  predicted 812.3 us
 *     2  ref.cpu@1  predicted 91843.0 us, only chosen where no other kernel takes the problem
 *     -  simd.cpu.f16@1  rejected: does not take this value_dtype
 *
 * @param handle     a handle
 * @param problem    the problem
 * @param text       receives UTF-8 text that ends in a NUL, or NULL to ask for the size
 * @param text_size  in: bytes at text; out: bytes of the text with its NUL
 * @status MSDA_SUCCESS  the text, or with text NULL the size, is set
 * @status MSDA_ERROR_INVALID_ARGUMENT  a field of problem is out of range, or handle, problem or
 *     text_size is NULL
 * @status MSDA_ERROR_ABI_MISMATCH  problem has unknown fields that are not zero
 * @status MSDA_ERROR_BUFFER_TOO_SMALL  *text_size is the size needed; text is untouched
 * @sync host only
 * @threads any
 * @owns nothing is kept
 * @since 0.1
 */
MSDA_API msda_status msda_explain(const msda_handle* handle, const msda_problem* problem,
                                  char* text, size_t* text_size);

/**
 * Chooses a kernel for a problem and prepares everything but the launch. Nothing runs on the
 * device. With query_hw, or with more than 16 levels, a GPU's plan copies a table into device
 * memory and waits for it, so make it before another thread captures in global mode.
 *
 * @param handle   a handle
 * @param problem  the problem; its arrays are copied
 * @param options  how the kernel is picked, or NULL for a zeroed struct
 * @param out      receives the plan
 * @status MSDA_SUCCESS  *out is a plan
 * @status MSDA_ERROR_INVALID_ARGUMENT  a field of problem or options is out of range, a tensor
 *     would have more elements or bytes than an int64 counts, kernel_id names no kernel, or handle,
 *     problem or out is NULL
 * @status MSDA_ERROR_UNSUPPORTED  no kernel takes the problem, or the one forced does not; the
 *     message has the reason
 * @status MSDA_ERROR_ABI_MISMATCH  problem or options has unknown fields that are not zero
 * @status MSDA_ERROR_CUDA  the driver refused a kernel or a table
 * @sync host only
 * @threads any; several threads may use one handle
 * @owns the caller, who ends it with msda_plan_destroy(); problem and options are
 *     not kept
 * @since 0.1
 */
MSDA_API msda_status msda_plan_create(msda_handle* handle, const msda_problem* problem,
                                      const msda_plan_options* options, msda_plan** out);

/**
 * Times the front runners on the caller's own tensors and makes a plan with the fastest. The speed
 * of a kernel depends on where the points land, so the sample should be typical.
 *
 * Kernels are tried in the order of msda_explain(), as many as the budget has time for, and none
 * that is predicted to take ten times as long as the first. The first, which MSDA_PLAN_HEURISTIC
 * would take, is run at least once, however long that takes. It stays the plan's kernel unless
 * another was faster by more than noise twice: among all that were tried, and alone against it. A
 * kernel that fails is left out. About twenty times the time of a call is enough to compare two
 * kernels; with less the plan is the heuristic's.
 *
 * The winner goes into the handle's tuning records if the budget was enough to compare, in the
 * place of an earlier record of the same problem and options. MSDA_PLAN_TUNED finds it there.
 *
 * @param handle     a handle
 * @param problem    the problem; its arrays are copied
 * @param options    limits that the plan and every kernel tried keep to, or NULL for a zeroed
 *     struct; mode MSDA_PLAN_HEURISTIC and MSDA_PLAN_TUNED mean the same here
 * @param sample     tensors of a typical call. Its output or gradients are overwritten, and hold
 * the result of the plan's kernel afterwards; after MSDA_ERROR_CUDA their content means nothing.
 *     Kernels that need more than its workspace are left out; with workspace NULL and
 *     workspace_bytes 0 the library takes what they need from the handle's allocator for the time
 *     of the call
 * @param stream     where to run, not capturing a graph; NULL on a CPU handle
 * @param budget_ms  time to spend, in milliseconds, greater than 0 and finite
 * @param out        receives the plan
 * @status MSDA_SUCCESS  *out is a plan
 * @status MSDA_ERROR_INVALID_ARGUMENT  a field or argument is out of range, the mode is
 *     MSDA_PLAN_FORCED, a buffer is wrong as for msda_execute(), stream is capturing, or handle,
 *     problem, sample or out is NULL
 * @status MSDA_ERROR_UNSUPPORTED  no kernel takes the problem
 * @status MSDA_ERROR_BUFFER_TOO_SMALL  workspace_bytes is less than the heuristic's kernel needs
 * @status MSDA_ERROR_ABI_MISMATCH  a struct has unknown fields that are not zero
 * @status MSDA_ERROR_CUDA  the heuristic's kernel could not be run, or stream is of another device
 * @sync may block: runs kernels and waits for them
 * @threads any, with tensors of its own; other work on the device disturbs the measurement. No
 *     thread may be capturing a graph in global mode
 * @owns the caller, who ends the plan with msda_plan_destroy(); nothing else is kept
 * @since 0.1
 */
MSDA_API msda_status msda_plan_tune(msda_handle* handle, const msda_problem* problem,
                                    const msda_plan_options* options, const msda_tensors* sample,
                                    msda_stream stream, double budget_ms, msda_plan** out);

/**
 * Describes a plan: its kernel and the workspace that each call needs.
 *
 * @param plan  a plan
 * @param out   its struct_size is set by the caller; receives the description
 * @status MSDA_SUCCESS  *out is set
 * @status MSDA_ERROR_INVALID_ARGUMENT  struct_size is too small, or plan or out is NULL
 * @status MSDA_ERROR_ABI_MISMATCH  out has unknown fields that are not zero
 * @sync host only
 * @threads any
 * @owns the plan keeps the text in *out
 * @since 0.1
 */
MSDA_API msda_status msda_plan_get_info(const msda_plan* plan, msda_plan_info* out);

/**
 * Writes a plan as bytes that msda_plan_deserialize() turns into the same plan again, on the same
 * kind of device with the same library. The format is not part of the contract.
 *
 * @param plan       a plan
 * @param blob       receives the bytes, or NULL to ask for the size
 * @param blob_size  in: bytes at blob; out: bytes of the blob
 * @status MSDA_SUCCESS  the blob, or with blob NULL the size, is set
 * @status MSDA_ERROR_INVALID_ARGUMENT  plan or blob_size is NULL
 * @status MSDA_ERROR_BUFFER_TOO_SMALL  *blob_size is the size needed; blob is untouched
 * @sync host only
 * @threads any
 * @owns nothing is kept
 * @since 0.1
 */
MSDA_API msda_status msda_plan_serialize(const msda_plan* plan, void* blob, size_t* blob_size);

/**
 * Makes the plan again that msda_plan_serialize() wrote, with the same kernel. Safe on bytes from
 * anywhere: a damaged blob is refused, never trusted.
 *
 * @param handle     a handle
 * @param blob       the bytes; need not be aligned
 * @param blob_size  their number
 * @param out        receives the plan
 * @status MSDA_SUCCESS  *out is a plan
 * @status MSDA_ERROR_INVALID_ARGUMENT  the bytes are damaged, cut short or no plan, or handle, blob
 *     or out is NULL
 * @status MSDA_ERROR_STALE_PLAN  the plan is of another library version, kernel revision or device
 * @status MSDA_ERROR_CUDA  the driver refused a kernel or a table
 * @sync host only
 * @threads any; several threads may use one handle
 * @owns the caller, who ends it with msda_plan_destroy(); blob is not kept
 * @since 0.1
 */
MSDA_API msda_status msda_plan_deserialize(msda_handle* handle, const void* blob, size_t blob_size,
                                           msda_plan** out);

/**
 * Ends a plan.
 *
 * @param plan  the plan, or NULL (then nothing happens)
 * @sync may block on a CUDA handle, until calls in flight are done
 * @threads no thread may be inside msda_execute() with the plan
 * @owns frees the plan
 * @since 0.1
 */
MSDA_API void msda_plan_destroy(msda_plan* plan);

/**
 * Runs a plan on the caller's buffers. Allocates nothing and synchronises nothing; the very first
 * call may be captured in a CUDA graph. Runs on the plan's device, whatever the current one is.
 *
 * @param plan     a plan
 * @param tensors  the buffers; the struct is not kept
 * @param stream   where to run; NULL on a CPU handle. While it captures, its device is not checked
 * @status MSDA_SUCCESS  CPU: done. CUDA: enqueued
 * @status MSDA_ERROR_INVALID_ARGUMENT  a buffer that the plan needs is NULL, misaligned or overlaps
 *     one that is written, a gradient of the other input mode is asked for, the workspace is NULL
 *     or misaligned, value_scale is given without F8_E4M3 values, stream is not NULL on a CPU
 *     handle, the process was forked after a handle of more than one thread was created, or plan or
 *     tensors is NULL
 * @status MSDA_ERROR_BUFFER_TOO_SMALL  workspace_bytes is less than the plan needs
 * @status MSDA_ERROR_ABI_MISMATCH  tensors has unknown fields that are not zero
 * @status MSDA_ERROR_CUDA  the launch was refused, or stream is of another device than the plan
 * @sync CPU: returns when the work is done. CUDA: enqueues
 * @threads any; one plan may run on several threads and streams at once, each call with buffers and
 *     a workspace of its own. The calls of one CPU handle share its threads
 * @owns the caller keeps the buffers, and keeps them alive until the work is done
 * @since 0.1
 */
MSDA_API msda_status msda_execute(const msda_plan* plan, const msda_tensors* tensors,
                                  msda_stream stream);

/**
 * Writes the handle's tuning records as text, for msda_tuning_import() in a later run: those of
 * msda_plan_tune() and those imported. The first line names the format's version; each other line
 * is a record and says what it belongs to (library version, device, threads, options, problem) and
 * what was measured. Sorted, so that the same records give the same text.
 *
 * @param handle     a handle
 * @param text       receives ASCII text that ends in a NUL, or NULL to ask for the size
 * @param text_size  in: bytes at text; out: bytes of the text with its NUL
 * @status MSDA_SUCCESS  the text, or with text NULL the size, is set
 * @status MSDA_ERROR_INVALID_ARGUMENT  handle or text_size is NULL
 * @status MSDA_ERROR_BUFFER_TOO_SMALL  *text_size is the size needed; text is untouched
 * @sync host only
 * @threads any; another thread may add records between two calls
 * @owns nothing is kept
 * @since 0.1
 */
MSDA_API msda_status msda_tuning_export(const msda_handle* handle, char* text, size_t* text_size);

/**
 * Adds the records that msda_tuning_export() wrote to the handle's, replacing those of the same
 * problem; all of them, or after a failure none. Records of other devices, thread counts, library
 * versions or kernels that this library does not have are kept and exported again, but never used:
 * one text can serve several machines.
 *
 * @param handle     a handle
 * @param text       the text, its lines ended by LF or CR LF; a NUL at its end is allowed
 * @param text_size  its bytes, at most one NUL counted
 * @status MSDA_SUCCESS  the records are added
 * @status MSDA_ERROR_INVALID_ARGUMENT  the text is cut off, has two records of one problem or is
 *     otherwise no tuning record: the message has the number of the line and what is wrong there.
 *     Or handle or text is NULL
 * @status MSDA_ERROR_STALE_PLAN  the text has the format of another version of the library
 * @sync host only
 * @threads any
 * @owns nothing is kept
 * @since 0.1
 */
MSDA_API msda_status msda_tuning_import(msda_handle* handle, const char* text, size_t text_size);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* MSDA_H_ */
