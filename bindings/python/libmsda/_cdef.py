# Generated from include/msda.h by tools/generate; do not edit.
"""The C interface as cffi reads it, with what is checked when the library is loaded."""

ABI_VERSION = 0

# Bytes on a 64-bit machine.
STRUCT_SIZES = {
    "msda_handle_options": 64,
    "msda_problem": 296,
    "msda_plan_options": 32,
    "msda_plan_info": 48,
    "msda_tensors": 152,
    "msda_kernel_info": 32,
}

CDEF = """
typedef int32_t msda_status;
enum { MSDA_SUCCESS = 0, MSDA_ERROR_INVALID_ARGUMENT = 1, MSDA_ERROR_UNSUPPORTED = 2, MSDA_ERROR_ABI_MISMATCH = 3, MSDA_ERROR_BUFFER_TOO_SMALL = 4, MSDA_ERROR_STALE_PLAN = 5, MSDA_ERROR_OUT_OF_MEMORY = 6, MSDA_ERROR_CUDA = 7, MSDA_ERROR_INTERNAL = 8 };
typedef int32_t msda_dtype;
enum { MSDA_DTYPE_NONE = 0, MSDA_DTYPE_F32 = 1, MSDA_DTYPE_F16 = 2, MSDA_DTYPE_BF16 = 3, MSDA_DTYPE_F8_E4M3 = 4, MSDA_DTYPE_F64 = 5 };
typedef int32_t msda_operation;
enum { MSDA_FORWARD = 0, MSDA_BACKWARD = 1 };
typedef int32_t msda_input_mode;
enum { MSDA_INPUT_SAMPLED = 0, MSDA_INPUT_FUSED = 1 };
typedef int32_t msda_math_mode;
enum { MSDA_MATH_ACCURATE = 0, MSDA_MATH_FAST = 1 };
typedef int32_t msda_point_locality;
enum { MSDA_POINTS_UNKNOWN = 0, MSDA_POINTS_LOCAL = 1, MSDA_POINTS_SCATTERED = 2 };
typedef int32_t msda_sampling_mode;
enum { MSDA_SAMPLING_BILINEAR = 0, MSDA_SAMPLING_NEAREST = 1 };
typedef int32_t msda_determinism;
enum { MSDA_DETERMINISTIC = 0, MSDA_NONDETERMINISTIC = 1 };
typedef int32_t msda_plan_mode;
enum { MSDA_PLAN_HEURISTIC = 0, MSDA_PLAN_TUNED = 1, MSDA_PLAN_FORCED = 2 };
typedef int32_t msda_log_level;
enum { MSDA_LOG_OFF = 0, MSDA_LOG_ERROR = 1, MSDA_LOG_WARN = 2, MSDA_LOG_INFO = 3, MSDA_LOG_TRACE = 4 };
typedef struct msda_handle msda_handle;
typedef struct msda_plan msda_plan;
typedef struct CUstream_st* msda_stream;
#define MSDA_VERSION_MAJOR 0
#define MSDA_VERSION_MINOR 1
#define MSDA_VERSION_PATCH 0
#define MSDA_ABI_VERSION 0
#define MSDA_DEVICE_CPU -1
typedef void (*msda_log_fn)(void* user, msda_log_level level, const char* message, size_t length);
typedef void* (*msda_alloc_fn)(void* user, size_t bytes, size_t alignment, int32_t device);
typedef void (*msda_free_fn)(void* user, void* pointer, size_t bytes, int32_t device);
typedef struct msda_handle_options {
  size_t struct_size;
  msda_log_fn log_fn;
  void* log_user;
  msda_alloc_fn alloc_fn;
  msda_free_fn free_fn;
  void* alloc_user;
  msda_log_level log_level;
  int32_t device;
  int32_t thread_count;
  uint32_t flags;
} msda_handle_options;
typedef struct msda_problem {
  size_t struct_size;
  const int32_t* level_hw;
  const int32_t* point_counts;
  const int32_t* query_hw;
  int64_t batch;
  int64_t query_count;
  int64_t head_count;
  int64_t head_dim;
  int64_t value_strides[3];
  int64_t coord_strides[3];
  int64_t weight_strides[3];
  int64_t output_strides[3];
  int32_t level_count;
  int32_t point_count;
  int32_t value_border;
  int32_t reference_dim;
  msda_operation operation;
  msda_input_mode input_mode;
  msda_dtype value_dtype;
  msda_dtype coord_dtype;
  msda_dtype weight_dtype;
  msda_dtype output_dtype;
  msda_dtype grad_value_dtype;
  msda_math_mode math_mode;
  msda_determinism determinism;
  int32_t query_grid_count;
  msda_point_locality point_locality;
  uint32_t flags;
  const int64_t* level_start;
  int64_t token_count;
  int64_t grad_coord_strides[3];
  int64_t grad_weight_strides[3];
  msda_sampling_mode sampling_mode;
  msda_dtype reference_dtype;
} msda_problem;
typedef struct msda_plan_options {
  size_t struct_size;
  const char* kernel_id;
  size_t workspace_limit_bytes;
  msda_plan_mode mode;
  int32_t sm_count_limit;
} msda_plan_options;
typedef struct msda_plan_info {
  size_t struct_size;
  const char* kernel_id;
  size_t workspace_bytes;
  size_t workspace_alignment;
  double predicted_us;
  int32_t launch_count;
  int32_t is_deterministic;
} msda_plan_info;
typedef struct msda_tensors {
  size_t struct_size;
  const void* value;
  const void* coord;
  const void* weight;
  const void* reference;
  const void* offset;
  const void* logit;
  const float* value_scale;
  void* output;
  const void* grad_output;
  void* grad_value;
  void* grad_coord;
  void* grad_weight;
  void* grad_reference;
  void* grad_offset;
  void* grad_logit;
  void* workspace;
  size_t workspace_bytes;
  void* attention;
} msda_tensors;
typedef struct msda_kernel_info {
  size_t struct_size;
  const char* kernel_id;
  const char* family;
  int32_t sm_min;
  int32_t sm_max;
} msda_kernel_info;
uint32_t msda_version(void);
uint32_t msda_abi_version(void);
const char* msda_build_info(void);
const char* msda_status_name(msda_status status);
const char* msda_last_error(void);
msda_status msda_handle_create(const msda_handle_options* options, msda_handle** out);
void msda_handle_destroy(msda_handle* handle);
msda_status msda_kernel_count(const msda_handle* handle, size_t* out);
msda_status msda_kernel_get(const msda_handle* handle, size_t index, msda_kernel_info* out);
msda_status msda_explain(const msda_handle* handle, const msda_problem* problem, char* text, size_t* text_size);
msda_status msda_plan_create(msda_handle* handle, const msda_problem* problem, const msda_plan_options* options, msda_plan** out);
msda_status msda_plan_tune(msda_handle* handle, const msda_problem* problem, const msda_plan_options* options, const msda_tensors* sample, msda_stream stream, double budget_ms, msda_plan** out);
msda_status msda_plan_get_info(const msda_plan* plan, msda_plan_info* out);
msda_status msda_plan_serialize(const msda_plan* plan, void* blob, size_t* blob_size);
msda_status msda_plan_deserialize(msda_handle* handle, const void* blob, size_t blob_size, msda_plan** out);
void msda_plan_destroy(msda_plan* plan);
msda_status msda_execute(const msda_plan* plan, const msda_tensors* tensors, msda_stream stream);
msda_status msda_tuning_export(const msda_handle* handle, char* text, size_t* text_size);
msda_status msda_tuning_import(msda_handle* handle, const char* text, size_t text_size);
"""

