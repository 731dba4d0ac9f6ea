#include "common/siphash.h"

#include <cstring>

namespace ccore {
namespace {

uint64_t rotate_left(uint64_t value, int bits) { return value << bits | value >> (64 - bits); }

// Up to 8 bytes, the least significant one first.
uint64_t load(const unsigned char* bytes, size_t count = 8) {
  uint64_t word = 0;
  if (count > 0) std::memcpy(&word, bytes, count);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  word = __builtin_bswap64(word);
#endif
  return word;
}

// The four words and the names of its steps are the paper's.
class SipHash {
 public:
  explicit SipHash(const SipKey& key) {
    const uint64_t k0 = load(key.data());
    const uint64_t k1 = load(key.data() + 8);
    v0_ ^= k0;
    v1_ ^= k1;
    v2_ ^= k0;
    v3_ ^= k1;
  }

  void compress(uint64_t word) {
    v3_ ^= word;
    round();
    round();
    v0_ ^= word;
  }

  // The last bytes of a message, `before` bytes of which were compressed.
  uint64_t finish(const unsigned char* at, size_t size, size_t before) {
    const uint64_t all = before + size;
    for (; size >= 8; at += 8, size -= 8) compress(load(at));
    compress(all << 56 | load(at, size));
    v2_ ^= 0xff;
    for (int i = 0; i < 4; ++i) round();
    return v0_ ^ v1_ ^ v2_ ^ v3_;
  }

 private:
  void round() {
    v0_ += v1_, v1_ = rotate_left(v1_, 13), v1_ ^= v0_, v0_ = rotate_left(v0_, 32);
    v2_ += v3_, v3_ = rotate_left(v3_, 16), v3_ ^= v2_;
    v0_ += v3_, v3_ = rotate_left(v3_, 21), v3_ ^= v0_;
    v2_ += v1_, v1_ = rotate_left(v1_, 17), v1_ ^= v2_, v2_ = rotate_left(v2_, 32);
  }

  uint64_t v0_ = 0x736f6d6570736575;
  uint64_t v1_ = 0x646f72616e646f6d;
  uint64_t v2_ = 0x6c7967656e657261;
  uint64_t v3_ = 0x7465646279746573;
};

}  // namespace

uint64_t siphash24(const SipKey& key, const void* data, size_t size) {
  return SipHash(key).finish(static_cast<const unsigned char*>(data), size, 0);
}

uint64_t siphash24(const SipKey& key, uint64_t first, const void* data, size_t size) {
  SipHash hash(key);
  hash.compress(first);
  return hash.finish(static_cast<const unsigned char*>(data), size, sizeof first);
}

}  // namespace ccore
