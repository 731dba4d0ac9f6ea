// The ranks' own memory, copied by the kernel: the bits of the slots, no way into a process that has left or died, and
// slots where the kernel does not copy.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "api/support.h"
#include "cases.h"
#include "collectives/all_reduce/all_reduce.h"
#include "collectives/shm/mutual_access.h"
#include "expect.h"
#include "node.h"
#include "oracle.h"
#include "ranks.h"
#include "transport/shm/arena.h"
#include "transport/shm/cross_memory.h"

namespace test {
namespace {

using ccore::Algorithm;
using ccore::Context;
using ccore::CrossMemory;
using ccore::MutualAccess;

constexpr size_t kChunk = 256 * 1024;
constexpr unsigned char kUntouched = 0xa5;

// Reduces by that algorithm; returns how often this rank has reached into the others' buffers. asked_for: not by choice,
// which has a rule of its own for large data that is not in place.
uint64_t reduce_by(Algorithm algorithm, cc_comm* comm, const void* send, void* recv, size_t count, cc_dtype dtype,
                   cc_redop op, bool asked_for = true) {
  ccore::Operation operation;
  operation.kind = ccore::Kind::all_reduce;
  operation.count = count;
  operation.dtype = dtype;
  operation.redop = op;
  uint64_t sections = 0;
  const cc_result result = ccore::guarded([&] {
    comm->communicator.run(operation, 0, [&](const Context& context) {
      EXPECT(context.cross_memory, comm->communicator.summary());
      const auto& counter = context.arena->access(context.arena->local_of(context.rank)).sections;
      const uint64_t before = counter.load();
      Context own = context;
      if (asked_for) own.chooser = nullptr;
      ccore::all_reduce_by(algorithm, own, send, recv, count, dtype, op);
      sections = (counter.load() - before) / 2;
    });
  });
  EXPECT(result == CC_SUCCESS, last_error(comm));
  return sections;
}

void expect_bits_of_slots(int rank, cc_comm* comm, size_t bytes, cc_dtype dtype, cc_redop op) {
  const size_t size = cc_dtype_size(dtype);
  const size_t count = bytes / size;
  const Data mine = random_input(dtype, count, rank, static_cast<unsigned>(bytes % 997));
  Data expected(count * size + 1);
  EXPECT(reduce_by(Algorithm::twoshot, comm, mine.data(), expected.data(), count, dtype, op) == 0, "not by slots");
  // At odd addresses: apart; in place; in place on one rank only.
  Data memory(2 * (count * size + 2), kUntouched);
  unsigned char* in = memory.data() + 1;
  for (int way = 0; way < 3; ++way) {
    const bool in_place = way == 1 || (way == 2 && rank == 0);
    unsigned char* out = in_place ? in : in + count * size + 1;
    if (!mine.empty()) std::memcpy(in, mine.data(), mine.size());
    const uint64_t sections = reduce_by(Algorithm::cma, comm, in, out, count, dtype, op);
    EXPECT(std::memcmp(out, expected.data(), count * size) == 0, "rank ", rank, ": other bits than by slots, ", bytes,
           " bytes, ", in_place ? "in place" : "apart");
    EXPECT(in_place || count == 0 || std::memcmp(in, mine.data(), mine.size()) == 0, "the input was written to");
    EXPECT(memory.front() == kUntouched && memory.back() == kUntouched, "something beside was written to");
    const size_t block = ccore::block_of(count, comm->communicator.size(), rank).count * size;
    EXPECT(sections == (block + kChunk - 1) / kChunk, sections, " sections for a block of ", block, " bytes");
  }
}

void same_bits(int nranks) {
  run_ranks(nranks, layout_named("shm"), [&](int rank, cc_comm* comm) {
    for (const cc_dtype dtype : kDtypes) {
      for (const cc_redop op : kRedops) expect_bits_of_slots(rank, comm, 70008, dtype, op);
    }
    const auto n = static_cast<size_t>(nranks);
    for (const size_t bytes :
         {size_t{0}, size_t{4}, 8 * n - 8, size_t{1000}, n * kChunk, n * kChunk + 20, 2 * n * kChunk + 4 * n + 4}) {
      expect_bits_of_slots(rank, comm, bytes, CC_FLOAT32, CC_AVG);
    }
    expect_bits_of_slots(rank, comm, (size_t{5} << 20) + 4, CC_FLOAT16, CC_SUM);  // past the caches
  });
}

// Where nothing was measured.
void it_is_chosen() {
  EXPECT(setenv("CCORE_MEASURE", "0", 1) == 0, "");
  run_ranks(2, layout_named("shm"), [&](int, cc_comm* comm) {
    EXPECT(contains(comm->communicator.summary(), "cma in use"), comm->communicator.summary());
    constexpr size_t kLarge = size_t{2} << 20;
    std::vector<float> send(kLarge, 1);
    std::vector<float> recv(kLarge);
    for (const size_t count : {size_t{16} << 10, size_t{256} << 10}) {
      EXPECT(cc_all_reduce(send.data(), recv.data(), count, CC_FLOAT32, CC_SUM, comm, nullptr) == CC_SUCCESS,
             last_error(comm));
      const std::string taken = comm->communicator.recorder().recent().back().algorithm;
      EXPECT((taken == "cma") == (count > (size_t{16} << 10)), count, " elements by ", taken);
    }
    // An output that is large and not just read is written past the caches, for which the kernel has no stores.
    const auto by_choice = [&](float* from, size_t count) {
      return reduce_by(Algorithm::cma, comm, from, recv.data(), count, CC_FLOAT32, CC_SUM, false);
    };
    EXPECT(by_choice(send.data(), kLarge) == 0 && recv[kLarge - 1] == 2, recv[kLarge - 1]);
    EXPECT(by_choice(recv.data(), kLarge) > 0 && recv[kLarge - 1] == 4, recv[kLarge - 1]);
    EXPECT(by_choice(send.data(), size_t{512} << 10) > 0 && recv[0] == 2, recv[0]);
  });
  EXPECT(unsetenv("CCORE_MEASURE") == 0, "");
}

// A page that the kernel itself maps into every process, and from which its copy calls refuse to read.
const std::byte* uncopied_page() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("[vvar]") == std::string::npos) continue;
    return reinterpret_cast<const std::byte*>(std::stoull(line, nullptr, 16));
  }
  return nullptr;
}

