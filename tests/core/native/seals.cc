// What proves where a frame comes from: the hash, the keys of a connection, and that nothing else is believed.
#include "transport/seal.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cases.h"
#include "collectives/links/framing.h"
#include "common/error.h"
#include "common/siphash.h"
#include "expect.h"
#include "ranks.h"
#include "rendezvous/channel.h"
#include "sessions.h"
#include "transport/fault_link.h"
#include "transport/tcp/acceptor.h"
#include "transport/tcp/frame.h"
#include "transport/tcp/handshake.h"
#include "transport/tcp/stripe_link.h"
#include "transport/tcp/tcp_link.h"

namespace test {
namespace {

const std::string kFarPeer = "rank 3 (host far, pid 7)";
using Raw = std::vector<char>;

// The designers' own (vectors.h of their reference implementation): the key is 00 01 .. 0f, the message of vector n is
// the bytes 00 01 .. n-1, the hash is written with the least significant byte first. Number 15 is that of the paper.
constexpr std::array<std::array<unsigned char, 8>, 32> kVectors = {{
    {0x31, 0x0e, 0x0e, 0xdd, 0x47, 0xdb, 0x6f, 0x72}, {0xfd, 0x67, 0xdc, 0x93, 0xc5, 0x39, 0xf8, 0x74},
    {0x5a, 0x4f, 0xa9, 0xd9, 0x09, 0x80, 0x6c, 0x0d}, {0x2d, 0x7e, 0xfb, 0xd7, 0x96, 0x66, 0x67, 0x85},
    {0xb7, 0x87, 0x71, 0x27, 0xe0, 0x94, 0x27, 0xcf}, {0x8d, 0xa6, 0x99, 0xcd, 0x64, 0x55, 0x76, 0x18},
    {0xce, 0xe3, 0xfe, 0x58, 0x6e, 0x46, 0xc9, 0xcb}, {0x37, 0xd1, 0x01, 0x8b, 0xf5, 0x00, 0x02, 0xab},
    {0x62, 0x24, 0x93, 0x9a, 0x79, 0xf5, 0xf5, 0x93}, {0xb0, 0xe4, 0xa9, 0x0b, 0xdf, 0x82, 0x00, 0x9e},
    {0xf3, 0xb9, 0xdd, 0x94, 0xc5, 0xbb, 0x5d, 0x7a}, {0xa7, 0xad, 0x6b, 0x22, 0x46, 0x2f, 0xb3, 0xf4},
    {0xfb, 0xe5, 0x0e, 0x86, 0xbc, 0x8f, 0x1e, 0x75}, {0x90, 0x3d, 0x84, 0xc0, 0x27, 0x56, 0xea, 0x14},
    {0xee, 0xf2, 0x7a, 0x8e, 0x90, 0xca, 0x23, 0xf7}, {0xe5, 0x45, 0xbe, 0x49, 0x61, 0xca, 0x29, 0xa1},
    {0xdb, 0x9b, 0xc2, 0x57, 0x7f, 0xcc, 0x2a, 0x3f}, {0x94, 0x47, 0xbe, 0x2c, 0xf5, 0xe9, 0x9a, 0x69},
    {0x9c, 0xd3, 0x8d, 0x96, 0xf0, 0xb3, 0xc1, 0x4b}, {0xbd, 0x61, 0x79, 0xa7, 0x1d, 0xc9, 0x6d, 0xbb},
    {0x98, 0xee, 0xa2, 0x1a, 0xf2, 0x5c, 0xd6, 0xbe}, {0xc7, 0x67, 0x3b, 0x2e, 0xb0, 0xcb, 0xf2, 0xd0},
    {0x88, 0x3e, 0xa3, 0xe3, 0x95, 0x67, 0x53, 0x93}, {0xc8, 0xce, 0x5c, 0xcd, 0x8c, 0x03, 0x0c, 0xa8},
    {0x94, 0xaf, 0x49, 0xf6, 0xc6, 0x50, 0xad, 0xb8}, {0xea, 0xb8, 0x85, 0x8a, 0xde, 0x92, 0xe1, 0xbc},
    {0xf3, 0x15, 0xbb, 0x5b, 0xb8, 0x35, 0xd8, 0x17}, {0xad, 0xcf, 0x6b, 0x07, 0x63, 0x61, 0x2e, 0x2f},
    {0xa5, 0xc9, 0x1d, 0xa7, 0xac, 0xaa, 0x4d, 0xde}, {0x71, 0x65, 0x95, 0x87, 0x66, 0x50, 0xa2, 0xa6},
    {0x28, 0xef, 0x49, 0x5c, 0x53, 0xa3, 0x87, 0xad}, {0x42, 0xc3, 0x41, 0xd8, 0xfa, 0x92, 0xd8, 0x32},
}};

void the_published_vectors() {
  ccore::SipKey key;
  std::iota(key.begin(), key.end(), static_cast<unsigned char>(0));
  std::array<unsigned char, 64> message;
  std::iota(message.begin(), message.end(), static_cast<unsigned char>(0));
  for (size_t size = 0; size < kVectors.size(); ++size) {
    uint64_t expected = 0;
    for (size_t i = 0; i < 8; ++i) expected |= uint64_t{kVectors[size][i]} << (8 * i);
    EXPECT(ccore::siphash24(key, message.data(), size) == expected, "of ", size, " bytes");
    if (size < 8) continue;
    uint64_t first = 0;
    for (size_t i = 0; i < 8; ++i) first |= uint64_t{message[i]} << (8 * i);
    EXPECT(ccore::siphash24(key, first, message.data() + 8, size - 8) == expected, "with a first word of ", size);
  }
  EXPECT(ccore::siphash24(key, message.data(), 63) == 0x958a324ceb064572, "of 63 bytes");
}

// As not being the peer's, by its name.
void expect_refused(const std::function<void()>& call, const std::string& what) {
  try {
    call();
  } catch (const ccore::NotAuthentic& error) {
    EXPECT(error.code() == CC_ERROR_REMOTE && contains(error.what(), "is not authentic"), error.what());
    EXPECT(contains(error.what(), kFarPeer), error.what());
    return;
  }
  fail(__FILE__, __LINE__, what, " was believed");
}

using HeaderBytes = std::array<std::byte, sizeof(ccore::FrameHeader)>;

HeaderBytes frame_by(ccore::Seals* seals, uint64_t offset) {
  ccore::FrameHeader header;
  header.offset = offset;
  header.length = 100;
  header.tag = ccore::tag_of(header, seals->out);
  seals->out.advance();
  HeaderBytes bytes;
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

void frames() {
  const SessionPair pair = sessions(1);
  const ccore::FrameRules rules{0, 1000, 1000};
  const auto parse = [&](const HeaderBytes& bytes, const ccore::Seals& seals) {
    return ccore::parse_frame(bytes, rules, seals);
  };
  ccore::Seals sender = ccore::make_seals(pair.connecting, "frames", kFarPeer);
  ccore::Seals receiver = ccore::make_seals(pair.accepting, "frames", kFarPeer);
  const HeaderBytes first = frame_by(&sender, 0);
  const HeaderBytes second = frame_by(&sender, 100);
  for (size_t bit = 0; bit < first.size() * 8; ++bit) {
    HeaderBytes flipped = first;
    flipped[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    expect_refused([&] { parse(flipped, receiver); }, ccore::format("bit %zu", bit));
  }
  expect_refused([&] { parse(second, receiver); }, "the second frame before the first one");
  EXPECT(parse(first, receiver).offset == 0, "the first frame");
  receiver.in.advance();
  expect_refused([&] { parse(first, receiver); }, "a frame that was sent again");
  EXPECT(parse(second, receiver).offset == 100, "the second frame");
  const auto never = [&](const ccore::Session& session, const std::string& purpose, const std::string& what) {
    expect_refused([&] { parse(first, ccore::make_seals(session, purpose, kFarPeer)); }, what);
  };
  never(sessions(2).accepting, "frames", "a frame of another connection");
  never(pair.connecting, "frames", "a frame that came back to its sender");
  never(pair.accepting, "operations", "a frame of another kind");
}

ccore::Operation an_operation() {
  ccore::Operation operation;
  operation.kind = ccore::Kind::all_reduce;
  operation.sequence = 4;
  operation.count = 16;
  return operation;
}

// What a link puts on the wire for a header with 64 bytes behind it.
Raw sent_by(ccore::Link* link, int fd) {
  const std::array<std::byte, 64> payload{};
  ccore::HeaderProgress header;
  Raw bytes;
  size_t done = 0;
  while (!header.whole || done < payload.size()) {
    done += header.whole
                ? link->try_send(payload.data() + done, payload.size() - done)
                : ccore::send_with_header(link, an_operation(), &header, payload.data(), payload.size()).payload;
  }
  char some[512];
  for (ssize_t got; (got = recv(fd, some, sizeof some, MSG_DONTWAIT)) > 0;) bytes.insert(bytes.end(), some, some + got);
  return bytes;
}

bool believed(ccore::Link* link, int fd, const Raw& bytes) {
  EXPECT(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()), "send");
  return ccore::receive_header(link, an_operation(), 0, 1);
}

// The header of a small message and its payload go in one piece; the tag is between them.
void small_messages() {
  Ends ends = connections(1, 64 * 1024);
  const int wire = ends.second[0].fd.get();
  ccore::TcpLink sender(std::move(ends.first[0]), kFarPeer);
  const Raw first = sent_by(&sender, wire);
  const Raw second = sent_by(&sender, wire);
  constexpr size_t kHeaderBytes = sizeof(ccore::Operation) + ccore::kTagBytes;
  EXPECT(first.size() == kHeaderBytes + 64 && second.size() == first.size(), first.size(), " bytes");
  const auto receiver = [](int session, bool connecting, int* fd, std::optional<ccore::UniqueFd>* keep) {
    Ends other = connections(1, 64 * 1024);
    *fd = other.first[0].fd.get();
    keep->emplace(std::move(other.first[0].fd));
    other.second[0].session = connecting ? sessions(session).connecting : sessions(session).accepting;
    return std::make_unique<ccore::TcpLink>(std::move(other.second[0]), kFarPeer);
  };
  int fd = -1;
  std::optional<ccore::UniqueFd> keep;
  for (size_t bit = 0; bit < kHeaderBytes * 8; ++bit) {
    Raw flipped = first;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    const auto link = receiver(0, false, &fd, &keep);
    expect_refused([&] { believed(link.get(), fd, flipped); }, ccore::format("bit %zu", bit));
  }
  const auto link = receiver(0, false, &fd, &keep);
  std::array<std::byte, 64> payload;
  EXPECT(believed(link.get(), fd, first), "the first message");
  EXPECT(link->try_recv(payload.data(), payload.size()) == payload.size(), "its payload");
  expect_refused([&] { believed(link.get(), fd, first); }, "a message that was sent again");
  const auto swapped = receiver(0, false, &fd, &keep);
  expect_refused([&] { believed(swapped.get(), fd, second); }, "the second message before the first one");
  const auto other = receiver(1, false, &fd, &keep);
  expect_refused([&] { believed(other.get(), fd, first); }, "a message of another connection");
  const auto reflected = receiver(0, true, &fd, &keep);
  expect_refused([&] { believed(reflected.get(), fd, first); }, "a message that came back to its sender");
}

// However little a link takes at a time, the tag is the same.
void headers_in_pieces() {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    for (const size_t sockets : {size_t{1}, size_t{2}}) {
      Ends ends = connections(sockets, 64 * 1024);
      const auto link_of = [&](std::vector<ccore::Connection>* side) -> std::unique_ptr<ccore::Link> {
        if (sockets == 1) return std::make_unique<ccore::TcpLink>(std::move(side->front()), kFarPeer);
        return std::make_unique<ccore::StripeLink>(std::move(*side), 1024, kFarPeer);
      };
      ccore::FaultLink sender(link_of(&ends.first), seed);
      ccore::FaultLink receiver(link_of(&ends.second), seed + 100);
      const std::array<std::byte, 64> payload{};
      for (int message = 0; message < 10; ++message) {
        ccore::HeaderProgress header;
        size_t sent = 0;
        size_t received = 0;
        bool begun = false;
        std::array<std::byte, 64> got;
        while (received < payload.size()) {
          if (!header.whole) {
            sent += ccore::send_with_header(&sender, an_operation(), &header, payload.data(), payload.size()).payload;
          } else if (sent < payload.size()) {
            sent += sender.try_send(payload.data() + sent, payload.size() - sent);
          }
          if (!begun) {
            begun = ccore::receive_header(&receiver, an_operation(), 0, 1);
          } else {
            received += receiver.try_recv(got.data() + received, got.size() - received);
          }
        }
      }
    }
  }
}

// Of the rendezvous, where every byte is tagged.
void messages() {
  const auto soon = [] { return ccore::Deadline::in_ms(5000); };
  const std::string text = "what a rank has to say";
  Raw bytes(16 + text.size() + 8);
  for (size_t bit = 0; bit <= bytes.size() * 8; ++bit) {
    Ends ends = connections(2, 64 * 1024);
    const int wire = ends.second[0].fd.get();
    const int other = ends.first[1].fd.get();
    ends.second[1].session = sessions(0).accepting;
    ccore::Channel sender(std::move(ends.first[0]), kFarPeer);
    ccore::Channel receiver(std::move(ends.second[1]), kFarPeer);
    sender.send(CC_ERROR_SYSTEM, text, soon());
    EXPECT(recv(wire, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()), "recv");
    const bool flips = bit < bytes.size() * 8;
    if (flips) bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    EXPECT(send(other, bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0, "send");
    if (flips) {
      expect_refused([&] { receiver.receive(1000, soon()); }, ccore::format("bit %zu", bit));
      continue;
    }
    const ccore::Message message = receiver.receive(1000, soon());
    EXPECT(message.status == CC_ERROR_SYSTEM && message.bytes == text, message.bytes);
    EXPECT(send(other, bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0, "send");
    expect_refused([&] { receiver.receive(1000, soon()); }, "a message that was sent again");
  }
}

ccore::Acceptor acceptor_at(const ccore::Digest& secret, ccore::Address* address) {
  std::vector<ccore::UniqueFd> listeners;
  listeners.push_back(ccore::listen_on(ccore::resolve("127.0.0.1", 0), false));
  *address = ccore::local_address(listeners.front().get());
  return ccore::Acceptor(std::move(listeners), secret);
}

// Both ends make the same keys, and each connection makes others.
void keys_of_connections() {
  const auto soon = [] { return ccore::Deadline::in_ms(5000); };
  ccore::Digest secret{};
  ccore::random_bytes(secret.data(), secret.size());
  ccore::Address address;
  ccore::Acceptor acceptor = acceptor_at(secret, &address);
  std::vector<ccore::Session> accepted(3);
  std::vector<ccore::Session> connected(3);
  run_threads(2, [&](int side) {
    for (size_t i = 0; i < connected.size(); ++i) {
      if (side == 0) {
        accepted[i] = acceptor.next(soon()).value().connection.session;
      } else {
        const ccore::UniqueFd fd = ccore::connect_to(address, soon());
        connected[i] = ccore::introduce(fd.get(), secret, ccore::Hello{}, soon(), kFarPeer);
      }
    }
  });
  for (size_t i = 0; i < accepted.size(); ++i) {
    EXPECT(accepted[i].key == connected[i].key, "the ends of connection ", i);
    EXPECT(connected[i].connected && !accepted[i].connected, "the sides of connection ", i);
    for (size_t other = 0; other < i; ++other) EXPECT(accepted[i].key != accepted[other].key, "one key for two");
  }
}

// Both versions of a library report that there are two.
void other_versions_are_refused() {
  const auto soon = [] { return ccore::Deadline::in_ms(5000); };
  const Raw old_challenge = [] {
    Raw bytes(40);
    std::memcpy(bytes.data(), "CCR1", 4);
    return bytes;
  }();
  Ends ends = connections(1, 64 * 1024);
  const int old = ends.second[0].fd.get();
  EXPECT(send(old, old_challenge.data(), old_challenge.size(), MSG_NOSIGNAL) == 40, "send");
  try {
    ccore::introduce(ends.first[0].fd.get(), ccore::Digest{}, ccore::Hello{}, soon(), kFarPeer);
    fail(__FILE__, __LINE__, "an older version was believed");
  } catch (const ccore::Error& error) {
    EXPECT(error.code() == CC_ERROR_REMOTE, error.what());
    EXPECT(contains(error.what(), kFarPeer + " speaks version 1 of the wire format and this process version 2"),
           error.what());
  }
  char said[4];
  EXPECT(recv(old, said, sizeof said, 0) == 4 && std::memcmp(said, "CCR2", 4) == 0, "it was not told");

  ccore::Address address;
  ccore::Acceptor acceptor = acceptor_at(ccore::Digest{}, &address);
  const ccore::UniqueFd fd = ccore::connect_to(address, soon());
  EXPECT(send(fd.get(), "CCR3", 4, MSG_NOSIGNAL) == 4, "send");
  EXPECT(acceptor.other_version().empty(), acceptor.other_version());
  const ccore::Deadline deadline = soon();
  while (acceptor.other_version().empty() && !deadline.passed()) {
    EXPECT(!acceptor.next(ccore::Deadline::in_ms(20)), "a newer version was let in");
  }
  EXPECT(contains(acceptor.other_version(), "127.0.0.1 speaks version 3 of the wire format"), acceptor.other_version());
}

}  // namespace

void seals() {
  the_published_vectors();
  frames();
  small_messages();
  headers_in_pieces();
  messages();
  keys_of_connections();
  other_versions_are_refused();
}

}  // namespace test
