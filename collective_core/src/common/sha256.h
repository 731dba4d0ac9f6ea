// SHA-256 (FIPS 180-4), HMAC (RFC 2104) and random bytes: what authenticates connections.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace ccore {

using Digest = std::array<unsigned char, 32>;

Digest sha256(const void* data, size_t size);
std::string hex_sha256(const std::string& text);
Digest hmac_sha256(const Digest& key, const void* data, size_t size);
// Takes the same time wherever the difference is.
bool equal_digests(const Digest& a, const Digest& b);
// Throws CC_ERROR_SYSTEM when the kernel has no randomness to give.
void random_bytes(void* data, size_t size);

}  // namespace ccore
