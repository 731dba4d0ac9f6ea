/* The tuner of collective_core on CUDA devices: which of several ways carries out a call. It measures the program's own
 * calls, and makes one choice for each collective, class of types and power of two of bytes, equal on all ranks.
 *
 * Every rank makes the same calls in the same order, and captures or groups a call where the others do. */
#ifndef COLLECTIVE_CORE_COLLECTIVE_CORE_CUDA_TUNING_H_
#define COLLECTIVE_CORE_COLLECTIVE_CORE_CUDA_TUNING_H_

#include "collective_core/collective_core_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What was chosen for one class of calls. */
typedef struct cc_cuda_choice {
  const char* collective; /* "all_reduce", ... */
  const char* types; /* the class of types, in words */
  int size_class; /* the power of two at or below the bytes of the larger buffer of a rank */
  const char* by; /* the rival's name, "packets", "buffers" or "slots" */
  double us; /* the median of the slowest rank; 0: not known */
  double first_us; /* the same of the rival; without one, of the library's own choice */
  int kept; /* 1: read from the cache file */
} cc_cuda_choice;

/* Other means to carry out the collectives: another library. Set size to sizeof(cc_cuda_rival). */
typedef struct cc_cuda_rival {
  size_t size; /* sizeof(cc_cuda_rival), set before the call */
  const char* name; /* lower-case letters */
  const char* version; /* choices that are kept hold for one version */
  cc_result (*run)(void* context, const cc_cuda_call* call); /* queues the call on its stream */
  void (*chosen)(void* context, const cc_cuda_choice* choice); /* may be NULL; during cc_cuda_add_rival and _compete */
  void* context; /* the first argument of both functions */
  size_t until_bytes[4]; /* by collective: until a choice is made, calls of more bytes are the rival's */
} cc_cuda_rival;

/* Collective; before any other call of the handle. The rival takes part in the competition, and stays the choice unless
 * another way is faster by more than noise and gives its results. */
CC_API cc_result cc_cuda_add_rival(cc_cuda* handle, const cc_cuda_rival* rival);

/* Carries out the call, by the way that was chosen or that is being measured. Not inside a group of the rival. */
CC_API cc_result cc_cuda_compete(cc_cuda* handle, const cc_cuda_call* call);

/* Who carries out such calls: 0: not decided, 1: this library, 2: the rival. Takes nanoseconds; counts nothing. */
CC_API cc_result cc_cuda_consult(cc_cuda* handle, int collective, size_t count, cc_dtype dtype, int* by);

#ifdef __cplusplus
}
#endif

#endif /* COLLECTIVE_CORE_COLLECTIVE_CORE_CUDA_TUNING_H_ */
