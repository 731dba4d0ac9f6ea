/* The measured loop of core_siblings_vs_mpi.py, the same for every library: fp32, warm-up, batches of calls. The
 * root goes round from call to call: a fixed one would run ahead of the others and measure the depth of buffers. Bytes
 * are those of the largest buffer on a rank. Includers define:
 *   void run(enum collective one, const float *send, float *recv, size_t count, int root);
 *     count: of one block where the larger buffer has a block for each rank; broadcast works in recv alone
 *   double maximum_over_ranks(double value);
 *   void synchronise(void);
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "timing.h"

static const char *const names[] = {"broadcast", "all_gather", "reduce_scatter", "all_to_all", "reduce", "gather", "scatter"};

enum { BATCHES = 51 };

/* Of a batch's mean call: from the first rank's begin to the last one's end. */
static void time_batches(enum collective one, const float *send, float *recv, size_t count, int ranks, double budget_us,
                         double *median_us, double *least_us) {
  double means[BATCHES];
  run(one, send, recv, count, 0);
  synchronise();
  double start = now_us();
  for (int i = 0; i < 5; ++i) run(one, send, recv, count, i % ranks);
  /* All ranks must make the same number of calls, and each be the root as often. */
  const double once = maximum_over_ranks((now_us() - start) / 5);
  int calls = (int)(budget_us / BATCHES / once);
  calls = calls < ranks ? ranks : calls > 2000 ? 2000 : calls / ranks * ranks;
  const int batches = once * calls * BATCHES > 4 * budget_us ? 11 : BATCHES;
  for (int batch = -1; batch < batches; ++batch) {
    synchronise();
    start = now_us();
    for (int i = 0; i < calls; ++i) run(one, send, recv, count, i % ranks);
    const double end = maximum_over_ranks(now_us());
    if (batch >= 0) means[batch] = (end + maximum_over_ranks(-start)) / calls;
  }
  qsort(means, (size_t)batches, sizeof *means, ascending);
  *median_us = means[batches / 2];
  *least_us = means[0];
}

/* What rank `from` has at place k of its send buffer. */
static float given(int from, size_t k) { return (float)(k % 1000) + (float)from; }

/* What element k of the result is on this rank; `count` and `root` as in run(). */
static float expected(enum collective one, size_t k, size_t count, int rank, int ranks, int root) {
  const size_t own = (size_t)rank * count;
  const float ranks_sum = (float)(ranks * (ranks - 1) / 2);
  switch (one) {
    case BROADCAST:
      return given(root, k);
    case ALL_GATHER:
    case GATHER:
      return given((int)(k / count), k % count);
    case REDUCE_SCATTER:
      return (float)ranks * given(0, own + k) + ranks_sum;
    case ALL_TO_ALL:
      return given((int)(k / count), own + k % count);
    case REDUCE:
      return (float)ranks * given(0, k) + ranks_sum;
    case SCATTER:
      return given(root, own + k);
  }
  return 0;
}

/* One more call, with the last rank as the root, checked on every rank that has a result. */
static int is_right(enum collective one, float *send, float *recv, size_t all, size_t count, int rank, int ranks) {
  const int root = ranks - 1;
  memset(recv, 0, all * sizeof *recv);
  if (one == BROADCAST) memcpy(recv, send, all * sizeof *recv);
  run(one, send, recv, count, root);
  if ((one == GATHER || one == REDUCE) && rank != root) return 1;
  const int has_all = one == ALL_GATHER || one == GATHER || one == ALL_TO_ALL;
  const size_t results = has_all ? count * (size_t)ranks : count;
  for (size_t k = 0; k < results; ++k) {
    const float wanted = expected(one, k, count, rank, ranks, root);
    if (recv[k] == wanted) continue;
    fprintf(stderr, "%s, rank %d: element %zu is %g, expected %g\n", names[one], rank, k, (double)recv[k], (double)wanted);
    return 0;
  }
  return 1;
}

/* argv: milliseconds for each size, the collectives joined by commas, then sizes in bytes. Rank 0 prints
 * "collective bytes microseconds microseconds" for each: of the median batch, and of the fastest one. */
static int measure(int rank, int ranks, int argc, char **argv) {
  for (int which = 0; which < (int)(sizeof names / sizeof *names); ++which) {
    const enum collective one = (enum collective)which;
    char wanted[1024], name[64];
    snprintf(wanted, sizeof wanted, ",%s,", argv[2]);
    snprintf(name, sizeof name, ",%s,", names[one]);
    if (!strstr(wanted, name)) continue;
    for (int i = 3; i < argc; ++i) {
      const size_t bytes = (size_t)atoll(argv[i]), all = bytes / sizeof(float);
      const size_t count = one == BROADCAST || one == REDUCE ? all : all / (size_t)ranks;
      float *send = malloc(bytes), *recv = malloc(bytes);
      if (!send || !recv) return 1;
      for (size_t k = 0; k < all; ++k) send[k] = given(rank, k), recv[k] = 0;
      double median_us, least_us;
      time_batches(one, send, recv, count, ranks, atof(argv[1]) * 1e3, &median_us, &least_us);
      if (!is_right(one, send, recv, all, count, rank, ranks)) return 1;
      if (rank == 0) printf("%s %zu %.3f %.3f\n", names[one], bytes, median_us, least_us);
      fflush(stdout);
      free(send);
      free(recv);
    }
  }
  return 0;
}
