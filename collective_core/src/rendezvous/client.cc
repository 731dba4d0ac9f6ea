#include "rendezvous/client.h"

#include <poll.h>

#include <limits>

#include "common/log.h"
#include "rendezvous/root.h"
#include "transport/tcp/handshake.h"

namespace ccore {
namespace {

const char* const kRootName = "the rendezvous of rank 0";

}  // namespace

RendezvousClient::RendezvousClient(const UniqueId& id, int rank, int nranks, int64_t timeout_ms)
    : nranks_(nranks), deadline_(Deadline::in_ms(timeout_ms)), fd_(connect_to(id.address, deadline_)) {
  Hello hello;
  hello.purpose = Purpose::rendezvous;
  hello.from = rank;
  hello.nranks = nranks;
  // The root, which may have begun long after this rank, must tell it who is missing before it stops to listen.
  hello.timeout_ms = deadline_.remaining_ms(std::numeric_limits<int>::max());
  introduce(fd_.get(), id.secret, hello, deadline_, kRootName);
}

std::string RendezvousClient::exchange(const std::string& mine) {
  const RendezvousRequest request{CC_SUCCESS, static_cast<uint32_t>(mine.size())};
  // When the root has given up, sending may fail; what it said before is still there to be read.
  try {
    send_all(fd_.get(), &request, sizeof request, deadline_, kRootName);
    send_all(fd_.get(), mine.data(), mine.size(), deadline_, kRootName);
  } catch (const Error& error) {
    if (error.code() != CC_ERROR_REMOTE) throw;
  }
  return read_reply();
}

std::string RendezvousClient::read_reply() const {
  RendezvousReply reply{};
  recv_all(fd_.get(), &reply, sizeof reply, deadline_, kRootName);
  if (reply.size > kMostRendezvousBytes * static_cast<uint32_t>(nranks_)) {
    throw Error(CC_ERROR_INTERNAL, "a malformed answer of the rendezvous");
  }
  std::string bytes(reply.size, '\0');
  recv_all(fd_.get(), bytes.data(), bytes.size(), deadline_, kRootName);
  if (reply.status != CC_SUCCESS) throw Error(static_cast<cc_result>(reply.status), bytes);
  return bytes;
}

void RendezvousClient::tell_news() {
  told_ = true;
  read_reply();
  throw Error(CC_ERROR_INTERNAL, "the rendezvous answered a question that nobody has asked");
}

Alarm RendezvousClient::alarm() {
  return Alarm{fd_.get(), [this] { tell_news(); }};
}

void RendezvousClient::await_news(int64_t patience_ms) {
  pollfd news{fd_.get(), POLLIN, 0};
  if (!told_ && poll(&news, 1, static_cast<int>(patience_ms)) > 0) tell_news();
}

void RendezvousClient::give_up(const Error& error) noexcept {
  send_last(static_cast<uint32_t>(error.code()), error.what());
}

void RendezvousClient::leave() noexcept { send_last(kLeaves, std::string()); }

void RendezvousClient::send_last(uint32_t status, const std::string& text) noexcept {
  try {
    const RendezvousRequest request{status, static_cast<uint32_t>(text.size())};
    const Deadline soon = Deadline::in_ms(500);
    send_all(fd_.get(), &request, sizeof request, soon, kRootName);
    send_all(fd_.get(), text.data(), text.size(), soon, kRootName);
  } catch (const std::exception& unreachable) {
    log(LogLevel::info, "%s", unreachable.what());
  }
}

}  // namespace ccore
