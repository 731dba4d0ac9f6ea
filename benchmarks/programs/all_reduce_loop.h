/* The measured loop of core_vs_mpi.py, the same for every library: fp32 sum out of place, warm-up, median over batches
 * of one call's mean time, maximum over ranks. Includers define five functions first:
 *   void all_reduce(const float *send, float *recv, size_t count);
 *   double maximum_over_ranks(double value);
 *   void synchronise(void);
 *   float *allocate(size_t bytes);   (NULL: failed)
 *   void release(float *memory);
 */
#include <stdio.h>
#include <stdlib.h>

#include "timing.h"

enum { BATCHES = 15 };

static double median_us(const float *send, float *recv, size_t count, double budget_us) {
  double means[BATCHES];
  all_reduce(send, recv, count);
  synchronise();
  double start = now_us();
  for (int i = 0; i < 5; ++i) all_reduce(send, recv, count);
  /* All ranks must make the same number of calls. */
  const double once = maximum_over_ranks((now_us() - start) / 5);
  int calls = (int)(budget_us / BATCHES / once);
  calls = calls < 1 ? 1 : calls > 2000 ? 2000 : calls;
  for (int i = 0; i < calls; ++i) all_reduce(send, recv, count);
  for (int batch = 0; batch < BATCHES; ++batch) {
    synchronise();
    start = now_us();
    for (int i = 0; i < calls; ++i) all_reduce(send, recv, count);
    means[batch] = (now_us() - start) / calls;
  }
  qsort(means, BATCHES, sizeof *means, ascending);
  return maximum_over_ranks(means[BATCHES / 2]);
}

/* argv: milliseconds for each size, then sizes in bytes. Rank 0 prints "bytes microseconds" for each. */
static int measure(int rank, int ranks, int argc, char **argv) {
  for (int i = 2; i < argc; ++i) {
    const size_t bytes = (size_t)atoll(argv[i]), count = bytes / sizeof(float);
    float *send = allocate(bytes), *recv = allocate(bytes);
    if (!send || !recv) return 1;
    for (size_t k = 0; k < count; ++k) send[k] = (float)(k % 1000) + (float)rank, recv[k] = 0;
    const double us = median_us(send, recv, count, atof(argv[1]) * 1e3);
    for (size_t k = 0; k < count; ++k) {
      const float expected = (float)ranks * (float)(k % 1000) + (float)(ranks * (ranks - 1) / 2);
      if (recv[k] != expected) {
        fprintf(stderr, "rank %d: element %zu is %g, expected %g\n", rank, k, (double)recv[k], (double)expected);
        return 1;
      }
    }
    if (rank == 0) printf("%zu %.3f\n", bytes, us);
    fflush(stdout);
    release(send);
    release(recv);
  }
  return 0;
}
