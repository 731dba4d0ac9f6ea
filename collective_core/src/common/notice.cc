#include "common/notice.h"

#include <cstring>

namespace ccore {

// A release for each word, so that a reader of a new word also sees that the state is odd.
void Notice::write(uint64_t operation, const std::byte* header) {
  state.store(2 * operation + 1, std::memory_order_relaxed);
  for (size_t i = 0; i < words.size(); ++i) {
    uint64_t word;
    std::memcpy(&word, header + 8 * i, sizeof word);
    words[i].store(word, std::memory_order_release);
  }
  state.store(2 * operation, std::memory_order_release);
}

bool Notice::read(uint64_t operation, std::byte* header) const {
  if (state.load(std::memory_order_acquire) != 2 * operation) return false;
  for (size_t i = 0; i < words.size(); ++i) {
    const uint64_t word = words[i].load(std::memory_order_acquire);
    std::memcpy(header + 8 * i, &word, sizeof word);
  }
  return state.load(std::memory_order_relaxed) == 2 * operation;
}

}  // namespace ccore
