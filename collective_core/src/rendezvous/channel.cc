#include "rendezvous/channel.h"

#include <utility>

#include "common/error.h"

namespace ccore {
namespace {

// On the wire: this, the bytes, and their own tag, which counts as a frame of its own. So the size is authentic
// before it is believed.
struct Header {
  uint32_t status;
  uint32_t size;
  uint64_t tag;
};
constexpr size_t kTaggedBytes = sizeof(Header) - kTagBytes;

}  // namespace

Channel::Channel(Connection connection, const std::string& who)
    : fd_(std::move(connection.fd)), seals_(make_seals(connection.session, "rendezvous", who)) {}

void Channel::send(uint32_t status, const std::string& bytes, const Deadline& deadline) {
  Header header{status, static_cast<uint32_t>(bytes.size()), 0};
  header.tag = seals_.out.tag(&header, kTaggedBytes);
  seals_.out.advance();
  const uint64_t tag = seals_.out.tag(bytes.data(), bytes.size());
  seals_.out.advance();
  send_all(fd_.get(), &header, sizeof header, deadline, seals_.who);
  send_all(fd_.get(), bytes.data(), bytes.size(), deadline, seals_.who);
  send_all(fd_.get(), &tag, sizeof tag, deadline, seals_.who);
}

Message Channel::receive(size_t most_bytes, const Deadline& deadline) {
  Header header{};
  recv_all(fd_.get(), &header, sizeof header, deadline, seals_.who);
  seals_.check(&header, kTaggedBytes, header.tag, "message");
  seals_.in.advance();
  if (header.size > most_bytes) throw Error(CC_ERROR_INTERNAL, seals_.who + " sent too much");
  Message message{header.status, std::string(header.size, '\0')};
  uint64_t tag = 0;
  recv_all(fd_.get(), message.bytes.data(), message.bytes.size(), deadline, seals_.who);
  recv_all(fd_.get(), &tag, sizeof tag, deadline, seals_.who);
  seals_.check(message.bytes.data(), message.bytes.size(), tag, "message");
  seals_.in.advance();
  return message;
}

}  // namespace ccore
