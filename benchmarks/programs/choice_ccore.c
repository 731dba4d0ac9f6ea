/* RANKS ranks (this process and its children, each on a CPU of its own) with a communicator for each variant; the variants
 * take turns on the same buffers in short batches, so that whatever else the machine does meets all of them alike.
 *
 * NETNS: a file of a network namespace, into which the second half of the ranks goes.
 *
 * argv: collective, milliseconds for each size, number of variants, then for each a name and VARIABLE=value (one or
 * several, separated by spaces; "-": none), then sizes in bytes of the largest buffer of a rank. Rank 0 prints
 * "bytes name microseconds": the lower quartile over the batches of a call's mean time.
 */
#define _GNU_SOURCE
#include <collective_core/collective_core.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "timing.h"

enum { MOST_VARIANTS = 24, BATCHES = 21, MOST_CALLS = 500 };
static const double kBatchUs = 400;

struct variant {
  const char *name;
  const char *settings;
  cc_comm *comm;
  double means[BATCHES];
};

static void expect_success(cc_result result) {
  if (result == CC_SUCCESS) return;
  fprintf(stderr, "%s: %s\n", cc_error_string(result), cc_last_error(NULL));
  exit(1);
}

/* The largest buffer of a rank has `bytes`, whatever the collective. */
static void call(const char *collective, cc_comm *comm, int ranks, const float *send, float *recv, size_t bytes) {
  const size_t all = bytes / sizeof(float), part = all / (size_t)ranks;
  cc_result result = CC_ERROR_INVALID_ARGUMENT;
  if (!strcmp(collective, "all_reduce")) result = cc_all_reduce(send, recv, all, CC_FLOAT32, CC_SUM, comm, NULL);
  if (!strcmp(collective, "broadcast")) result = cc_broadcast(recv, recv, all, CC_FLOAT32, 0, comm, NULL);
  if (!strcmp(collective, "reduce")) result = cc_reduce(send, recv, all, CC_FLOAT32, CC_SUM, 0, comm, NULL);
  if (!strcmp(collective, "all_gather")) result = cc_all_gather(send, recv, part, CC_FLOAT32, comm, NULL);
  if (!strcmp(collective, "reduce_scatter")) {
    result = cc_reduce_scatter(send, recv, part, CC_FLOAT32, CC_SUM, comm, NULL);
  }
  if (!strcmp(collective, "gather")) result = cc_gather(send, recv, part, CC_FLOAT32, 0, comm, NULL);
  if (!strcmp(collective, "scatter")) result = cc_scatter(send, recv, part, CC_FLOAT32, 0, comm, NULL);
  if (!strcmp(collective, "all_to_all")) result = cc_all_to_all(send, recv, part, CC_FLOAT32, comm, NULL);
  expect_success(result);
}

static double largest(cc_comm *comm, double value) {
  expect_success(cc_all_reduce(&value, &value, 1, CC_FLOAT64, CC_MAX, comm, NULL));
  return value;
}

/* The rank-th CPU that this process may use, unless there are too few. */
static void pin(int rank, int ranks) {
  cpu_set_t all, one;
  CPU_ZERO(&one);
  if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < ranks) return;
  int cpu = 0;
  for (int passed = -1;; ++cpu) {
    if (CPU_ISSET(cpu, &all) && ++passed == rank) break;
  }
  CPU_SET(cpu, &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) perror("sched_setaffinity");
}

/* The second half of the ranks is on another machine, as far as its network goes. */
static void enter_namespace(int rank, int ranks) {
  const char *path = getenv("NETNS");
  if (!path || rank < ranks / 2) return;
  const int file = open(path, O_RDONLY);
  if (file < 0 || setns(file, CLONE_NEWNET) != 0) {
    perror(path);
    exit(1);
  }
  close(file);
}

/* Sets the variables of a variant, or removes them again. */
static void apply(const char *settings, int set) {
  char text[512];
  snprintf(text, sizeof text, "%s", settings);
  for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
    char *value = strchr(word, '=');
    if (!value) continue;
    *value++ = 0;
    if (set) setenv(word, value, 1);
    else unsetenv(word);
  }
}

