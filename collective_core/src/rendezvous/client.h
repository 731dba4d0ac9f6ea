// A rank's side of the rendezvous: rounds in which every rank learns a value of every other.
#pragma once

#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "common/clock.h"
#include "common/error.h"
#include "rendezvous/channel.h"
#include "rendezvous/unique_id.h"
#include "transport/tcp/socket.h"

namespace ccore {

class RendezvousClient {
 public:
  RendezvousClient(const UniqueId& id, int rank, int nranks, int64_t timeout_ms);

  // The values of all ranks, in the order of ranks. Also a barrier.
  template <typename T>
  std::vector<T> all_gather(const T& mine) {
    static_assert(std::is_trivially_copyable_v<T>, "travels as bytes");
    const std::string table = exchange(std::string(reinterpret_cast<const char*>(&mine), sizeof mine));
    std::vector<T> all(static_cast<size_t>(nranks_));
    if (table.size() != sizeof(T) * all.size()) {
      throw Error(CC_ERROR_INVALID_USAGE,
                  "ranks run different builds of collective_core; install one build on all nodes");
    }
    std::memcpy(all.data(), table.data(), table.size());
    return all;
  }

  // The values of all ranks, each of which may have any number of them, in the order of ranks.
  template <typename T>
  std::vector<T> concatenate(const std::vector<T>& mine) {
    static_assert(std::is_trivially_copyable_v<T>, "travels as bytes");
    const std::string table =
        exchange(std::string(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(T)));
    std::vector<T> all(table.size() / sizeof(T));
    std::memcpy(all.data(), table.data(), all.size() * sizeof(T));
    return all;
  }

  // Tells the root, and through it all ranks, why this one gives up. Never throws.
  void give_up(const Error& error) noexcept;
  // Tells the root that this rank needs it no more; whose connection ends without it is taken for dead. Never throws.
  void leave() noexcept;

  // Between two rounds the root speaks only to tell that it is over, and why.
  Alarm alarm();
  // Throws what the root has to tell, should it come within that time and not have been told before.
  void await_news(int64_t patience_ms);

  // The address of this host on the way to the root.
  Address local_host() const { return local_address(channel_.fd()); }
  const Deadline& deadline() const { return deadline_; }
  int nranks() const { return nranks_; }

 private:
  std::string exchange(const std::string& mine);
  void send_last(uint32_t status, const std::string& text) noexcept;
  std::string read_reply();
  [[noreturn]] void tell_news();

  int nranks_;
  Deadline deadline_;
  Deadline last_word_;  // of the root: later
  Channel channel_;
  bool told_ = false;  // by the root, that it is over
};

}  // namespace ccore
