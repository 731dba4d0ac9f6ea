// Bytes of strangers, and broken bytes of friends: refused in order, whatever they are. The seeds are fixed.
#include <sys/socket.h>

#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "cases.h"
#include "collectives/links/framing.h"
#include "common/error.h"
#include "expect.h"
#include "ranks.h"
#include "rendezvous/unique_id.h"
#include "transport/tcp/acceptor.h"
#include "transport/tcp/handshake.h"

namespace test {
namespace {

using Random = std::mt19937;

std::vector<char> noise(Random* random, size_t most) {
  std::vector<char> bytes((*random)() % (most + 1));
  for (char& byte : bytes) byte = static_cast<char>((*random)());
  return bytes;
}

// A flipped bit, a cut, or bytes more.
std::vector<char> mutated(Random* random, std::vector<char> bytes) {
  const size_t at = (*random)() % bytes.size();
  switch ((*random)() % 3) {
    case 0:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << (*random)() % 8));
      break;
    case 1:
      bytes.resize(at);
      break;
    default: {
      const std::vector<char> more = noise(random, 64);
      bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), more.begin(), more.end());
    }
  }
  return bytes;
}

// Either an id that can be encoded again, or an error that says what it is.
void unique_ids() {
  Random random(1);
  cc_unique_id good;
  EXPECT(cc_unique_id_from_address(&good, "127.0.0.1", 4242, "secret", 0) == CC_SUCCESS, cc_last_error(nullptr));
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    cc_unique_id id = good;
    for (auto flips = 1 + random() % 40; flips > 0; --flips) {
      id.bytes[random() % sizeof id.bytes] = static_cast<unsigned char>(random());
    }
    try {
      ccore::encode(ccore::decode(id));
    } catch (const ccore::Error& error) {
      EXPECT(error.code() == CC_ERROR_INVALID_ARGUMENT, error.what());
      ++refused;
    }
  }
  EXPECT(refused > 1000 && refused < 20000, refused, " refused");
}

// The hello of a rank that knows the secret, as it would go over the wire.
void hellos() {
  Random random(2);
  ccore::UniqueFd listener = ccore::listen_on(ccore::resolve("127.0.0.1", 0), false);
  const ccore::Address address = ccore::local_address(listener.get());
  ccore::Digest secret{};
  ccore::random_bytes(secret.data(), secret.size());
  std::vector<ccore::UniqueFd> listeners;
  listeners.push_back(std::move(listener));
  ccore::Acceptor acceptor(std::move(listeners), secret);
  const auto soon = [] { return ccore::Deadline::in_ms(5000); };
  for (int i = 0; i < 300; ++i) {
    ccore::UniqueFd stranger = ccore::connect_to(address, soon());
    // An answer without the proof: magic, purpose, from, to, ... are right; the rest is noise, or all of it is.
    std::vector<char> hello(96);
    const uint32_t head[5] = {0x32524343, 3, 1, 0, 2};
    std::memcpy(hello.data(), head, sizeof head);
    const std::vector<char> bytes = i % 2 == 0 ? mutated(&random, hello) : noise(&random, 300);
    if (!bytes.empty()) EXPECT(send(stranger.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0, "send");
    if (i % 3 == 0) continue;  // and closes; the others stay, silent
    EXPECT(!acceptor.next(ccore::Deadline::in_ms(0)), "a stranger was let in");
  }
  run_threads(2, [&](int i) {
    if (i == 0) {
      const auto accepted = acceptor.next(soon());
      EXPECT(accepted && accepted->hello.from == 1 && accepted->hello.nranks == 2, "the friend was not let in");
      return;
    }
    ccore::UniqueFd friendly = ccore::connect_to(address, soon());
    ccore::Hello hello;
    hello.from = 1;
    hello.nranks = 2;
    ccore::introduce(friendly.get(), secret, hello, soon(), "the acceptor");
  });
}

// A link that has just these bytes.
class Tape : public ccore::Link {
 public:
  explicit Tape(std::vector<char> bytes) : bytes_(std::move(bytes)) {}
  size_t try_send(const std::byte*, size_t) override { return 0; }
  ccore::Bytes peek(size_t) override { return {reinterpret_cast<const std::byte*>(bytes_.data()), bytes_.size()}; }
  void consume(size_t size) override {
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(size));
  }
  size_t try_recv(std::byte*, size_t) override { return 0; }
  int fd() const override { return -1; }
  const char* name() const override { return "tape"; }

 private:
  std::vector<char> bytes_;
};

// The header of an operation: the right one, too few bytes, or a desync with a text.
void headers() {
  Random random(3);
  ccore::Operation right;
  right.kind = ccore::Kind::all_reduce;
  right.count = 10;
  std::vector<char> bytes(sizeof right);
  std::memcpy(bytes.data(), &right, sizeof right);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::vector<char> wrong = i % 2 == 0 ? mutated(&random, bytes) : noise(&random, 80);
    const bool whole = wrong.size() >= sizeof right;
    const bool equal = whole && std::memcmp(wrong.data(), &right, sizeof right) == 0;
    Tape tape(wrong);
    try {
      EXPECT(ccore::receive_header(&tape, right, 0, 1) == whole && (equal || !whole), "a wrong header was taken");
    } catch (const ccore::Error& error) {
      EXPECT(error.code() == CC_ERROR_DESYNC && whole && !equal, error.what());
      EXPECT(contains(error.what(), "rank 1 is in"), error.what());
      ++refused;
    }
  }
  EXPECT(refused > 1000, refused, " refused");
}

}  // namespace

void fuzz() {
  unique_ids();
  hellos();
  headers();
}

}  // namespace test
