#include "transport/tcp/frame.h"

#include <cstring>

#include "common/error.h"

namespace ccore {
namespace {

constexpr size_t kTaggedBytes = sizeof(FrameHeader) - kTagBytes;

}  // namespace

uint64_t tag_of(const FrameHeader& header, const FrameSeal& seal) { return seal.tag(&header, kTaggedBytes); }

FrameHeader parse_frame(const std::array<std::byte, sizeof(FrameHeader)>& bytes, const FrameRules& rules,
                        const Seals& seals) {
  FrameHeader header;
  const uint32_t magic = header.magic;
  std::memcpy(&header, bytes.data(), sizeof header);
  seals.check(&header, kTaggedBytes, header.tag, "frame");
  const auto refuse = [&](const char* what, uint64_t got, uint64_t least, uint64_t most) {
    throw Error(CC_ERROR_REMOTE, format("%s sent a malformed frame: %s is %llu, expected %llu to %llu",
                                        seals.who.c_str(), what, static_cast<unsigned long long>(got),
                                        static_cast<unsigned long long>(least), static_cast<unsigned long long>(most)));
  };
  if (header.magic != magic) refuse("magic", header.magic, magic, magic);
  if (header.length < 1 || header.length > rules.most_length) refuse("length", header.length, 1, rules.most_length);
  if (header.offset < rules.least_offset || header.offset > rules.most_offset) {
    refuse("offset", header.offset, rules.least_offset, rules.most_offset);
  }
  return header;
}

}  // namespace ccore
