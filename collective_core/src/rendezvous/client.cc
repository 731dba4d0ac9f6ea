#include "rendezvous/client.h"

#include <poll.h>

#include <utility>

#include "common/log.h"
#include "rendezvous/reach.h"
#include "rendezvous/root.h"

namespace ccore {
namespace {

const char* const kRootName = "the rendezvous of rank 0";
// The root says who is missing a little before the patience of the first rank ends. On a loaded machine that little is
// over before the root runs, and this rank would only know that it got no answer.
constexpr int64_t kLastWordMs = 5000;

Channel reach_root(const UniqueId& id, int rank, int nranks, const Deadline& deadline) {
  Hello hello;
  hello.purpose = Purpose::rendezvous;
  hello.from = rank;
  hello.nranks = nranks;
  return Channel(reach(id.address, id.secret, hello, deadline, kRootName), kRootName);
}

}  // namespace

RendezvousClient::RendezvousClient(const UniqueId& id, int rank, int nranks, int64_t timeout_ms)
    : nranks_(nranks),
      deadline_(Deadline::in_ms(timeout_ms)),
      last_word_(Deadline::in_ms(timeout_ms + kLastWordMs)),
      channel_(reach_root(id, rank, nranks, deadline_)) {}

std::string RendezvousClient::exchange(const std::string& mine) {
  // When the root has given up, sending may fail; what it said before is still there to be read.
  try {
    channel_.send(CC_SUCCESS, mine, deadline_);
  } catch (const Error& error) {
    if (error.code() != CC_ERROR_REMOTE) throw;
  }
  return read_reply();
}

std::string RendezvousClient::read_reply() {
  Message reply = channel_.receive(size_t{kMostRendezvousBytes} * static_cast<size_t>(nranks_), last_word_);
  if (reply.status != CC_SUCCESS) throw Error(static_cast<cc_result>(reply.status), reply.bytes);
  return std::move(reply.bytes);
}

void RendezvousClient::tell_news() {
  told_ = true;
  read_reply();
  throw Error(CC_ERROR_INTERNAL, "the rendezvous answered a question that was not asked");
}

Alarm RendezvousClient::alarm() {
  return Alarm{channel_.fd(), [this] { tell_news(); }};
}

void RendezvousClient::await_news(int64_t patience_ms) {
  pollfd news{channel_.fd(), POLLIN, 0};
  if (!told_ && poll(&news, 1, static_cast<int>(patience_ms)) > 0) tell_news();
}

void RendezvousClient::give_up(const Error& error) noexcept {
  send_last(static_cast<uint32_t>(error.code()), error.what());
}

void RendezvousClient::leave() noexcept { send_last(kLeaves, std::string()); }

void RendezvousClient::send_last(uint32_t status, const std::string& text) noexcept {
  try {
    channel_.send(status, text, Deadline::in_ms(500));
  } catch (const std::exception& unreachable) {
    log(LogLevel::info, "%s", unreachable.what());
  }
}

}  // namespace ccore
