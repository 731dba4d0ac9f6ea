/* Two ranks: this process and a child. The id goes through a pipe. */
#include <collective_core/collective_core.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static cc_comm *comm;

static void expect_success(cc_result result) {
  if (result == CC_SUCCESS) return;
  fprintf(stderr, "%s: %s\n", cc_error_string(result), cc_last_error(NULL));
  exit(1);
}

static void all_reduce(const float *send, float *recv, size_t count) {
  expect_success(cc_all_reduce(send, recv, count, CC_FLOAT32, CC_SUM, comm, NULL));
}

static double maximum_over_ranks(double value) {
  expect_success(cc_all_reduce(&value, &value, 1, CC_FLOAT64, CC_MAX, comm, NULL));
  return value;
}

static void synchronise(void) { expect_success(cc_barrier(comm, NULL)); }

#include "all_reduce_loop.h"

int main(int argc, char **argv) {
  int ends[2];
  cc_unique_id id;
  if (pipe(ends) != 0) return 1;
  const pid_t child = fork();
  if (child < 0) return 1;
  const int rank = child == 0;
  if (rank == 0) {
    expect_success(cc_get_unique_id(&id));
    if (write(ends[1], &id, sizeof id) != (ssize_t)sizeof id) return 1;
  } else if (read(ends[0], &id, sizeof id) != (ssize_t)sizeof id) {
    return 1;
  }
  expect_success(cc_comm_init_rank(&comm, 2, &id, rank, NULL));
  const int failed = measure(rank, 2, argc, argv);
  expect_success(failed ? cc_comm_abort(comm) : cc_comm_destroy(comm));
  if (rank == 1) return failed;
  int status;
  if (waitpid(child, &status, 0) != child || status != 0) return 1;
  return failed;
}
