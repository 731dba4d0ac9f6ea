/* RANKS ranks: this process and its children. The id goes through a pipe. */
#include <collective_core/collective_core.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum collective { BROADCAST, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, REDUCE, GATHER, SCATTER };

static cc_comm *comm;

static void expect_success(cc_result result) {
  if (result == CC_SUCCESS) return;
  fprintf(stderr, "%s: %s\n", cc_error_string(result), cc_last_error(NULL));
  exit(1);
}

static cc_result call(enum collective one, const float *send, float *recv, size_t count, int root) {
  switch (one) {
    case BROADCAST:
      return cc_broadcast(recv, recv, count, CC_FLOAT32, root, comm, NULL);
    case ALL_GATHER:
      return cc_all_gather(send, recv, count, CC_FLOAT32, comm, NULL);
    case REDUCE_SCATTER:
      return cc_reduce_scatter(send, recv, count, CC_FLOAT32, CC_SUM, comm, NULL);
    case ALL_TO_ALL:
      return cc_all_to_all(send, recv, count, CC_FLOAT32, comm, NULL);
    case REDUCE:
      return cc_reduce(send, recv, count, CC_FLOAT32, CC_SUM, root, comm, NULL);
    case GATHER:
      return cc_gather(send, recv, count, CC_FLOAT32, root, comm, NULL);
    case SCATTER:
      return cc_scatter(send, recv, count, CC_FLOAT32, root, comm, NULL);
  }
  return CC_ERROR_INVALID_ARGUMENT;
}

static void run(enum collective one, const float *send, float *recv, size_t count, int root) {
  expect_success(call(one, send, recv, count, root));
}

static double maximum_over_ranks(double value) {
  expect_success(cc_all_reduce(&value, &value, 1, CC_FLOAT64, CC_MAX, comm, NULL));
  return value;
}

static void synchronise(void) { expect_success(cc_barrier(comm, NULL)); }

#include "siblings_loop.h"

int main(int argc, char **argv) {
  const char *text = getenv("RANKS");
  const int ranks = text ? atoi(text) : 2;
  int ends[2], rank = 0;
  cc_unique_id id;
  if (ranks < 1 || pipe(ends) != 0) return 1;
  for (int one = 1; one < ranks && rank == 0; ++one) {
    const pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) rank = one;
  }
  if (rank == 0) {
    expect_success(cc_get_unique_id(&id));
    for (int one = 1; one < ranks; ++one) {
      if (write(ends[1], &id, sizeof id) != (ssize_t)sizeof id) return 1;
    }
  } else if (read(ends[0], &id, sizeof id) != (ssize_t)sizeof id) {
    return 1;
  }
  expect_success(cc_comm_init_rank(&comm, ranks, &id, rank, NULL));
  int failed = measure(rank, ranks, argc, argv);
  expect_success(failed ? cc_comm_abort(comm) : cc_comm_destroy(comm));
  for (int status; rank == 0 && wait(&status) > 0;) failed |= status != 0;
  return failed;
}