# Tensors stand in the order of msda_tensors.
TENSORS = {
    "value": ('BSMD', 'value_dtype', 'value_strides', None, None, False, False, False),
    "coord": ('BQMK2', 'coord_dtype', 'coord_strides', None, 'sampled', False, False, False),
    "weight": ('BQMK', 'weight_dtype', 'weight_strides', None, 'sampled', False, False, False),
    "reference": ('BQLR', 'reference_dtype', None, None, 'fused', False, False, False),
    "offset": ('BQMK2', 'coord_dtype', 'coord_strides', None, 'fused', False, False, False),
    "logit": ('BQMK', 'weight_dtype', 'weight_strides', None, 'fused', False, False, False),
    "value_scale": ('M', None, None, None, None, True, False, False),
    "output": ('BQMD', 'output_dtype', 'output_strides', 'forward', None, False, True, False),
    "grad_output": ('BQMD', 'output_dtype', 'output_strides', 'backward', None, False, False, False),
    "grad_value": ('BSMD', 'grad_value_dtype', None, 'backward', None, True, True, False),
    "grad_coord": ('BQMK2', 'coord_dtype', 'grad_coord_strides', 'backward', 'sampled', True, True, False),
    "grad_weight": ('BQMK', 'weight_dtype', 'grad_weight_strides', 'backward', 'sampled', True, True, False),
    "grad_reference": ('BQLR', 'reference_dtype', None, 'backward', 'fused', True, True, False),
    "grad_offset": ('BQMK2', 'coord_dtype', 'grad_coord_strides', 'backward', 'fused', True, True, False),
    "grad_logit": ('BQMK', 'weight_dtype', 'grad_weight_strides', 'backward', 'fused', True, True, False),
    "attention": ('BQMK', 'weight_dtype', None, 'forward', 'fused', False, True, True),
}
