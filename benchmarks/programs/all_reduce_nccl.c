/* all_reduce on NCCL in the plainest loop, fp32 sum, one process per GPU: what nccl-tests does without its options.
 *
 *     all_reduce_nccl RANKS FIRST_BYTES LAST_BYTES [ITERATIONS]
 *
 * Prints "bytes out-of-place-us in-place-us" per size, the mean of all ranks. After 5 calls that are not timed, the
 * iterations are queued back to back on one stream, and the clock runs until the stream is empty, as in nccl-tests.
 */
#include <cuda_runtime.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CUDA(call) require((call) == cudaSuccess, #call)
#define NCCL(call) require((call) == ncclSuccess, #call)

struct shared {
  ncclUniqueId id;
  volatile int id_made;
  int arrived;
  double us[64];
};

static void require(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "%s failed\n", what);
  exit(1);
}

static double now_us(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * 1e6 + at.tv_nsec / 1e3;
}

static void meet(struct shared* shared, int ranks, int* round) {
  __atomic_add_fetch(&shared->arrived, 1, __ATOMIC_ACQ_REL);
  ++*round;
  while (__atomic_load_n(&shared->arrived, __ATOMIC_ACQUIRE) < *round * ranks) continue;
}

static double timed(ncclComm_t comm, cudaStream_t stream, float* from, float* to, size_t count, int iterations,
                    struct shared* shared, int rank, int ranks, int* round) {
  for (int i = 0; i < 5; ++i) NCCL(ncclAllReduce(from, to, count, ncclFloat, ncclSum, comm, stream));
  CUDA(cudaStreamSynchronize(stream));
  meet(shared, ranks, round);
  const double began = now_us();
  for (int i = 0; i < iterations; ++i) NCCL(ncclAllReduce(from, to, count, ncclFloat, ncclSum, comm, stream));
  CUDA(cudaStreamSynchronize(stream));
  shared->us[rank] = (now_us() - began) / iterations;
  meet(shared, ranks, round);
  double sum = 0;
  for (int other = 0; other < ranks; ++other) sum += shared->us[other];
  meet(shared, ranks, round);
  return sum / ranks;
}

static int run(int rank, int ranks, size_t first, size_t last, int iterations, struct shared* shared) {
  int round = 0;
  ncclComm_t comm;
  cudaStream_t stream;
  float *from, *to;
  CUDA(cudaSetDevice(rank));
  if (rank == 0) {
    NCCL(ncclGetUniqueId(&shared->id));
    __atomic_store_n(&shared->id_made, 1, __ATOMIC_RELEASE);
  }
  while (!__atomic_load_n(&shared->id_made, __ATOMIC_ACQUIRE)) usleep(1000);
  NCCL(ncclCommInitRank(&comm, ranks, shared->id, rank));
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CUDA(cudaMalloc((void**)&from, last));
  CUDA(cudaMalloc((void**)&to, last));
  CUDA(cudaMemset(from, 0, last));
  for (size_t bytes = first; bytes <= last; bytes *= 2) {
    const size_t count = bytes / sizeof(float);
    const double apart = timed(comm, stream, from, to, count, iterations, shared, rank, ranks, &round);
    const double in_place = timed(comm, stream, to, to, count, iterations, shared, rank, ranks, &round);
    if (rank == 0) printf("%zu %.2f %.2f\n", bytes, apart, in_place);
  }
  NCCL(ncclCommDestroy(comm));
  return 0;
}

int main(int argc, char** argv) {
  require(argc >= 4, "usage: all_reduce_nccl RANKS FIRST_BYTES LAST_BYTES [ITERATIONS]: reading the arguments");
  const int ranks = atoi(argv[1]);
  const int iterations = argc > 4 ? atoi(argv[4]) : 20;
  require(ranks >= 1 && ranks <= 64 && iterations >= 1, "ranks from 1 to 64, iterations from 1: reading the arguments");
  struct shared* shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  require(shared != MAP_FAILED, "mmap");
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    require(child >= 0, "fork");
    if (child == 0) {
      alarm(120);  /* a rank whose peer ended would wait for ever */
      exit(run(rank, ranks, strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10), iterations, shared));
    }
  }
  int status, bad = 0;
  while (wait(&status) > 0) bad |= status != 0;
  return bad;
}