static void measure(const char *collective, int rank, int ranks, double budget_us, struct variant *variants, int count,
                    size_t bytes) {
  float *send = malloc(bytes), *recv = malloc(bytes);
  if (!send || !recv) exit(1);
  for (size_t k = 0; k < bytes / sizeof(float); ++k) send[k] = (float)(k % 1000) + (float)rank, recv[k] = 0;
  int calls[MOST_VARIANTS];
  for (int v = 0; v < count; ++v) {
    for (int i = 0; i < 2; ++i) call(collective, variants[v].comm, ranks, send, recv, bytes);
    const double start = now_us();
    for (int i = 0; i < 3; ++i) call(collective, variants[v].comm, ranks, send, recv, bytes);
    const double once = largest(variants[v].comm, (now_us() - start) / 3);
    calls[v] = once <= 0 ? 1 : (int)(kBatchUs / once);
    calls[v] = calls[v] < 1 ? 1 : calls[v] > MOST_CALLS ? MOST_CALLS : calls[v];
  }
  int batches = 0;
  const double begin = now_us();
  for (; batches < BATCHES; ++batches) {
    for (int turn = 0; turn < count; ++turn) {
      const int v = (turn + batches) % count; /* none always follows the same other one */
      expect_success(cc_barrier(variants[v].comm, NULL));
      call(collective, variants[v].comm, ranks, send, recv, bytes);
      const double start = now_us();
      for (int i = 0; i < calls[v]; ++i) call(collective, variants[v].comm, ranks, send, recv, bytes);
      variants[v].means[batches] = (now_us() - start) / calls[v];
    }
    if (batches >= 4 && largest(variants[0].comm, now_us() - begin) > budget_us) {
      ++batches;
      break;
    }
  }
  for (int v = 0; v < count; ++v) {
    qsort(variants[v].means, (size_t)batches, sizeof(double), ascending);
    const double us = largest(variants[v].comm, variants[v].means[batches / 4]);
    if (rank == 0) printf("%zu %s %.3f\n", bytes, variants[v].name, us);
  }
  fflush(stdout);
  free(send);
  free(recv);
}

int main(int argc, char **argv) {
  const int ranks = getenv("RANKS") ? atoi(getenv("RANKS")) : 2;
  const int count = argc > 3 ? atoi(argv[3]) : 0;
  struct variant variants[MOST_VARIANTS];
  if (ranks < 1 || count < 1 || count > MOST_VARIANTS || argc < 4 + 2 * count) return 2;
  int(*ends)[2] = malloc((size_t)ranks * sizeof *ends);
  int rank = 0;
  for (int one = 1; one < ranks; ++one) {
    if (pipe(ends[one]) != 0) return 1;
  }
  for (int one = 1; one < ranks && rank == 0; ++one) {
    const pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) rank = one;
  }
  pin(rank, ranks);
  enter_namespace(rank, ranks);
  for (int v = 0; v < count; ++v) {
    variants[v].name = argv[4 + 2 * v];
    variants[v].settings = argv[5 + 2 * v];
    cc_unique_id id;
    apply(variants[v].settings, 1);
    if (rank == 0) {
      expect_success(cc_get_unique_id(&id));
      for (int one = 1; one < ranks; ++one) {
        if (write(ends[one][1], &id, sizeof id) != (ssize_t)sizeof id) return 1;
      }
    } else if (read(ends[rank][0], &id, sizeof id) != (ssize_t)sizeof id) {
      return 1;
    }
    expect_success(cc_comm_init_rank(&variants[v].comm, ranks, &id, rank, NULL));
    apply(variants[v].settings, 0);
  }
  for (int i = 4 + 2 * count; i < argc; ++i) {
    measure(argv[1], rank, ranks, atof(argv[2]) * 1e3, variants, count, (size_t)atoll(argv[i]));
  }
  for (int v = 0; v < count; ++v) expect_success(cc_comm_destroy(variants[v].comm));
  int failed = 0;
  for (int status; rank == 0 && wait(&status) > 0;) failed |= status != 0;
  free(ends);
  return failed;
}
