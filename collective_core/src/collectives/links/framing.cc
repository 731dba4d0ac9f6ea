#include "collectives/links/framing.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/error.h"
#include "transport/seal.h"

namespace ccore {
namespace {

// The most payload that travels in one piece with the header before it.
constexpr size_t kMostInlineBytes = 16 * 1024;

size_t header_bytes(const Seals* seals) { return sizeof(Operation) + (seals ? kTagBytes : 0); }

}  // namespace

Piece send_with_header(Link* link, const Operation& operation, HeaderProgress* header, const std::byte* payload,
                       size_t ready) {
  std::array<std::byte, sizeof(Operation) + kTagBytes + kMostInlineBytes> piece;
  std::memcpy(piece.data(), &operation, sizeof operation);
  Seals* const seals = link->header_seals();
  const size_t size = header_bytes(seals);
  if (seals) {
    // The same at every attempt: it is only counted when it has left.
    const uint64_t tag = seals->out.tag(&operation, sizeof operation);
    std::memcpy(piece.data() + sizeof operation, &tag, sizeof tag);
  }
  const size_t inlined = std::min({link->inline_bytes(payload, ready), kMostInlineBytes, ready});
  if (inlined > 0) std::memcpy(piece.data() + size, payload, inlined);
  const size_t rest = size - header->bytes;
  const size_t n = link->try_send(piece.data() + header->bytes, rest + inlined);
  const size_t of_header = std::min(n, rest);
  header->bytes += of_header;
  header->whole = header->bytes == size;
  if (header->whole && seals) seals->out.advance();
  link->payload_bytes_sent += n - of_header;
  return Piece{of_header, n - of_header};
}

std::optional<Operation> peek_header(Link* link) {
  const Seals* const seals = link->header_seals();
  const size_t size = header_bytes(seals);
  const Bytes ready = link->peek(size);
  if (ready.size < size) return std::nullopt;
  Operation received;
  std::memcpy(&received, ready.data, sizeof received);
  if (seals) {
    uint64_t tag = 0;
    std::memcpy(&tag, ready.data + sizeof received, sizeof tag);
    seals->check(&received, sizeof received, tag, "the header of message");
  }
  return received;
}

bool receive_header(Link* link, const Operation& expected, int rank, int peer) {
  const std::optional<Operation> received = peek_header(link);
  if (!received) return false;
  Seals* const seals = link->header_seals();
  if (seals) seals->in.advance();
  link->consume(header_bytes(seals));
  require_same(expected, rank, *received, peer);
  return true;
}

}  // namespace ccore
