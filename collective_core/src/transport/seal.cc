#include "transport/seal.h"

#include <algorithm>
#include <utility>

namespace ccore {
namespace {

// One block of HKDF's expansion (RFC 5869, section 2.3): the session's key is already uniformly random.
SipKey derive(const Session& session, const std::string& purpose, bool from_connected) {
  const std::string info = "collective_core " + purpose + (from_connected ? " >" : " <") + '\x01';
  const Digest block = hmac_sha256(session.key, info.data(), info.size());
  SipKey key;
  std::copy_n(block.begin(), key.size(), key.begin());
  return key;
}

}  // namespace

void Seals::check(const void* header, size_t size, uint64_t tag, const char* what) const {
  if (tag == in.tag(header, size)) return;
  throw NotAuthentic(
      format("%s %llu from %s is not authentic: something on the way altered, lost, repeated or "
             "reordered what was sent",
             what, static_cast<unsigned long long>(in.frames() + 1), who.c_str()));
}

Seals make_seals(const Session& session, const std::string& purpose, std::string who) {
  return Seals{FrameSeal(derive(session, purpose, session.connected)),
               FrameSeal(derive(session, purpose, !session.connected)), std::move(who)};
}

}  // namespace ccore
