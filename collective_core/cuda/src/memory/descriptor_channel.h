// File descriptors of memory from one rank to another, over a socket of this machine (SCM_RIGHTS).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

namespace ccore_cuda {

// An open file descriptor with an owner.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : number_(other.number_) { other.number_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_ = -1;
};

// Fewer than the kernel sends in one message (253), and than a process may have open.
constexpr size_t kMostDescriptors = 64;

// Descriptors of some segments of an export, in their order.
struct DescriptorMessage {
  uint32_t place;  // of the export on the board
  uint32_t state;  // of that place, once the export is on the board
  uint32_t first;  // the number of the first segment in the export
  uint32_t total;  // segments of the export
  uint32_t count;  // segments of this message
  uint64_t bytes[kMostDescriptors];
};

struct ReceivedDescriptors {
  DescriptorMessage message;
  // As many as message.count, or none: the message was damaged, or this process may not open so many files.
  std::vector<Descriptor> descriptors;
};

class DescriptorChannel {
 public:
  DescriptorChannel() = default;
  // Of a connected SOCK_SEQPACKET socket.
  explicit DescriptorChannel(Descriptor socket) : socket_(std::move(socket)) {}

  enum class Sent { kDone, kFull, kFailed };
  // Does not wait. kFull: the peer has to receive first.
  Sent send(const DescriptorMessage& message, const std::vector<Descriptor>& descriptors) const;
  // Does not wait.
  std::optional<ReceivedDescriptors> receive() const;

 private:
  Descriptor socket_;
};

class ChannelError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Where a rank expects its peers. Plain data, to be sent to them.
struct ChannelAddress {
  char name[32];            // of an abstract socket, which ends with its process
  unsigned char token[16];  // what a peer must show; other users can read the name, but not this
};

// Waits for the connections of peers. All its functions throw ChannelError.
class ChannelListener {
 public:
  ChannelListener();
  const ChannelAddress& address() const { return address_; }
  // One channel for each rank, an empty one for this. addresses[r] is that of rank r. Only processes of this user are
  // accepted.
  std::vector<DescriptorChannel> connect_all(int rank, const std::vector<ChannelAddress>& addresses,
                                             int64_t limit_ns) const;

 private:
  Descriptor socket_;
  ChannelAddress address_{};
};

}  // namespace ccore_cuda
