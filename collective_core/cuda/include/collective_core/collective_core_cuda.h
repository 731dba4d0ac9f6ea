/* collective_core on CUDA devices: the C ABI of libcollective_core_cuda.so. Every symbol starts with cc_cuda_.
 *
 * A handle serves the ranks of one communicator that share one GPU, as processes or threads. Each rank has a
 * staging buffer that the others map (cudaIpc). Streams wait in their front end (stream memory operations), so no
 * kernel occupies the GPU while it waits: without MPS, processes share a GPU by time slices, and a kernel that
 * spins would use up its own.
 *
 * Results are those of collective_core.h; cc_cuda_last_error has the text of the calling thread's last error. */
#ifndef COLLECTIVE_CORE_COLLECTIVE_CORE_CUDA_H_
#define COLLECTIVE_CORE_COLLECTIVE_CORE_CUDA_H_

#include "collective_core/collective_core.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cc_cuda cc_cuda;

/* Set size to sizeof(cc_cuda_options). Zero means the default. */
typedef struct cc_cuda_options {
  size_t size;
  int64_t staging_bytes; /* the largest staging buffer of this rank; default 268435456. Equal on all ranks */
  uint32_t first_epoch;  /* where the counter of operations starts, to test its wrap-around */
  uint32_t reserved;     /* zero */
} cc_cuda_options;

/* Writes the identity of the current device into 16 bytes: equal on ranks that share a GPU. Not collective.
 * CC_ERROR_SYSTEM without a driver or device, or if the device cannot wait in streams. */
CC_API cc_result cc_cuda_device_identity(unsigned char identity[16]);

/* Collective over comm, which must outlive the handle: allocates and exchanges the first staging buffers on the
 * current device. At most 16 ranks. If it fails on one rank it fails on all. */
CC_API cc_result cc_cuda_create(cc_comm* comm, const cc_cuda_options* options, cc_cuda** handle);

/* Reduces device memory over all ranks; in place with send == recv. Collective. The ranks first meet on the host and
 * compare the call, so a rank that does not come or calls something else is an error before anything is queued.
 * Then the work is queued on the stream (a cudaStream_t). 16-bit types are added in fp32; all ranks get the same
 * bits. CC_AVG of integers is CC_ERROR_INVALID_ARGUMENT. timeout_ms is for the meeting; 0: the communicator's. */
CC_API cc_result cc_cuda_all_reduce(cc_cuda* handle, const void* send, void* recv, size_t count, cc_dtype dtype,
                                    cc_redop op, void* stream, int64_t timeout_ms);

/* Returns when the last operation of this rank has ended. At the deadline (timeout_ms, at least 1) the stream is
 * released, the result is not valid, and the text names the ranks that it was waiting for; the handle then returns
 * the same error for ever. */
CC_API cc_result cc_cuda_wait(cc_cuda* handle, int64_t timeout_ms);

/* Not collective, but no rank may be in an operation. NULL is allowed. */
CC_API cc_result cc_cuda_destroy(cc_cuda* handle);

CC_API const char* cc_cuda_last_error(void);

#ifdef __cplusplus
}
#endif

#endif /* COLLECTIVE_CORE_COLLECTIVE_CORE_CUDA_H_ */
