/* Top-k selection on CUDA devices: a part of libcollective_core_cuda.so that needs no communicator.
 *
 * A handle holds scratch memory on the device that was current when it was created. Calls queue work on a stream and
 * return; none waits for the device, unless the scratch memory has to grow. Calls can be captured in a CUDA graph once
 * the scratch memory is large enough. One operation uses a handle at a time: a call on another stream than the last one
 * waits on the device for that one, but the replays of graphs must be ordered by the caller.
 *
 * Texts of errors come from cc_cuda_last_error. */
#ifndef COLLECTIVE_CORE_COLLECTIVE_CORE_CUDA_TOPK_H_
#define COLLECTIVE_CORE_COLLECTIVE_CORE_CUDA_TOPK_H_

#include "collective_core/collective_core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Scratch memory of one device. */
typedef struct cc_cuda_topk cc_cuda_topk;

/* One payload in device memory, at a multiple of 4 bytes: two words {nonfinite, kept}, then kept indices (uint32), then
 * kept values (f32 or f16). nonfinite is 1 if an element is an infinity or NaN. The order of the elements is not
 * defined; which elements they are is. The size is this many bytes. */
CC_API size_t cc_cuda_topk_payload_bytes(size_t kept, cc_topk_values values);

/* Set size to sizeof(cc_cuda_topk_request), and everything else that is not used to zero. */
typedef struct cc_cuda_topk_request {
  size_t size; /* sizeof(cc_cuda_topk_request), set before the call */
  const void* gradient; /* count elements of dtype: f32, f16 or bf16, aligned to an element */
  size_t count;         /* 1 to 2^31 - 1 */
  size_t kept;          /* 1 to count */
  int32_t dtype;        /* cc_dtype */
  int32_t method;       /* cc_topk_method; zero: exact */
  int32_t values;       /* cc_topk_values; zero: f32 */
  int32_t samplings;    /* of MSTopK; zero: 30 */
  const float* residual; /* count elements that are added to the gradient; NULL: zeros */
  float* next_residual; /* count elements: what is not sent of gradient + residual, the rounding of f16 values included.
                            Must not overlap an input. NULL: not wanted */
  void* payload; /* cc_cuda_topk_payload_bytes of device memory */
} cc_cuda_topk_request;

/* The handle's scratch memory suffices for `count` elements of which `kept` are selected, and for less; it grows if a
 * request needs more. Zero: allocate at the first request. */
CC_API cc_result cc_cuda_topk_create(size_t count, size_t kept, cc_cuda_topk** handle);
/* Selects the elements of gradient + residual with the largest magnitudes, among equal ones those of the lowest index
 * (cc_topk_method). An infinity is larger than any number, NaN larger than infinity. If the payload is nonfinite,
 * next_residual is not to be used. */
CC_API cc_result cc_cuda_topk_select(cc_cuda_topk* handle, const cc_cuda_topk_request* request, void* stream);

/* out[i] of dtype (f32, f16 or bf16) = the sum of the values with index i over all payloads, added in f32 in the order
 * of the list, divided by divisor once; zero where there is none. All payloads have `kept` elements. An index beyond
 * count is not added; cc_cuda_topk_poll then returns CC_ERROR_INTERNAL. */
CC_API cc_result cc_cuda_topk_sum(cc_cuda_topk* handle, const void* const* payloads, size_t payload_count, size_t kept,
                                  cc_topk_values values, int divisor, void* out, size_t count, cc_dtype dtype,
                                  void* stream);
/* CC_SUCCESS, or the first error that the device met. Does not wait for it. */
CC_API cc_result cc_cuda_topk_poll(cc_cuda_topk* handle);
/* Waits for the last operation. NULL is allowed. */
CC_API cc_result cc_cuda_topk_destroy(cc_cuda_topk* handle);

#ifdef __cplusplus
}
#endif

#endif /* COLLECTIVE_CORE_COLLECTIVE_CORE_CUDA_TOPK_H_ */
