// The header of an operation, put up for others to read while its rank goes on: one writer, no locks.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ccore {

constexpr size_t kHeaderBytes = 56;  // of an operation's header, which this file knows as bytes only

struct alignas(64) Notice {
  std::atomic<uint64_t> state{0};  // twice the operation's number; odd while the words change
  std::array<std::atomic<uint64_t>, kHeaderBytes / 8> words{};

  void write(uint64_t operation, const std::byte* header);
  // False: it is not of that operation (any more, or yet).
  bool read(uint64_t operation, std::byte* header) const;
};

}  // namespace ccore
