// A link that behaves as badly as a link may: moves few bytes, or none, at random. Same bytes, same order.
#pragma once

#include <cstdint>
#include <memory>
#include <random>

#include "transport/link.h"

namespace ccore {

class FaultLink : public Link {
 public:
  FaultLink(std::unique_ptr<Link> inner, uint64_t seed);

  size_t try_send(const std::byte* data, size_t size) override;
  Bytes peek(size_t at_least) override;
  void consume(size_t size) override;
  size_t try_recv(std::byte* data, size_t size) override;
  int fd() const override { return inner_->fd(); }
  void add_fds(short events, std::vector<pollfd>* fds) const override { inner_->add_fds(events, fds); }
  size_t turn_bytes() const override { return inner_->turn_bytes(); }
  size_t inline_bytes(const std::byte* payload, size_t size) const override {
    return inner_->inline_bytes(payload, size);
  }
  const char* name() const override { return inner_->name(); }
  Seals* header_seals() override { return inner_->header_seals(); }

 private:
  // How many of `size` bytes may move this time.
  size_t some_of(size_t size);

  std::unique_ptr<Link> inner_;
  std::mt19937_64 random_;
};

}  // namespace ccore
