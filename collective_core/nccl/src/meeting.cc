#include "meeting.h"

#include <chrono>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <thread>

#include "real_nccl.h"

namespace ccore_nccl {
namespace {

using Clock = std::chrono::steady_clock;

void check(int code, const char* what) {
  if (code != kCudaSuccess) throw std::runtime_error(std::string(what) + ": CUDA error " + std::to_string(code));
}

void check(Result code, const char* what) {
  if (code != kSuccess) throw std::runtime_error(std::string(what) + ": NCCL error " + std::to_string(code));
}

std::chrono::seconds deadline() {
  constexpr int kDefault = 120;
  const char* text = std::getenv("CCORE_INIT_TIMEOUT_S");
  const int seconds = text == nullptr ? 0 : std::atoi(text);
  return std::chrono::seconds(seconds > 0 ? seconds : kDefault);
}

// A program may capture a graph in another thread meanwhile.
class AnyCapture {
 public:
  AnyCapture() { cuda_driver()->exchange_capture_mode(&mode_); }
  ~AnyCapture() { cuda_driver()->exchange_capture_mode(&mode_); }
  AnyCapture(const AnyCapture&) = delete;
  AnyCapture& operator=(const AnyCapture&) = delete;

 private:
  int mode_ = kRelaxedCapture;
};

// Device memory and a stream for one newcomer's records.
class Board {
 public:
  Board(const Newcomer& newcomer, size_t bytes) : context_(newcomer.context) {
    const ContextScope current(context_);
    check(cuda_driver()->stream_create(&stream_, kNonBlockingStream), "a stream for the meeting");
    check(cuda_driver()->memory_allocate(&memory_, bytes), "memory for the meeting");
  }
  ~Board() {
    if (left_) return;
    const ContextScope current(context_);
    if (memory_ != 0) cuda_driver()->memory_free(memory_);
    if (stream_ != nullptr) cuda_driver()->stream_destroy(stream_);
  }
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  Context context() const { return context_; }
  Stream stream() const { return stream_; }
  DevicePointer memory() const { return memory_; }
  // NCCL still uses both.
  void leave() { left_ = true; }

 private:
  Context context_;
  Stream stream_ = nullptr;
  DevicePointer memory_ = 0;
  bool left_ = false;
};

void wait_for(const Board& board, Clock::time_point end) {
  const ContextScope current(board.context());
  for (auto pause = std::chrono::microseconds(10);; pause = std::min(2 * pause, std::chrono::microseconds(1000))) {
    const int state = cuda_driver()->stream_query(board.stream());
    if (state == kCudaSuccess) return;
    if (state != kCudaNotReady) check(state, "the meeting of the ranks");
    if (Clock::now() > end) {
      throw std::runtime_error(
          "the other ranks did not answer until the deadline (CCORE_INIT_TIMEOUT_S); load this library in every rank, "
          "and set CCORE_NCCL alike");
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace

Newcomer newcomer_of(Comm nccl) {
  Newcomer newcomer;
  newcomer.nccl = nccl;
  int ordinal = 0;
  check(real().comm_count(nccl, &newcomer.ranks), "ncclCommCount");
  check(real().comm_user_rank(nccl, &newcomer.rank), "ncclCommUserRank");
  check(real().comm_cu_device(nccl, &ordinal), "ncclCommCuDevice");
  int device = 0;
  check(cuda_driver()->device_get(&device, ordinal), "the communicator's device");
  // NCCL holds the primary context as long as the communicator lives; this reference is never given back.
  check(cuda_driver()->primary_context_retain(&newcomer.context, device), "the device's context");
  return newcomer;
}

void gather_records(const std::vector<Newcomer>& newcomers, std::vector<std::vector<char>>* records, size_t bytes) {
  const Clock::time_point end = Clock::now() + deadline();
  const AnyCapture allowed;
  std::vector<std::unique_ptr<Board>> boards;
  for (size_t i = 0; i < newcomers.size(); i++) {
    boards.push_back(std::make_unique<Board>(newcomers[i], (*records)[i].size()));
    const size_t offset = static_cast<size_t>(newcomers[i].rank) * bytes;
    const ContextScope current(newcomers[i].context);
    check(cuda_driver()->copy_to_device(boards[i]->memory() + offset, (*records)[i].data() + offset, bytes,
                                        boards[i]->stream()),
          "a record of the meeting");
  }
  check(real().group_start(), "ncclGroupStart");
  Result outcome = kSuccess;
  for (size_t i = 0; i < newcomers.size() && outcome == kSuccess; i++) {
    const DevicePointer own = boards[i]->memory() + static_cast<size_t>(newcomers[i].rank) * bytes;
    outcome = real().all_gather(reinterpret_cast<void*>(own), reinterpret_cast<void*>(boards[i]->memory()), bytes,
                                kUint8, newcomers[i].nccl, boards[i]->stream());
  }
  const Result ended = real().group_end();
  check(outcome, "ncclAllGather");
  check(ended, "ncclGroupEnd");
  try {
    for (size_t i = 0; i < newcomers.size(); i++) {
      const ContextScope current(newcomers[i].context);
      check(cuda_driver()->copy_to_host((*records)[i].data(), boards[i]->memory(), (*records)[i].size(),
                                        boards[i]->stream()),
            "the records of the meeting");
      wait_for(*boards[i], end);
    }
  } catch (...) {
    for (const auto& board : boards) board->leave();
    throw;
  }
}

}  // namespace ccore_nccl
