/* Two ranks: this process and a child. The id goes through a pipe. With REGISTERED=1 the buffers are from cc_mem_alloc
 * and registered before the clock runs.
 */
#include <collective_core/collective_core.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static cc_comm *comm;
static int registered;

static struct {
  void *memory;
  cc_mem_handle handle;
} buffers[2];

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

static float *allocate(size_t bytes) {
  if (!registered) return malloc(bytes);
  const int place = buffers[0].memory != NULL;
  int direct = 0;
  expect_success(cc_mem_alloc(&buffers[place].memory, bytes));
  expect_success(cc_mem_register(comm, buffers[place].memory, bytes, &buffers[place].handle, &direct, NULL));
  return direct ? buffers[place].memory : NULL;
}

static void release(float *memory) {
  if (!registered) return free(memory);
  const int place = buffers[1].memory == memory;
  expect_success(cc_mem_deregister(comm, buffers[place].handle, NULL));
  expect_success(cc_mem_free(memory));
  buffers[place].memory = NULL;
}

#include "all_reduce_loop.h"

int main(int argc, char **argv) {
  int ends[2];
  cc_unique_id id;
  registered = getenv("REGISTERED") != NULL;
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
