#include <mpi.h>
#include <stddef.h>

enum collective { BROADCAST, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, REDUCE, GATHER, SCATTER };

static void run(enum collective one, const float *send, float *recv, size_t elements, int root) {
  const int count = (int)elements;
  switch (one) {
    case BROADCAST:
      MPI_Bcast(recv, count, MPI_FLOAT, root, MPI_COMM_WORLD);
      break;
    case ALL_GATHER:
      MPI_Allgather(send, count, MPI_FLOAT, recv, count, MPI_FLOAT, MPI_COMM_WORLD);
      break;
    case REDUCE_SCATTER:
      MPI_Reduce_scatter_block(send, recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      break;
    case ALL_TO_ALL:
      MPI_Alltoall(send, count, MPI_FLOAT, recv, count, MPI_FLOAT, MPI_COMM_WORLD);
      break;
    case REDUCE:
      MPI_Reduce(send, recv, count, MPI_FLOAT, MPI_SUM, root, MPI_COMM_WORLD);
      break;
    case GATHER:
      MPI_Gather(send, count, MPI_FLOAT, recv, count, MPI_FLOAT, root, MPI_COMM_WORLD);
      break;
    case SCATTER:
      MPI_Scatter(send, count, MPI_FLOAT, recv, count, MPI_FLOAT, root, MPI_COMM_WORLD);
      break;
  }
}

static double maximum_over_ranks(double value) {
  double most;
  MPI_Allreduce(&value, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return most;
}

static void synchronise(void) { MPI_Barrier(MPI_COMM_WORLD); }

#include "siblings_loop.h"

int main(int argc, char **argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (measure(rank, ranks, argc, argv)) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Finalize();
  return 0;
}
