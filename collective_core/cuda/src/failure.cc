#include "failure.h"

#include <array>
#include <cstring>

#include "error.h"

namespace ccore_cuda {
namespace {

uint32_t load(const uint32_t* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

const char* name_of_type(int dtype) {
  constexpr std::array kNames = {"float64", "float32", "float16", "bfloat16", "int8",        "uint8",
                                 "int32",   "uint32",  "int64",   "uint64",   "float8 E4M3", "float8 E5M2"};
  const auto index = static_cast<size_t>(dtype);
  return index < kNames.size() ? kNames[index] : "unknown type";
}

}  // namespace

std::string text_of_call(uint64_t call) {
  const auto signature = static_cast<uint32_t>(call >> 32);
  const auto kind = static_cast<Kind>(signature >> 28);
  const uint64_t count = uint64_t{signature & 0xffu} << 32 | (call & 0xffffffffu);
  constexpr const char* kOps[] = {"sum", "product", "minimum", "maximum", "average"};
  const char* const type = name_of_type(static_cast<int>(signature >> 20 & 0xff));
  const uint32_t op = signature >> 16 & 0xf;
  const std::string of = " of " + std::to_string(count) + " ";
  switch (kind) {
    case Kind::kAllReduce:
      return "all_reduce" + of + type + ", " + (op < 5 ? kOps[op] : "?");
    case Kind::kReduceScatter:
      return "reduce_scatter" + of + type + ", " + (op < 5 ? kOps[op] : "?");
    case Kind::kAllGather:
      return "all_gather" + of + type;
    case Kind::kBroadcast:
      return "broadcast" + of + type + " from rank " + std::to_string(signature >> 8 & 0xff);
    case Kind::kExchange:
      return "exchange" + of + "bytes";
  }
  return "no operation of this library";
}

std::string FailureState::describe(Failure failure) const {
  const std::string peer = "rank " + std::to_string(words_->rank);
  const std::string own = text_of_call(words_->own_call);
  if (failure == Failure::kTimeout) {
    return "the deadline passed in " + own + " while this rank, " + std::to_string(rank_) + ", waited for " + peer;
  }
  return peer + " called " + text_of_call(words_->peer_call) + "; this rank, " + std::to_string(rank_) + ", called " +
         own;
}

cc_result FailureState::poll() {
  if (failed()) return static_cast<cc_result>(result_.load());
  const auto failure = static_cast<Failure>(load(&words_->failure));
  const uint32_t other = board_->failed.load(std::memory_order_acquire);
  if (failure == Failure::kTimeout) {
    fail(CC_ERROR_TIMEOUT, describe(failure));
  } else if (failure == Failure::kDesync) {
    fail(CC_ERROR_DESYNC, describe(failure));
  } else if (other != 0 && static_cast<int>(other) - 1 != rank_) {
    const char* const text = board_->ranks[other - 1].failure;
    fail(CC_ERROR_REMOTE, "rank " + std::to_string(other - 1) + " failed: " + text);
  }
  return static_cast<cc_result>(result_.load());
}

void FailureState::throw_if_failed() {
  const cc_result result = poll();
  if (result != CC_SUCCESS) throw Error(result, text_);
}

void FailureState::fail(cc_result result, const std::string& text) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failed()) return;
    text_ = text;
    result_.store(result, std::memory_order_release);
  }
  __atomic_store_n(&words_->abort, 1u, __ATOMIC_RELEASE);
  BoardOfRank& own = board_->ranks[rank_];
  std::strncpy(own.failure, text.c_str(), sizeof own.failure - 1);
  uint32_t none = 0;
  board_->failed.compare_exchange_strong(none, static_cast<uint32_t>(rank_) + 1, std::memory_order_release);
  wake_all(board_);
}

}  // namespace ccore_cuda
