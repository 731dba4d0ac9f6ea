// usage: frame_tag ROUNDS BYTES...; prints "BYTES nanoseconds", a line per round and size of a header, interleaved.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "common/siphash.h"

int main(int argc, char** argv) {
  constexpr int kTags = 5000;
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 1;
  const ccore::SipKey key = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  uint64_t tag = 0;
  for (int round = 0; round < rounds; ++round) {
    for (int i = 2; i < argc; ++i) {
      std::vector<unsigned char> header(static_cast<size_t>(std::atoi(argv[i])), 7);
      const auto began = std::chrono::steady_clock::now();
      // Each waits for the one before, as nothing waits for a tag in a loop that does not.
      for (int n = 0; n < kTags; ++n) tag = ccore::siphash24(key, tag, header.data(), header.size());
      const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - began;
      std::printf("%zu %.3f\n", header.size(), took.count() / kTags);
    }
  }
  return tag == 0 ? 1 : 0;  // or all of it could be left out
}
