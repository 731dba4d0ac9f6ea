// MSTopK: the band of magnitudes around the k-th largest.
#pragma once

#include <cstdint>

namespace ccore_cuda::topk {

// Magnitudes [lower, upper): of the elements in this range only the first ones are taken.
struct Band {
  uint32_t lower;
  uint32_t upper;
};

// MSTopK's search, as src/compress/mstopk.cc makes it. Its counts only matter as less, equal or more than k, which
// follows from the k-th and the next largest magnitude (1 + it; 0: there is none).
__device__ inline Band search(double mean, uint32_t largest, uint32_t kth, uint32_t beneath, int samplings) {
  Band band{0, largest + 1};
  double low = 0, high = static_cast<double>(__uint_as_float(largest)), middle = mean;
  for (int i = 0; i <= samplings; ++i, middle = low + (high - low) / 2) {
    const uint32_t threshold = __float_as_uint(static_cast<float>(middle));
    const bool enough = threshold <= kth, few = threshold >= beneath;
    if (few) {
      band.upper = min(band.upper, threshold);
      high = middle;
    }
    if (enough) {
      band.lower = max(band.lower, threshold);
      low = middle;
    }
    if (few && enough) break;
  }
  return band;
}

}  // namespace ccore_cuda::topk
