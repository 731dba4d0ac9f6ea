/* collective_core on CUDA devices: the C ABI of libcollective_core_cuda.so. Every symbol starts with cc_cuda_.
 *
 * A handle serves the ranks of one communicator, one device each; several ranks may share a device, as processes or
 * threads. Operations are stream-ordered: a call checks its arguments, queues work on the stream and returns. No call
 * meets the other ranks on the host, except create, destroy, the first call that needs more staging memory, and small
 * all_reduces of processes that share a GPU without MPS: the CPUs add these, and the call blocks until all ranks have come.
 * Every rank calls the same operations in the same order. A handle may be used with several streams; it orders its
 * operations itself. Handles are independent of each other; a process may have handles of several devices. The stream and
 * the buffers of a call must be of the handle's device. Another device may be current, and stays so.
 *
 * Every wait on the device has a deadline and looks at an abort word. The first error of a handle is sticky. An operation
 * that fails, and each one after it, fills its outputs before the stream goes on: floating-point elements with NaN, signed
 * integers with their minimum, unsigned ones with their maximum, those of an exchange with set bits. A root keeps what it
 * broadcasts in place.
 *
 * cc_cuda_last_error has the text of the calling thread's last error. */
#ifndef COLLECTIVE_CORE_COLLECTIVE_CORE_CUDA_H_
#define COLLECTIVE_CORE_COLLECTIVE_CORE_CUDA_H_

#include "collective_core/collective_core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The GPUs of the ranks of one communicator. */
typedef struct cc_cuda cc_cuda;

/* How the ranks of a handle reach each other. Decided at creation, equal on all ranks. */
typedef enum cc_cuda_path CC_INT_ENUM {
  CC_CUDA_PATH_AUTO = 0,
  /* one GPU shared by processes without MPS: streams wait in their front end, nothing spins; the CPUs add small data */
  CC_CUDA_PATH_STREAM = 1,
  CC_CUDA_PATH_KERNEL = 2, /* one GPU with MPS or one process, or peers with P2P: kernels that wait for peers' words */
  CC_CUDA_PATH_HOST = 3 /* no peer access: through pinned host memory that all ranks map */
} cc_cuda_path;

/* Set size to sizeof(cc_cuda_options). Zero means the default (environment variable, then built in). */
typedef struct cc_cuda_options {
  size_t size; /* sizeof(cc_cuda_options), set before the call */
  int64_t staging_bytes; /* the largest staging buffer of this rank; default 256 MiB. Equal on all ranks */
  uint32_t first_epoch; /* where the counter of operations starts, to test its wrap-around */
  int32_t path; /* cc_cuda_path; CCORE_CUDA_PATH=auto|stream|kernel|host */
  int64_t timeout_ms; /* deadline of waits on the device; the communicator's by default */
} cc_cuda_options;

/* Writes the identity of the current device into 16 bytes: equal on ranks that share a GPU. Not collective. */
CC_API cc_result cc_cuda_device_identity(unsigned char identity[16]);

/* Collective over comm, which must outlive the handle. Uses the current device. If it fails on one rank it fails on
 * all. */
CC_API cc_result cc_cuda_create(cc_comm* comm, const cc_cuda_options* options, cc_cuda** handle);

/* Stores the path that was decided, a cc_cuda_path, in *path. */
CC_API cc_result cc_cuda_get_path(cc_cuda* handle, int* path);
/* One line: the path, why, the link of each pair of ranks, and the ways in which peers reach the buffers of all ranks. */
CC_API cc_result cc_cuda_describe(cc_cuda* handle, char* text, size_t size);
/* One line of what is slower than it could be: why a rank stages memory of cuMemCreate, the first that did. The same text
 * on all ranks, empty if there is nothing. Does not block. */
CC_API cc_result cc_cuda_notice(cc_cuda* handle, char* text, size_t size);

/* recv of every rank = the reduction of send of all; the same bits on all ranks. Here and in the calls below, counts are in
 * elements, stream is a cudaStream_t, and in place is as in collective_core.h. Any alignment to the element. */
CC_API cc_result cc_cuda_all_reduce(cc_cuda* handle, const void* send, void* recv, size_t count, cc_dtype dtype,
                                    cc_redop op, void* stream);
/* recv (recv_count) = block `rank` of the reduction of send (nranks * recv_count). */
CC_API cc_result cc_cuda_reduce_scatter(cc_cuda* handle, const void* send, void* recv, size_t recv_count,
                                        cc_dtype dtype, cc_redop op, void* stream);
/* recv (nranks * send_count) = send (send_count) of rank 0, of rank 1, ... */
CC_API cc_result cc_cuda_all_gather(cc_cuda* handle, const void* send, void* recv, size_t send_count, cc_dtype dtype,
                                    void* stream);
