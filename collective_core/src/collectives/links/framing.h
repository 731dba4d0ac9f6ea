// How a header and what follows it go over a link.
#pragma once

#include <cstddef>
#include <optional>

#include "collectives/operation.h"
#include "transport/link.h"

namespace ccore {

// The header on its way: the Operation and, on a link with seals, the tag that proves it.
struct HeaderProgress {
  size_t bytes = 0;
  bool whole = false;
};

struct Piece {
  size_t header;   // bytes of the header that left
  size_t payload;  // bytes behind it that left with it; counted on the link
};

// What is left of the header and the first of `ready` payload bytes behind it, in one piece: a small message
// is one segment on the wire, and wakes its receiver once.
Piece send_with_header(Link* link, const Operation& operation, HeaderProgress* header, const std::byte* payload,
                       size_t ready);
// The next header, which stays on the link; nothing if it has not arrived as a whole. Throws NotAuthentic.
std::optional<Operation> peek_header(Link* link);
// False: it has not arrived as a whole. Throws NotAuthentic, and CC_ERROR_DESYNC if it is another than `expected`.
bool receive_header(Link* link, const Operation& expected, int rank, int peer);

}  // namespace ccore
