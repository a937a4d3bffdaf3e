/* A client in plain C99: what the rest of the tests do from C++, done the way a C program does it.
 */
#ifndef MSDA_TESTS_C_CLIENT_H_
#define MSDA_TESTS_C_CLIENT_H_

#include <msda.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A float64 problem on packed arrays. Inputs and results of the other input mode are NULL. */
typedef struct c_client_case {
  const int32_t* level_hw; /* [L][2] */
  const int32_t* points;   /* [L] */
  int32_t level_count;
  int32_t reference_dim; /* 0: sampled */
  int64_t batch, query_count, head_count, head_dim;
  const double *value, *coord, *weight, *reference, *offset, *logit, *grad_output;
  double *output, *grad_value, *grad_coord, *grad_weight;
  double *grad_reference, *grad_offset, *grad_logit;
} c_client_case;

/* Forward into output, then backward into every gradient that is not NULL. Returns the first
 * failure. */
msda_status c_client_run(const c_client_case* input);

#ifdef __cplusplus
}
#endif
#endif
