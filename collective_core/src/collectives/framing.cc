#include "collectives/framing.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/error.h"

namespace ccore {
namespace {

// The most payload that travels in one piece with the header before it.
constexpr size_t kMostInlineBytes = 16 * 1024;

}  // namespace

Piece send_with_header(Link* link, const Operation& operation, size_t header_done, const std::byte* payload,
                       size_t ready) {
  std::array<std::byte, sizeof(Operation) + kMostInlineBytes> piece;
  const size_t rest = sizeof(Operation) - header_done;
  const size_t inlined = std::min({link->inline_bytes(), kMostInlineBytes, ready});
  std::memcpy(piece.data(), reinterpret_cast<const std::byte*>(&operation) + header_done, rest);
  if (inlined > 0) std::memcpy(piece.data() + rest, payload, inlined);
  const size_t n = link->try_send(piece.data(), rest + inlined);
  const size_t header = std::min(n, rest);
  link->payload_bytes_sent += n - header;
  return Piece{header, n - header};
}

bool receive_header(Link* link, const Operation& expected, int rank, int peer) {
  const Bytes ready = link->peek(sizeof(Operation));
  if (ready.size < sizeof(Operation)) return false;
  Operation received;
  std::memcpy(&received, ready.data, sizeof received);
  link->consume(sizeof received);
  require_same(expected, rank, received, peer);
  return true;
}

}  // namespace ccore