void what_the_kernel_does_not_copy_goes_through_slots() {
  const std::byte* page = uncopied_page();
  if (!page || ccore::kernel_copies({page})) return;  // an architecture without such a page
  run_ranks(3, layout_named("shm"), [&](int rank, cc_comm* comm) {
    std::vector<unsigned char> zeros(64);
    std::vector<unsigned char> recv(64, kUntouched);
    const void* send = rank == 1 ? static_cast<const void*>(page) : zeros.data();
    const uint64_t sections = reduce_by(Algorithm::cma, comm, send, recv.data(), 64, CC_UINT8, CC_MIN);
    EXPECT(sections == 0, "reached into buffers that the kernel does not copy");
    EXPECT(recv == std::vector<unsigned char>(64, 0), "the least of zeros and anything is not zero");
  });
}

void who_leaves_keeps_the_others_out() {
  std::atomic<bool> inside{false};
  std::atomic<bool> ended{false};
  std::atomic<bool> left{false};
  run_node(3, 4096, [&](const Context& context) {
    if (context.rank == 1) {
      while (!inside) std::this_thread::yield();
      {
        const MutualAccess access(context);
      }  // not finished
      EXPECT(ended, "left while another rank was in a section");
      left = true;
      return;
    }
    MutualAccess access(context);
    if (context.rank == 0) {
      const MutualAccess::Section section(access);
      inside = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      EXPECT(!left, "a rank left while this one was in a section");
      ended = true;
    }
    while (!left) std::this_thread::yield();
    try {
      const MutualAccess::Section section(access);
      EXPECT(false, "into the buffers of a rank that has left");
    } catch (const ccore::Error& error) {
      EXPECT(error.code() == CC_ERROR_REMOTE && contains(error.what(), "rank 1"), error.what());
    }
    access.finish();
  });
}

