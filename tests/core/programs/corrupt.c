/* Preloaded into a perf program: on rank CORRUPT_RANK the last f32 of every result comes out wrong.
 *
 * Only results of f32 are touched: the program's own sums of times and counts are of other types. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

#include <collective_core/collective_core.h>

static void corrupt(void* recv, size_t count, cc_dtype dtype, cc_comm* comm, int block) {
  const char* chosen = getenv("CORRUPT_RANK");
  int rank = -1;
  int nranks = 0;
  cc_comm_rank(comm, &rank);
  cc_comm_size(comm, &nranks);
  if (chosen && atoi(chosen) == rank && dtype == CC_FLOAT32 && count > 0) {
    float* last = (float*)recv + count * (size_t)(block ? nranks : 1) - 1;
    *last += 64;
  }
}

#define WRAP(name, block, parameters, ...)                                          \
  cc_result name parameters {                                                       \
    cc_result(*real) parameters = (cc_result(*) parameters)dlsym(RTLD_NEXT, #name); \
    const cc_result result = real(__VA_ARGS__);                                     \
    corrupt(recv, count, dtype, comm, block);                                       \
    return result;                                                                  \
  }
#define BUFFERS const void *send, void *recv, size_t count, cc_dtype dtype
#define END cc_comm *comm, const cc_op_options *options

WRAP(cc_all_reduce, 0, (BUFFERS, cc_redop op, END), send, recv, count, dtype, op, comm, options)
WRAP(cc_reduce, 0, (BUFFERS, cc_redop op, int root, END), send, recv, count, dtype, op, root, comm, options)
WRAP(cc_reduce_scatter, 0, (BUFFERS, cc_redop op, END), send, recv, count, dtype, op, comm, options)
WRAP(cc_broadcast, 0, (BUFFERS, int root, END), send, recv, count, dtype, root, comm, options)
WRAP(cc_scatter, 0, (BUFFERS, int root, END), send, recv, count, dtype, root, comm, options)
WRAP(cc_gather, 1, (BUFFERS, int root, END), send, recv, count, dtype, root, comm, options)
WRAP(cc_all_gather, 1, (BUFFERS, END), send, recv, count, dtype, comm, options)
WRAP(cc_all_to_all, 1, (BUFFERS, END), send, recv, count, dtype, comm, options)

/* Of blocks of one size, as the programs have them. */
cc_result cc_all_gatherv(const void* send, void* recv, const size_t* counts, const size_t* offsets, cc_dtype dtype,
                         cc_comm* comm, const cc_op_options* options) {
  cc_result (*real)(const void*, void*, const size_t*, const size_t*, cc_dtype, cc_comm*, const cc_op_options*) =
      (cc_result(*)(const void*, void*, const size_t*, const size_t*, cc_dtype, cc_comm*,
                    const cc_op_options*))dlsym(RTLD_NEXT, "cc_all_gatherv");
  const cc_result result = real(send, recv, counts, offsets, dtype, comm, options);
  corrupt(recv, counts[0], dtype, comm, 1);
  return result;
}

cc_result cc_all_to_allv(const void* send, const size_t* send_counts, const size_t* send_offsets, void* recv,
                         const size_t* recv_counts, const size_t* recv_offsets, cc_dtype dtype, cc_comm* comm,
                         const cc_op_options* options) {
  cc_result (*real)(const void*, const size_t*, const size_t*, void*, const size_t*, const size_t*, cc_dtype, cc_comm*,
                    const cc_op_options*) =
      (cc_result(*)(const void*, const size_t*, const size_t*, void*, const size_t*, const size_t*, cc_dtype, cc_comm*,
                    const cc_op_options*))dlsym(RTLD_NEXT, "cc_all_to_allv");
  const cc_result result =
      real(send, send_counts, send_offsets, recv, recv_counts, recv_offsets, dtype, comm, options);
  corrupt(recv, recv_counts[0], dtype, comm, 1);
  return result;
}

/* Of a group the last receive is corrupted, once it has come. */
static void* received;
static size_t received_count;
static cc_dtype received_dtype;

cc_result cc_recv(void* buffer, size_t count, cc_dtype dtype, int peer, cc_comm* comm,
                  const cc_op_options* options) {
  cc_result (*real)(void*, size_t, cc_dtype, int, cc_comm*, const cc_op_options*) =
      (cc_result(*)(void*, size_t, cc_dtype, int, cc_comm*, const cc_op_options*))dlsym(RTLD_NEXT, "cc_recv");
  received = buffer;
  received_count = count;
  received_dtype = dtype;
  return real(buffer, count, dtype, peer, comm, options);
}

cc_result cc_group_end(cc_comm* comm) {
  cc_result (*real)(cc_comm*) = (cc_result(*)(cc_comm*))dlsym(RTLD_NEXT, "cc_group_end");
  const cc_result result = real(comm);
  corrupt(received, received_count, received_dtype, comm, 0);
  return result;
}
