// Memory that ranks register: reduced where it lies, with the bits of any other memory; who is left out is not harmed,
// and nothing stays behind.
#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "api/support.h"
#include "cases.h"
#include "collectives/all_reduce/without_slots.h"
#include "expect.h"
#include "oracle.h"
#include "ranks.h"

namespace test {
namespace {

constexpr size_t kBytes = 300 * 1000;
constexpr unsigned char kNeverWritten = 0xa5;

// Registered with a communicator, at an odd place in memory of its own; larger on higher ranks.
class Registered {
 public:
  Registered(cc_comm* comm, int rank) : comm_(comm) {
    const size_t bytes = kBytes + 4096 * static_cast<size_t>(rank);
    EXPECT(cc_mem_alloc(&memory_, bytes) == CC_SUCCESS, cc_last_error(nullptr));
    data = static_cast<unsigned char*>(memory_) + 1 + rank;
    const cc_result result =
        cc_mem_register(comm, data, bytes - 1 - static_cast<size_t>(rank), &handle, &direct, nullptr);
    EXPECT(result == CC_SUCCESS && handle != 0, cc_last_error(nullptr));
  }
  // Collective, unless it was deregistered. Not for a communicator that has failed.
  ~Registered() {
    if (!deregistered_) cc_mem_deregister(comm_, handle, nullptr);
    cc_mem_free(memory_);
  }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;
  void deregister() {
    EXPECT(cc_mem_deregister(comm_, handle, nullptr) == CC_SUCCESS, cc_last_error(nullptr));
    deregistered_ = true;
  }

  unsigned char* data = nullptr;
  cc_mem_handle handle = 0;
  int direct = -1;

