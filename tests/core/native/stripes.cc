// Several connections as one stream: frames, their order, bounds and faults.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cases.h"
#include "common/clock.h"
#include "common/error.h"
#include "expect.h"
#include "oracle.h"
#include "ranks.h"
#include "sessions.h"
#include "transport/fault_link.h"
#include "transport/tcp/backlog.h"
#include "transport/tcp/frame.h"
#include "transport/tcp/reassembly.h"
#include "transport/tcp/stream_settings.h"
#include "transport/tcp/stripe_link.h"

namespace test {
namespace {

using Random = std::mt19937_64;
using HeaderBytes = std::array<std::byte, sizeof(ccore::FrameHeader)>;

constexpr size_t kFrame = 1024;
const std::string kPeer = "rank 3 (host far, pid 7)";

std::byte byte_at(uint64_t position) { return static_cast<std::byte>((position * 2654435761u) >> 7 & 0xff); }

HeaderBytes encode(const ccore::FrameHeader& header) {
  HeaderBytes bytes;
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

// Whether it is refused as it should be: as the peer's fault, by name.
template <typename Call>
bool refused(const Call& call) {
  try {
    call();
    return false;
  } catch (const ccore::Error& error) {
    EXPECT(error.code() == CC_ERROR_REMOTE && contains(error.what(), kPeer), error.what());
    return true;
  }
}

// Both ends of one direction.
struct Direction {
  ccore::Seals sender = ccore::make_seals(sessions(0).connecting, "frames", kPeer);
  ccore::Seals receiver = ccore::make_seals(sessions(0).accepting, "frames", kPeer);
};

// By a peer that tags what it should not send.
void broken_headers_are_refused() {
  const ccore::FrameRules rules{100, 5000, kFrame};
  const Direction direction;
  ccore::FrameHeader good;
  good.offset = 100;
  good.length = kFrame;
  const auto parsed = [&](ccore::FrameHeader header) {
    header.tag = ccore::tag_of(header, direction.sender.out);
    return ccore::parse_frame(encode(header), rules, direction.receiver);
  };
  EXPECT(parsed(good).offset == 100, "a good frame");
  const auto broken = [&](auto change) {
    ccore::FrameHeader bad = good;
    change(&bad);
    return refused([&] { parsed(bad); });
  };
  EXPECT(broken([](ccore::FrameHeader* h) { h->magic ^= 1; }), "magic");
  EXPECT(broken([](ccore::FrameHeader* h) { h->length = 0; }), "no bytes");
  EXPECT(broken([](ccore::FrameHeader* h) { h->length = kFrame + 1; }), "too many bytes");
  EXPECT(broken([](ccore::FrameHeader* h) { h->offset = 99; }), "backwards");
  EXPECT(broken([](ccore::FrameHeader* h) { h->offset = 5001; }), "far ahead");
}

// Bytes are changed on the way, or before they are tagged, by a peer that went mad.
void any_header_is_refused_or_keeps_the_rules(Random* random) {
  const Direction direction;
  size_t accepted = 0;
  for (int i = 0; i < 300000; ++i) {
    const ccore::FrameRules rules{(*random)() % 100, 100 + (*random)() % 100, kFrame};
    const bool mad = i % 2 == 0;
    ccore::FrameHeader header;
    header.offset = (*random)() % 250;
    header.length = static_cast<uint32_t>((*random)() % 1500);
    header.tag = ccore::tag_of(header, direction.sender.out);
    const HeaderBytes sent = encode(header);
    HeaderBytes bytes = sent;
    for (uint64_t flips = (*random)() % 3; flips > 0; --flips) {
      bytes[(*random)() % bytes.size()] = static_cast<std::byte>((*random)() % 256);
    }
    if (mad) {
      std::memcpy(&header, bytes.data(), sizeof header);
      header.tag = ccore::tag_of(header, direction.sender.out);
      bytes = encode(header);
    }
    refused([&] {
      const ccore::FrameHeader parsed = ccore::parse_frame(bytes, rules, direction.receiver);
      ++accepted;
      EXPECT((mad || bytes == sent) && parsed.length >= 1 && parsed.length <= kFrame &&
                 parsed.offset >= rules.least_offset && parsed.offset <= rules.most_offset,
             "input ", i);
    });
  }
  EXPECT(accepted > 1000 && accepted < 100000, accepted, " of 300000 inputs accepted");
}

// Frames of one stream over several imagined sockets, in random pieces, taken in both ways.
void frames_come_back_in_order(Random* random) {
  constexpr uint64_t kBytes = 100000;
  constexpr size_t kWindow = 4096;
  struct Piece {
    uint64_t offset;
    size_t rest;
  };
  ccore::Reassembly in(kWindow);
  std::vector<std::deque<Piece>> sockets(1 + (*random)() % 5);
  for (uint64_t offset = 0; offset < kBytes;) {
    const auto length = static_cast<size_t>(std::min<uint64_t>(1 + (*random)() % kFrame, kBytes - offset));
    sockets[(*random)() % sockets.size()].push_back(Piece{offset, length});
    offset += length;
  }
  std::vector<bool> announced(sockets.size());
  std::vector<std::byte> memory(3000);
  while (in.position() < kBytes) {
    // Two of three stretches of the stream are received into place, the third is peeked at.
    const uint64_t at = in.position();
    const bool into_place = at / memory.size() % 3 != 2;
    const auto place = static_cast<size_t>(at % memory.size());
    const auto end = static_cast<size_t>(std::min<uint64_t>(memory.size(), kBytes - at + place));
    if (into_place) in.offer(memory.data() + place, end - place);
    for (size_t i = 0; i < sockets.size(); ++i) {
      if (sockets[i].empty()) continue;
      Piece& piece = sockets[i].front();
      if (!announced[i]) {
        EXPECT(in.announce(piece.offset, piece.rest), "a frame at ", piece.offset);
        EXPECT(!in.announce(piece.offset + piece.rest - 1, 5), "an overlap was accepted");
        announced[i] = true;
      }
      const ccore::Space space = in.space(piece.offset, piece.rest);
      EXPECT(space.size > 0 || piece.offset > at, "the next byte has no place");
      const size_t count = std::min(space.size, 1 + (*random)() % 700);
      for (size_t k = 0; k < count; ++k) space.data[k] = byte_at(piece.offset + k);
      if (count == 0) continue;
      in.received(piece.offset, count);
      piece.offset += count;
      piece.rest -= count;
      if (piece.rest > 0) continue;
      sockets[i].pop_front();
      announced[i] = false;
    }
    in.withdraw();
    if (into_place) {
      const size_t taken = in.take(memory.data() + place, std::min<size_t>(end - place, 1 + (*random)() % 2000));
      for (size_t k = 0; k < taken; ++k) EXPECT(memory[place + k] == byte_at(at + k), "byte ", at + k);
    } else {
      const size_t least = std::min<size_t>(8, end - place);
      const ccore::Bytes ready = in.peek(least);
      const size_t count = std::min(ready.size, end - place);
      for (size_t k = 0; k < count; ++k) EXPECT(ready.data[k] == byte_at(at + k), "byte ", at + k);
      in.consume(count);
    }
  }
  EXPECT(!in.announce(kBytes - 1, 4), "a frame from the past was accepted");
}

// Both directions at once, by one thread, so that every stall is a real one.
void streams_arrive(size_t sockets, uint64_t seed) {
  constexpr uint64_t kBytes = 300000;
  Random random(seed);
  Ends ends = connections(sockets, 1024);
  ccore::FaultLink links[2] = {
      ccore::FaultLink(std::make_unique<ccore::StripeLink>(std::move(ends.first), kFrame, kPeer), seed),
      ccore::FaultLink(std::make_unique<ccore::StripeLink>(std::move(ends.second), kFrame, kPeer), seed + 1)};
  std::vector<std::byte> data(kBytes);
  for (uint64_t i = 0; i < kBytes; ++i) data[i] = byte_at(i);
  std::vector<std::byte> got[2] = {std::vector<std::byte>(kBytes), std::vector<std::byte>(kBytes)};
  uint64_t sent[2] = {0, 0};
  uint64_t received[2] = {0, 0};
  constexpr uint64_t kStretch = 7001;  // what is offered never crosses its end, as at the end of a step
  const auto stretch = [](uint64_t at) { return static_cast<size_t>(std::min(kStretch - at % kStretch, kBytes - at)); };
  uint64_t quiet = 0;
  while (received[0] < kBytes || received[1] < kBytes) {
    const uint64_t before = received[0] + received[1] + sent[0] + sent[1];
    for (size_t i = 0; i < 2; ++i) {
      if (sent[i] < kBytes) sent[i] += links[i].try_send(data.data() + sent[i], stretch(sent[i]));
      const uint64_t at = received[i];
      if (at == kBytes) continue;
      if (at / kStretch % 2 == 0) {
        received[i] += links[i].try_recv(got[i].data() + at, stretch(at));
        continue;
      }
      const ccore::Bytes ready = links[i].peek(std::min<size_t>(8, stretch(at)));
      const size_t count = std::min(ready.size, stretch(at));
      std::copy(ready.data, ready.data + count, got[i].data() + at);
      links[i].consume(count);
      received[i] += count;
    }
    quiet = before == received[0] + received[1] + sent[0] + sent[1] ? quiet + 1 : 0;
    EXPECT(quiet < 10000, sockets, " sockets stand still at ", received[0], " and ", received[1]);
  }
  EXPECT(got[0] == data && got[1] == data, "other bytes over ", sockets, " sockets");
  EXPECT(sent[0] == kBytes && sent[1] == kBytes, "what arrived is not known to be sent");
}

void every_socket_takes_frames() {
  Ends ends = connections(3, 8 * 1024);
  ccore::StripeLink link(std::move(ends.first), kFrame, kPeer);
  std::vector<std::byte> data(300 * 1024);
  link.try_send(data.data(), data.size());
  link.try_send(data.data(), data.size());
  for (const ccore::Connection& end : ends.second) {
    std::byte some[64];
    EXPECT(recv(end.fd.get(), some, sizeof some, MSG_DONTWAIT) > 0, "a socket was left out");
  }
}

// A path that stands still holds the others back after a window, and costs no more memory.
void a_slow_path_bounds_what_is_held() {
  Ends ends = connections(2, 1024);
  ccore::StripeLink link(std::move(ends.first), kFrame, kPeer);
  std::vector<std::byte> place(64);
  uint64_t offset = kFrame;  // the first frame never comes
  std::vector<std::byte> frame(sizeof(ccore::FrameHeader) + kFrame);
  ccore::Seals seals = ccore::make_seals(ends.second[1].session, "frames", kPeer);
  uint64_t in_sockets = 0;
  for (int tries = 0; tries < 2000; ++tries) {
    ccore::FrameHeader header;
    header.offset = offset;
    header.length = kFrame;
    header.tag = ccore::tag_of(header, seals.out);
    std::memcpy(frame.data(), &header, sizeof header);
    const ssize_t sent = send(ends.second[1].fd.get(), frame.data(), frame.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    EXPECT(link.try_recv(place.data(), place.size()) == 0, "bytes without their predecessors");
    if (sent < 0) break;
    EXPECT(static_cast<size_t>(sent) == frame.size(), "a local socket takes such a message as a whole");
    seals.out.advance();
    offset += kFrame;
    in_sockets += kFrame;
  }
  EXPECT(in_sockets >= link.turn_bytes() - kFrame, "held back at once, after ", in_sockets);
  EXPECT(in_sockets <= link.turn_bytes() + 64 * kFrame, "not held back after ", in_sockets);
  std::vector<pollfd> fds;
  link.add_fds(POLLIN, &fds);
  EXPECT(fds.size() == 1, "a socket that is held back would end every wait");
}

void garbage_names_the_peer(Random* random) {
  for (int i = 0; i < 3000; ++i) {
    Ends ends = connections(2, 64 * 1024);
    ccore::StripeLink link(std::move(ends.first), kFrame, kPeer);
    std::vector<std::byte> noise(sizeof(ccore::FrameHeader) + (*random)() % 3000);
    for (std::byte& byte : noise) byte = static_cast<std::byte>((*random)());
    // Some of it begins well.
    if (i % 3 == 0) {
      ccore::FrameHeader header;
      header.length = static_cast<uint32_t>(1 + (*random)() % 1100);
      header.offset = (*random)() % 2;
      header.tag = ccore::tag_of(header, ccore::make_seals(ends.second[0].session, "frames", kPeer).out);
      std::memcpy(noise.data(), &header, sizeof header);
    }
    EXPECT(send(ends.second[0].fd.get(), noise.data(), noise.size(), MSG_NOSIGNAL) > 0, "send");
    ends.second.clear();
    std::vector<std::byte> place(8192);
    EXPECT(refused([&] {
             for (int tries = 0; tries < 20; ++tries) {
               if ((*random)() % 2 == 0) {
                 link.try_recv(place.data(), place.size());
               } else {
                 link.consume(link.peek(64).size);
               }
             }
           }),
           "garbage ", i, " was believed");
  }
}

void a_lost_socket_is_the_end() {
  Ends ends = connections(3, 8 * 1024);
  ccore::StripeLink link(std::move(ends.first), kFrame, kPeer);
  ends.second[1].fd.reset();
  std::byte place[8];
  const auto receives = [&] { link.try_recv(place, sizeof place); };
  // A peer that is done closes all of them: the others may still bring what is waited for, but not for ever.
  EXPECT(!refused(receives), "a socket that was closed is the end at once");
  const ccore::Deadline patience = ccore::Deadline::in_ms(20000);
  bool ended = false;
  while (!ended && !patience.passed()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ended = refused(receives);
  }
  EXPECT(ended, "a receiver goes on without a socket");
  std::vector<std::byte> data(4096);
  EXPECT(refused([&] { link.try_send(data.data(), data.size()); }), "a sender goes on without a socket");
}

void the_backlog_follows_the_speed() {
  ccore::Backlog backlog(2);
  const size_t least = backlog.limit(0);
  EXPECT(least == backlog.limit(1), "at first all are alike");
  int changes = 0;
  for (int i = 0; i < 1000; ++i) {
    backlog.sent(0, 100000);
    backlog.sent(1, 400000);
    changes += backlog.full() ? 1 : 0;
  }
  const double ratio = static_cast<double>(backlog.limit(1)) / static_cast<double>(backlog.limit(0));
  EXPECT(ratio > 3 && ratio < 5, "the limits are ", backlog.limit(0), " and ", backlog.limit(1));
  EXPECT(changes > 0 && changes < 10, changes, " changes for two steady speeds");
  for (int i = 0; i < 1000; ++i) {
    backlog.sent(1, 400000);
    backlog.full();
  }
  EXPECT(backlog.limit(0) >= 64 * 1024, "a path that comes back finds no room: ", backlog.limit(0));
}

void plans() {
  EXPECT(ccore::plan_streams({0, 4096}, 2, false, 1).streams == 1, "few cores");
  EXPECT(ccore::plan_streams({0, 4096}, 64, false, 1).streams == 4, "many cores");
  EXPECT(ccore::plan_streams({0, 4096}, 64, true, 1).streams == 1, "one host");
  EXPECT(ccore::plan_streams({0, 4096}, 2, false, 2).streams == 2, "each rail has a stream");
  EXPECT(ccore::plan_streams({3, 4096}, 2, true, 2).streams == 3, "as wished");
}

void operations(int streams) {
  setenv("CCORE_TCP_STREAMS", std::to_string(streams).c_str(), 1);
  setenv("CCORE_TCP_FRAME_BYTES", "1024", 1);
  const int nranks = streams % 2 == 0 ? 2 : 3;
  run_ranks(nranks, layout_named("tcp"), [&](int rank, cc_comm* comm) {
    for (const size_t count : {1u, 255u, 4099u, 50021u}) {
      std::vector<Data> inputs;
      for (int other = 0; other < nranks; ++other) inputs.push_back(random_input(CC_FLOAT32, count, other, 5));
      const Data& mine = inputs[static_cast<size_t>(rank)];
      Data out(mine.size());
      EXPECT(cc_all_reduce(mine.data(), out.data(), count, CC_FLOAT32, CC_SUM, comm, nullptr) == CC_SUCCESS,
             last_error(comm));
      expect_reduction(out, inputs, 0, CC_FLOAT32, CC_SUM);
      Data all(mine.size() * static_cast<size_t>(nranks));
      EXPECT(cc_all_gather(mine.data(), all.data(), count, CC_FLOAT32, comm, nullptr) == CC_SUCCESS, last_error(comm));
      for (size_t other = 0; other < inputs.size(); ++other) {
        EXPECT(std::equal(inputs[other].begin(), inputs[other].end(),
                          all.begin() + static_cast<std::ptrdiff_t>(other * mine.size())),
               "all_gather of rank ", other);
      }
    }
  });
  unsetenv("CCORE_TCP_STREAMS");
  unsetenv("CCORE_TCP_FRAME_BYTES");
}

}  // namespace

void stripes() {
  Random random(20262);
  broken_headers_are_refused();
  any_header_is_refused_or_keeps_the_rules(&random);
  for (int i = 0; i < 20; ++i) frames_come_back_in_order(&random);
  for (size_t sockets = 1; sockets <= 8; ++sockets) streams_arrive(sockets, 100 + sockets);
  every_socket_takes_frames();
  a_slow_path_bounds_what_is_held();
  garbage_names_the_peer(&random);
  a_lost_socket_is_the_end();
  the_backlog_follows_the_speed();
  plans();
  for (int streams = 1; streams <= 8; ++streams) operations(streams);
}

}  // namespace test
