// How a header and what follows it go over a link.
#pragma once

#include <cstddef>

#include "collectives/operation.h"
#include "transport/link.h"

namespace ccore {

struct Piece {
  size_t header;   // bytes of the header that left
  size_t payload;  // bytes behind it that left with it; counted on the link
};

// What is left of the header and the first of `ready` payload bytes behind it, in one piece: a small message
// is one segment on the wire, and wakes its receiver once.
Piece send_with_header(Link* link, const Operation& operation, size_t header_done, const std::byte* payload,
                       size_t ready);
// False: it has not arrived as a whole. Throws CC_ERROR_DESYNC if it is another than `expected`.
bool receive_header(Link* link, const Operation& expected, int rank, int peer);

}  // namespace ccore
