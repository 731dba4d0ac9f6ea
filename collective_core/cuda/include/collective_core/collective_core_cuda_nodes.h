/* all_reduce of device memory on several nodes, dense or by top-k: a part of libcollective_core_cuda.so.
 *
 * Inside a node the data stays on its GPUs (collective_core_cuda.h); between nodes it goes through pinned host memory and
 * the collectives of collective_core.h. Every rank owns a part of the data: it gets the sum of its node, reduces it with
 * the owners of the same part on the other nodes, and gives the result to its node. Chunks overlap: while one travels
 * between nodes, others are reduced, copied or shared.
 *
 * A call blocks until the last chunk has travelled. Its result is there for what is queued on the stream afterwards.
 * Every rank calls the same operations in the same order, one at a time. After an error the handle can only be
 * destroyed, and the other ranks get an error too.
 *
 * Texts of errors come from cc_cuda_last_error. */
#ifndef COLLECTIVE_CORE_COLLECTIVE_CORE_CUDA_NODES_H_
#define COLLECTIVE_CORE_COLLECTIVE_CORE_CUDA_NODES_H_

#include "collective_core/collective_core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The GPUs of all ranks of a communicator on several nodes. */
typedef struct cc_cuda_nodes cc_cuda_nodes;

/* Set size to sizeof(cc_cuda_nodes_options). Zero means the default. Equal on all ranks. */
typedef struct cc_cuda_nodes_options {
  size_t size; /* sizeof(cc_cuda_nodes_options), set before the call */
  int64_t chunk_bytes; /* of a rank's part, at a time; default 4 MiB */
  int32_t chunks;      /* that are under way at once, each in a pinned buffer; default 4, at most 64 */
  int32_t reserved;    /* zero */
} cc_cuda_nodes_options;

/* Collective over comm, which must outlive the handle. Uses the current device. */
CC_API cc_result cc_cuda_nodes_create(cc_comm* comm, const cc_cuda_nodes_options* options, cc_cuda_nodes** handle);
/* As cc_all_reduce. timeout_ms 0: the communicator's. */
CC_API cc_result cc_cuda_nodes_all_reduce(cc_cuda_nodes* handle, const void* send, void* recv, size_t count,
                                          cc_dtype dtype, cc_redop op, void* stream, int64_t timeout_ms);

/* What a handle has done on this rank. Set size to sizeof(cc_cuda_nodes_info). */
typedef struct cc_cuda_nodes_info {
  size_t size; /* sizeof(cc_cuda_nodes_info), set before the call */
  int32_t inside; /* cc_cuda_path of this node's ranks (collective_core_cuda.h); 0: this rank is alone on its node */
  int32_t reserved; /* zero */
  uint64_t reductions; /* dense operations, those included that a top-k operation became */
  uint64_t selections; /* selections that were launched on this rank's GPU; 0 on a rank that owns no part */
} cc_cuda_nodes_info;
/* Not while an operation of the handle runs. */
CC_API cc_result cc_cuda_nodes_get_info(const cc_cuda_nodes* handle, cc_cuda_nodes_info* info);
/* CC_SUCCESS, or the first error, also of what the last operation has queued on the GPU: ask before its result is used,
 * when the stream has come to its end. *text (may be NULL) lives as long as the handle. Does not block. */
CC_API cc_result cc_cuda_nodes_poll(cc_cuda_nodes* handle, const char** text);
/* Ends what runs, on all ranks with an error, within milliseconds on this one. From any thread. */
CC_API cc_result cc_cuda_nodes_abort(cc_cuda_nodes* handle);

/* As cc_residual, on the current device: 8 bytes for each element of the rank's part. */
typedef struct cc_cuda_residual cc_cuda_residual;
/* Makes an empty residual on the current device. Not collective. */
CC_API cc_result cc_cuda_residual_create(cc_cuda_residual** residual);
/* Makes it zero. */
CC_API cc_result cc_cuda_residual_reset(cc_cuda_residual* residual);
/* As cc_residual_get_info; info->values is device memory, NULL if all of them are zero. */
CC_API cc_result cc_cuda_residual_get_info(const cc_cuda_residual* residual, cc_residual_info* info);
/* Copies its shard_count values to host memory; waits for the device. */
CC_API cc_result cc_cuda_residual_read(const cc_cuda_residual* residual, float* values);
/* No operation may use it. NULL is allowed. */
CC_API cc_result cc_cuda_residual_destroy(cc_cuda_residual* residual);

/* As cc_topk_all_reduce, with the selection and the sum on the GPU: only payloads leave it. Selects the same elements
 * (MSTopK: but for the rounding of the mean, with which its search begins). */
CC_API cc_result cc_cuda_nodes_topk_all_reduce(cc_cuda_nodes* handle, const void* send, void* recv, size_t count,
                                               cc_dtype dtype, cc_redop op, const cc_topk_options* topk,
                                               cc_cuda_residual* residual, void* stream, int64_t timeout_ms);
/* Waits for what this rank's GPU has queued, and for at most 2 s for the other ranks of its node, which may still read
 * its memory. NULL is allowed. */
CC_API cc_result cc_cuda_nodes_destroy(cc_cuda_nodes* handle);

#ifdef __cplusplus
}
#endif

#endif /* COLLECTIVE_CORE_COLLECTIVE_CORE_CUDA_NODES_H_ */
