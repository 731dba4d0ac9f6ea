// What makes a frame believable: a tag behind its header that only the peer can have made, for this connection, this
// direction and this place in the order of frames. See docs/wire.md for what it covers and what it does not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/error.h"
#include "common/sha256.h"
#include "common/siphash.h"

namespace ccore {

// The key that the two ends of one connection made of the secret and of their random numbers, in the handshake.
struct Session {
  Digest key{};
  bool connected = false;  // this end is the one that connected; the other one accepted
};

// Bytes from another sender than the peer, or altered, lost, repeated or reordered on their way. CC_ERROR_REMOTE.
class NotAuthentic : public Error {
 public:
  explicit NotAuthentic(const std::string& text) : Error(CC_ERROR_REMOTE, text) {}
};

// Counts and tags the frames of one direction of a connection.
class FrameSeal {
 public:
  explicit FrameSeal(const SipKey& key) : key_(key) {}

  // The tag of the next frame, if this is its header.
  uint64_t tag(const void* header, size_t size) const { return siphash24(key_, frames_, header, size); }
  // That frame has left, or was accepted.
  void advance() { ++frames_; }
  uint64_t frames() const { return frames_; }

 private:
  SipKey key_;
  uint64_t frames_ = 0;
};

constexpr size_t kTagBytes = sizeof(uint64_t);

struct Seals {
  FrameSeal out;
  FrameSeal in;
  std::string who;  // the peer, and maybe which of the connections to it, in words

  // Throws NotAuthentic if this is not the header of the next frame from the peer. what: a frame, in words.
  void check(const void* header, size_t size, uint64_t tag, const char* what) const;
};

// Of the headers of operations; see collectives/links/framing.h.
constexpr const char* kHeaderPurpose = "operations";
// purpose: what the frames are; on one connection, each purpose has keys of its own.
Seals make_seals(const Session& session, const std::string& purpose, std::string who);

}  // namespace ccore
