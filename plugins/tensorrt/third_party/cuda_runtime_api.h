#pragma once

typedef struct CUevent_st *cudaEvent_t;
typedef struct CUstream_st *cudaStream_t;
