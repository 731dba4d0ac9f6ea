#include "transport/fault_link.h"

#include <algorithm>
#include <utility>

namespace ccore {

FaultLink::FaultLink(std::unique_ptr<Link> inner, uint64_t seed) : inner_(std::move(inner)), random_(seed) {}

size_t FaultLink::some_of(size_t size) {
  switch (random_() % 4) {
    case 0:
      return 0;
    case 1:
      return std::min<size_t>(size, 1 + random_() % 7);
    case 2:
      return std::min<size_t>(size, 1 + random_() % 5000);
    default:
      return size;
  }
}

size_t FaultLink::try_send(const std::byte* data, size_t size) {
  const size_t some = some_of(size);
  return some == 0 ? 0 : inner_->try_send(data, some);
}

Bytes FaultLink::peek(size_t at_least) {
  const Bytes ready = inner_->peek(at_least);
  return Bytes{ready.data, some_of(ready.size)};
}

void FaultLink::consume(size_t size) { inner_->consume(size); }

size_t FaultLink::try_recv(std::byte* data, size_t size) {
  const size_t some = some_of(size);
  return some == 0 ? 0 : inner_->try_recv(data, some);
}

}  // namespace ccore
