#include <mpi.h>
#include <stddef.h>
#include <stdlib.h>

static void all_reduce(const float *send, float *recv, size_t count) {
  MPI_Allreduce(send, recv, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static double maximum_over_ranks(double value) {
  double most;
  MPI_Allreduce(&value, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return most;
}

static void synchronise(void) { MPI_Barrier(MPI_COMM_WORLD); }

static float *allocate(size_t bytes) { return malloc(bytes); }

static void release(float *memory) { free(memory); }

#include "all_reduce_loop.h"

int main(int argc, char **argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int failed = measure(rank, ranks, argc, argv);
  if (failed) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Finalize();
  return 0;
}