 private:
  cc_comm* comm_;
  void* memory_ = nullptr;
  bool deregistered_ = false;
};

void done(cc_result result) { EXPECT(result == CC_SUCCESS, cc_last_error(nullptr)); }

// Into recv and, where it is the same, in place; compared with what ordinary memory gives.
void expect_the_same(int rank, cc_comm* comm, unsigned char* send, unsigned char* recv, size_t bytes, cc_dtype dtype,
                     cc_redop op) {
  const size_t count = bytes / cc_dtype_size(dtype);
  const size_t whole = count * cc_dtype_size(dtype);
  const Data mine = random_input(dtype, count, rank, static_cast<unsigned>(bytes % 1000));
  Data expected(whole);
  done(cc_all_reduce(mine.data(), expected.data(), count, dtype, op, comm, nullptr));
  std::memset(recv, kNeverWritten, whole + 1);
  std::memcpy(send, mine.data(), whole);
  done(cc_all_reduce(send, recv, count, dtype, op, comm, nullptr));
  EXPECT(std::memcmp(recv, expected.data(), whole) == 0, "rank ", rank, ": other bits than in ordinary memory");
  EXPECT(send == recv || std::memcmp(send, mine.data(), whole) == 0, "the input was written to");
  EXPECT(send == recv || recv[whole] == kNeverWritten, "something behind the output was written to");
}

// Whether an operation in these buffers needs no slots.
bool needs_no_slots(cc_comm* comm, const void* send, void* recv, size_t bytes) {
  ccore::Operation operation;
  operation.kind = ccore::Kind::all_reduce;
  operation.count = bytes;
  bool direct = false;
  const cc_result result = ccore::guarded([&] {
    comm->communicator.run(operation, 0, [&](const ccore::Context& context) {
      direct = ccore::all_reduce_registered(context, send, recv, bytes, CC_UINT8, CC_MAX);
    });
  });
  EXPECT(result == CC_SUCCESS, last_error(comm));
  return direct;
}

void bits_are_the_same(int nranks) {
  run_ranks(nranks, layout_named("shm"), [&](int rank, cc_comm* comm) {
    Registered send(comm, rank);
    Registered recv(comm, (rank + 1) % nranks);
    EXPECT(send.direct == 1 && recv.direct == 1, "not direct");
    const size_t least = ccore::kLeastRegisteredBytes;
    for (const cc_dtype dtype : {CC_INT8, CC_BFLOAT16, CC_FLOAT32, CC_FLOAT64}) {
      for (const cc_redop op : {CC_SUM, CC_AVG, CC_MAX}) {
        for (const size_t bytes : {size_t{8}, least - 8, least, least + 24, size_t{200008}}) {
          expect_the_same(rank, comm, send.data, recv.data, bytes, dtype, op);
          expect_the_same(rank, comm, send.data, send.data, bytes, dtype, op);
          // In place on one rank, anywhere in the memory on another.
          unsigned char* anywhere = recv.data + 4096 * static_cast<size_t>(rank);
          expect_the_same(rank, comm, send.data, rank == 0 ? send.data : anywhere, bytes, dtype, op);
        }
      }
    }
    EXPECT(needs_no_slots(comm, send.data, recv.data, kBytes - 8), "through slots");
    EXPECT(needs_no_slots(comm, recv.data, recv.data + 8, 0), "nothing, but registered");
    // One rank has other memory, or goes one byte beyond its own: all take the slots, and the result is right.
    std::vector<unsigned char> plain(kBytes + 4096 * 8);
    EXPECT(!needs_no_slots(comm, send.data, rank == 1 ? plain.data() : recv.data, kBytes - 8), "not through slots");
    for (const int odd : {0, nranks - 1}) {
      expect_the_same(rank, comm, rank == odd ? plain.data() : send.data, recv.data, 200008, CC_FLOAT32, CC_SUM);
      expect_the_same(rank, comm, send.data, rank == odd ? plain.data() : recv.data, 200008, CC_FLOAT32, CC_SUM);
    }
    send.deregister();
    EXPECT(!needs_no_slots(comm, send.data, recv.data, 200008), "still reached after its deregistration");
    expect_the_same(rank, comm, send.data, recv.data, 200008, CC_FLOAT32, CC_SUM);
    recv.deregister();
  });
}

// Larger than what stays in caches: other stores, and looks at the deadline on the way.
void large() {
  constexpr size_t kCount = (size_t{12} << 20) / 4 + 5;
  run_ranks(2, layout_named("shm"), [&](int rank, cc_comm* comm) {
    void* memory = nullptr;
    cc_mem_handle handle = 0;
    done(cc_mem_alloc(&memory, 2 * kCount * 4));
    done(cc_mem_register(comm, memory, 2 * kCount * 4, &handle, nullptr, nullptr));
    auto* values = static_cast<int32_t*>(memory);
    for (size_t i = 0; i < kCount; ++i) values[i] = static_cast<int32_t>(i) * (rank + 1);
    done(cc_all_reduce(values, values + kCount, kCount, CC_INT32, CC_SUM, comm, nullptr));
    for (size_t i = 0; i < kCount; ++i) EXPECT(values[kCount + i] == 3 * static_cast<int32_t>(i), "element ", i);
    EXPECT(cc_mem_free(memory) == CC_ERROR_INVALID_USAGE && contains(cc_last_error(nullptr), "still registered"),
           cc_last_error(nullptr));
    done(cc_mem_deregister(comm, handle, nullptr));
    done(cc_mem_free(memory));
  });
}

void not_everywhere(const std::string& layout, bool plain) {
  run_ranks(3, layout_named(layout), [&](int rank, cc_comm* comm) {
    const Registered send(comm, rank);
    EXPECT(send.direct == (layout == "shm" ? 1 : 0), layout, ": direct is ", send.direct);
    std::vector<unsigned char> memory(kBytes);
    cc_mem_handle handle = 0;
    int direct = -1;
    unsigned char* recv = rank == 1 || !plain ? memory.data() : send.data + 100000;
    done(cc_mem_register(comm, recv, 100000, &handle, &direct, nullptr));
    EXPECT(direct == 0, "what cc_mem_alloc did not give is direct");
    expect_the_same(rank, comm, send.data, recv, 99992, CC_FLOAT32, CC_SUM);
    done(cc_mem_deregister(comm, handle, nullptr));
  });
}

void refusals() {
  void* memory = nullptr;
  EXPECT(cc_mem_alloc(nullptr, 1) == CC_ERROR_INVALID_ARGUMENT, "null");
  EXPECT(cc_mem_alloc(&memory, 0) == CC_ERROR_INVALID_ARGUMENT && !memory, "no bytes");
  EXPECT(cc_mem_alloc(&memory, SIZE_MAX / 4) == CC_ERROR_SYSTEM && !memory, "more than there can be");
  done(cc_mem_free(nullptr));
  done(cc_mem_alloc(&memory, 5000));
  auto* bytes = static_cast<unsigned char*>(memory);
  EXPECT(std::count(bytes, bytes + 5000, 0) == 5000 && reinterpret_cast<uintptr_t>(memory) % 4096 == 0, "no zeros");
  EXPECT(cc_mem_free(bytes + 1) == CC_ERROR_INVALID_ARGUMENT, "not its beginning");
  done(cc_mem_free(memory));
  EXPECT(cc_mem_free(memory) == CC_ERROR_INVALID_ARGUMENT, "freed twice");
  run_ranks(2, layout_named("shm"), [&](int rank, cc_comm* comm) {
    Registered one(comm, rank);
    cc_mem_handle handle = 7;
    EXPECT(cc_mem_register(comm, nullptr, 1, &handle, nullptr, nullptr) == CC_ERROR_INVALID_ARGUMENT && handle == 0,
           "null");
    EXPECT(cc_mem_register(comm, one.data, 0, &handle, nullptr, nullptr) == CC_ERROR_INVALID_ARGUMENT, "no bytes");
    EXPECT(cc_mem_deregister(comm, 4711, nullptr) == CC_ERROR_INVALID_ARGUMENT, "a handle that nobody gave");
    EXPECT(contains(cc_last_error(nullptr), "4711"), cc_last_error(nullptr));
    one.deregister();
    EXPECT(cc_mem_deregister(comm, one.handle, nullptr) == CC_ERROR_INVALID_ARGUMENT, "twice");
  });
}

// And after a failure the memory is free once the communicator is gone.
void a_late_rank_is_named() {
  Meeting meeting(2);
  void* kept[2] = {nullptr, nullptr};
  run_ranks(2, layout_named("shm"), [&](int rank, cc_comm* comm) {
    void** memory = &kept[rank];
    cc_mem_handle handle = 0;
    done(cc_mem_alloc(memory, 70000));
    done(cc_mem_register(comm, *memory, 70000, &handle, nullptr, nullptr));
    cc_op_options options{sizeof options, 300, 0, 0, nullptr};
    if (rank == 0) {
      const cc_result result = cc_all_reduce(*memory, *memory, 70000, CC_INT8, CC_SUM, comm, &options);
      EXPECT(result == CC_ERROR_TIMEOUT && contains(last_error(comm), "data from rank 1"), last_error(comm));
    }
    meeting.wait();
  });
  for (void* memory : kept) done(cc_mem_free(memory));
}

// Of the memory alone: the rendezvous closes what it has a moment after the last rank has left.
long open_files() {
  DIR* folder = opendir("/proc/self/fd");
  EXPECT(folder, "no /proc/self/fd");
  long count = 0;
  while (const dirent* entry = readdir(folder)) {
    char target[64] = {};
    const ssize_t length = readlinkat(dirfd(folder), entry->d_name, target, sizeof target);
    if (length > 0 && contains(std::string(target, static_cast<size_t>(length)), "collective_core_memory")) ++count;
  }
  closedir(folder);
  return count;
}

long mappings() {
  std::ifstream file("/proc/self/maps");
  long count = 0;
  for (std::string line; std::getline(file, line);) count += contains(line, "collective_core_memory") ? 1 : 0;
  return count;
}

void nothing_stays_behind() {
  for (int round = 0; round < 3; ++round) {
    run_ranks(3, layout_named("shm"), [&](int rank, cc_comm* comm) {
      for (int i = 0; i < 20; ++i) {
        const Registered one(comm, rank);
        expect_the_same(rank, comm, one.data, one.data, 70000, CC_INT8, CC_SUM);
      }
    });
  }
  EXPECT(open_files() == 0, open_files(), " files are left");
  EXPECT(mappings() == 0, mappings(), " mappings are left");
  // Those of a communicator go with it.
  void* kept[2] = {nullptr, nullptr};
  run_ranks(2, layout_named("shm"), [&](int rank, cc_comm* comm) {
    cc_mem_handle handle = 0;
    done(cc_mem_alloc(&kept[rank], kBytes));
    done(cc_mem_register(comm, kept[rank], kBytes, &handle, nullptr, nullptr));
  });
  EXPECT(open_files() == 2 && mappings() == 2, open_files(), " files and ", mappings(),
         " mappings are left, not the two of their owners");
  for (void* memory : kept) done(cc_mem_free(memory));
  EXPECT(open_files() == 0 && mappings() == 0, open_files(), " files and ", mappings(), " mappings are left");
}

}  // namespace

void registered_memory() {
  refusals();
  for (const int nranks : {2, 3, 4}) bits_are_the_same(nranks);
  large();
  for (const bool plain : {false, true}) {
    not_everywhere("shm", plain);
    not_everywhere("tcp", plain);
  }
  a_late_rank_is_named();
  nothing_stays_behind();
}

}  // namespace test
