/* A NCCL of an old version, for processes of one machine and host memory: what tests/core/test_core_nccl_symbols.py
 * calls. Its collectives do nothing, except the all_gather by which ranks agree. FAKE_BOARD: a file that they share. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { most_ranks = 4, most_bytes = 4096 };

struct board {
  _Atomic int arrived, round;
  char records[most_ranks][most_bytes];
};

struct comm {
  int ranks, rank;
};

struct unique_id {
  char bytes[128];
};

static void meet(struct board* board, int ranks) {
  int round = board->round;
  if (atomic_fetch_add(&board->arrived, 1) + 1 == ranks) {
    board->arrived = 0;
    board->round++;
  }
  while (board->round == round) usleep(50);
}

static struct board* shared(void) {
  static struct board* board;
  if (!board) {
    int fd = open(getenv("FAKE_BOARD"), O_RDWR | O_CREAT, 0600);
    if (ftruncate(fd, sizeof *board)) abort();
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  return board;
}

int ncclCommInitRank(struct comm** comm, int ranks, struct unique_id id, int rank) {
  (void)id;
  *comm = malloc(sizeof **comm);
  (*comm)->ranks = ranks;
  (*comm)->rank = rank;
  return 0;
}

int ncclCommCount(const struct comm* comm, int* count) { return *count = comm->ranks, 0; }
int ncclCommUserRank(const struct comm* comm, int* rank) { return *rank = comm->rank, 0; }
int ncclCommCuDevice(const struct comm* comm, int* device) { return *device = 0, comm == NULL; }
int ncclCommDestroy(struct comm* comm) { return free(comm), 0; }
int ncclCommAbort(struct comm* comm) { return free(comm), 0; }
int ncclCommGetAsyncError(const struct comm* comm, int* state) { return *state = 0, comm == NULL; }
int ncclGroupStart(void) { return 0; }
int ncclGroupEnd(void) { return 0; }

int ncclAllGather(const void* send, void* recv, size_t count, int type, struct comm* comm, void* stream) {
  (void)type;
  if (stream == NULL) return 0; /* of the program, whose addresses are not real */
  struct board* board = shared();
  memcpy(board->records[comm->rank], send, count);
  meet(board, comm->ranks);
  for (int rank = 0; rank < comm->ranks; rank++) memcpy((char*)recv + rank * count, board->records[rank], count);
  meet(board, comm->ranks);
  return 0;
}

int ncclAllReduce(const void* send, void* recv, size_t count, int type, int op, struct comm* comm, void* stream) {
  (void)send, (void)recv, (void)type, (void)op, (void)comm, (void)stream;
  return count == 13 ? 4 : 0; /* 4: ncclInvalidArgument */
}

int ncclSend(const void* data, size_t count, int type, int peer, struct comm* comm, void* stream) {
  (void)data, (void)count, (void)type, (void)peer, (void)stream;
  return comm == NULL;
}

int ncclRecv(void* data, size_t count, int type, int peer, struct comm* comm, void* stream) {
  (void)data, (void)count, (void)type, (void)peer, (void)stream;
  return comm == NULL;
}

const char* ncclGetLastError(const struct comm* comm) {
  (void)comm;
  return "the fake's own text";
}
