// SipHash-2-4: a keyed 64-bit hash made for short messages (Aumasson and Bernstein, "SipHash: a fast short-input
// PRF", INDOCRYPT 2012). Who does not have the key can neither make the hash of a message nor change it to fit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace ccore {

using SipKey = std::array<unsigned char, 16>;

uint64_t siphash24(const SipKey& key, const void* data, size_t size);
// The same of a message that begins with `first`, as 8 bytes with the least significant one first.
uint64_t siphash24(const SipKey& key, uint64_t first, const void* data, size_t size);

}  // namespace ccore