/* recv of every rank = send of root. send is read on root only. */
CC_API cc_result cc_cuda_broadcast(cc_cuda* handle, const void* send, void* recv, size_t count, cc_dtype dtype,
                                   int root, void* stream);

/* A send, a receive, or both, of cc_cuda_exchange. */
typedef struct cc_cuda_transfer {
  const void* send; /* NULL: a receive */
  void* recv; /* NULL: a send */
  size_t bytes; /* of the buffer */
  int peer; /* may be this rank: send and recv are matched in order */
} cc_cuda_transfer;
/* Several sends and receives as one operation, which cannot deadlock among themselves: send/recv, all_to_all and
 * all_to_allv are lists of these. Only the ranks that are named take part. */
CC_API cc_result cc_cuda_exchange(cc_cuda* handle, const cc_cuda_transfer* transfers, size_t count, void* stream);

/* The collectives of cc_cuda_call. */
typedef enum cc_cuda_collective CC_INT_ENUM {
  CC_CUDA_ALL_REDUCE = 0,
  CC_CUDA_REDUCE_SCATTER = 1,
  CC_CUDA_ALL_GATHER = 2,
  CC_CUDA_BROADCAST = 3
} cc_cuda_collective;

/* The arguments of cc_cuda_all_reduce and its siblings; stream and checks are ignored by cc_cuda_launch. */
typedef struct cc_cuda_call {
  int collective; /* cc_cuda_collective */
  const void* send; /* device memory, as of the function */
  void* recv; /* the same */
  size_t count; /* in elements, as of the function */
  cc_dtype dtype; /* of the elements */
  cc_redop op; /* of all_reduce and reduce_scatter */
  int root; /* of broadcast */
  void* stream; /* a cudaStream_t */
  int checks; /* 1: on the library's own memory, to compare results; 0: a call of the program */
} cc_cuda_call;

/* Carries out one or several calls, in their order. All are checked before the first one is queued.
 *
 * ticket NULL: on `stream`. Else on the handle's own stream, after what `stream` has queued so far, and *ticket stands
 * for the end of the last call. Until then, the calls use their buffers. */
CC_API cc_result cc_cuda_launch(cc_cuda* handle, const cc_cuda_call* calls, size_t count, void* stream,
                                uint64_t* ticket);
/* The same for cc_cuda_exchange. */
CC_API cc_result cc_cuda_launch_exchange(cc_cuda* handle, const cc_cuda_transfer* transfers, size_t count, void* stream,
                                         uint64_t* ticket);

/* Set in tickets of work that is being captured in a CUDA graph. */
#define CC_CUDA_TICKET_CAPTURED (UINT64_C(1) << 63)

/* The stream of asynchronous calls, for work beside them: a cudaStream_t that lives as long as the handle. */
CC_API cc_result cc_cuda_get_stream(cc_cuda* handle, void** stream);
/* Lets the handle's stream wait for what `stream` has queued so far. */
CC_API cc_result cc_cuda_follow(cc_cuda* handle, void* stream);
/* A ticket for what `stream` has queued so far. */
CC_API cc_result cc_cuda_mark(cc_cuda* handle, void* stream, uint64_t* ticket);
/* Lets `stream` wait for what a ticket stands for; 0 stands for nothing. Tickets need no release: the handle uses the
 * event of an old one again, for what comes after it. From any thread. */
CC_API cc_result cc_cuda_ticket_wait(cc_cuda* handle, uint64_t ticket, void* stream);
/* Whether what a ticket stands for has ended, with or without an error. Does not block. Not for tickets of captures. */
CC_API cc_result cc_cuda_ticket_query(cc_cuda* handle, uint64_t ticket, int* ended);

/* CC_SUCCESS, or the handle's first error; *text (may be NULL) lives as long as the handle. Does not block. */
CC_API cc_result cc_cuda_poll(cc_cuda* handle, const char** text);
/* A word of host memory that lives as long as the handle: not 0 once cc_cuda_poll has an error, so that one load is the
 * check of each operation. The device sets it before it ends the operation that fails. */
CC_API cc_result cc_cuda_get_failed_word(cc_cuda* handle, const uint64_t** word);
/* Returns when the last operation of this rank has ended; CC_ERROR_TIMEOUT names the ranks it waited for. */
CC_API cc_result cc_cuda_wait(cc_cuda* handle, int64_t timeout_ms);
/* Ends all waits of this rank on the device, within milliseconds. From any thread. */
CC_API cc_result cc_cuda_abort(cc_cuda* handle);
/* Not collective, but no rank may be in an operation. NULL is allowed. */
CC_API cc_result cc_cuda_destroy(cc_cuda* handle);

/* The text of this thread's last error in a call of the CUDA headers; empty if there is none. */
CC_API const char* cc_cuda_last_error(void);

#ifdef __cplusplus
}
#endif

#endif /* COLLECTIVE_CORE_COLLECTIVE_CORE_CUDA_H_ */
