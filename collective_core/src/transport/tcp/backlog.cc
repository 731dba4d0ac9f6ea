#include "transport/tcp/backlog.h"

#include <algorithm>
#include <numeric>

namespace ccore {
namespace {

constexpr size_t kLeastBytes = 64 * 1024;
// Of all together; about a millisecond at 10 Gbit/s.
constexpr size_t kTotalBytes = 1024 * 1024;
// Enough that the shares tell the paths' speeds and not who came first.
constexpr size_t kCountBytes = 2 * kTotalBytes;

}  // namespace

Backlog::Backlog(size_t sockets) : counted_(sockets), limits_(sockets, std::max(kLeastBytes, kTotalBytes / sockets)) {}

bool Backlog::full() {
  const size_t all = std::accumulate(counted_.begin(), counted_.end(), size_t{0});
  if (all < kCountBytes) return false;
  bool changed = false;
  for (size_t i = 0; i < limits_.size(); ++i) {
    const auto share = static_cast<size_t>(static_cast<double>(counted_[i]) / static_cast<double>(all) * kTotalBytes);
    // Half way each time, and not for trifles: each change costs a system call.
    const size_t wanted = std::max(kLeastBytes, share);
    const size_t step = wanted > limits_[i] ? wanted - limits_[i] : limits_[i] - wanted;
    if (step > limits_[i] / 8) {
      limits_[i] = (limits_[i] + wanted) / 2;
      changed = true;
    }
    counted_[i] = 0;
  }
  return changed;
}

}  // namespace ccore