// No rank waits for ever for a rank that is stopped, and the stopped rank notices it before it writes.
void a_stopped_rank_is_waited_for_to_an_end() {
  std::atomic<bool> inside{false};
  std::atomic<bool> left{false};
  run_node(2, 4096, [&](const Context& context) {
    if (context.rank == 1) {
      while (!inside) std::this_thread::yield();
      {
        const MutualAccess access(context);
      }
      left = true;
      return;
    }
    MutualAccess access(context);
    const MutualAccess::Section section(access);
    inside = true;
    while (!left) std::this_thread::yield();
    try {
      section.check();
      EXPECT(false, "about to write into the buffers of a rank that has left");
    } catch (const ccore::Error& error) {
      EXPECT(error.code() == CC_ERROR_REMOTE, error.what());
    }
    access.finish();
  });
}

CrossMemory memory_of(pid_t pid) {
  std::vector<CrossMemory::Peer> peers(2);
  peers[1] = {pid, ccore::open_process(pid), "rank 1 (a child)"};
  return CrossMemory(std::move(peers));
}

template <typename Call>
void expect_remote(Call call, const std::string& part) {
  try {
    call();
  } catch (const ccore::Error& error) {
    EXPECT(error.code() == CC_ERROR_REMOTE && contains(error.what(), "rank 1 (a child)"), error.what());
    EXPECT(contains(error.what(), part), error.what());
    return;
  }
  EXPECT(false, "no error, where one says ", part);
}

void another_process() {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* mapped = mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(mapped != MAP_FAILED, "mmap");
  auto* memory = static_cast<std::byte*>(mapped);
  std::memset(memory, 7, 3 * page);
  EXPECT(munmap(memory + 2 * page, page) == 0, "munmap");
  const auto address = reinterpret_cast<uint64_t>(memory);
  const pid_t child = fork();
  if (child == 0) {
    while (true) pause();
  }
  EXPECT(child > 0, "fork");
  const CrossMemory others = memory_of(child);
  std::memset(memory, 1, 2 * page);
  std::vector<std::byte> copy(3 * page);
  others.read(1, copy.data(), address, 2 * page);
  EXPECT(copy[0] == std::byte{7} && copy[2 * page - 1] == std::byte{7}, "not what the child has");
  const std::vector<std::byte> news(page, std::byte{9});
  others.write(1, address + page - 8, news.data(), page);
  others.read(1, copy.data(), address, 2 * page);
  EXPECT(copy[page - 9] == std::byte{7} && copy[page - 8] == std::byte{9} && copy[2 * page - 8] == std::byte{7},
         "not what was written");
  EXPECT(memory[page] == std::byte{1}, "written here, not there");
  // The third page is not mapped: a part was copied, then the call ends early.
  expect_remote([&] { others.read(1, copy.data(), address, 3 * page); }, "process_vm_readv: Bad address");
  expect_remote([&] { others.write(1, address + page, copy.data(), 2 * page); }, "process_vm_writev: Bad address");
  EXPECT(others.lives(1), "it is alive");
  others.check_all_live();
  EXPECT(kill(child, SIGKILL) == 0, "kill");
  // Dead, but not yet taken note of: its number is still its own.
  siginfo_t info{};
  EXPECT(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0, "waitid");
  EXPECT(!others.lives(1), "a dead process lives");
  expect_remote([&] { others.check_all_live(); }, "died");
  EXPECT(waitpid(child, nullptr, 0) == child, "waitpid");
  EXPECT(!others.lives(1), "a dead process lives");
  expect_remote([&] { others.read(1, copy.data(), address, 8); }, "process_vm_readv: No such process");
  expect_remote([&] { others.write(1, address, copy.data(), 8); }, "process_vm_writev: No such process");
  EXPECT(munmap(memory, 2 * page) == 0, "munmap");
}

}  // namespace

void cma() {
  another_process();
  for (const int nranks : {2, 3, 4}) same_bits(nranks);
  it_is_chosen();
  what_the_kernel_does_not_copy_goes_through_slots();
  who_leaves_keeps_the_others_out();
  a_stopped_rank_is_waited_for_to_an_end();
}

}  // namespace test
