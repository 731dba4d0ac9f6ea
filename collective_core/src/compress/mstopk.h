// MSTopK (Shi et al., "Towards Scalable Distributed Training of Deep Learning on Public Cloud Clusters", MLSys
// 2021): a search for a threshold instead of an order. Approximate, by a band that shrinks with every sampling.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ccore {

// What the search ends with: at most k magnitudes are >= upper, at least k are >= lower, lower <= upper.
// Both are magnitudes; upper may be above all of them.
struct Band {
  float lower;
  float upper;
};

// The first threshold is the mean; then `samplings` halvings of the range between it and the largest magnitude,
// or, if fewer than k magnitudes are above the mean (which the paper leaves out), between zero and it. Each is a
// pass that counts. The band is at most that range / 2^samplings wide, up to the rounding of f32. Finite x,
// 1 <= k <= count.
Band mstopk_band(const float* x, size_t count, size_t k, int samplings);

// Exactly k elements in the order of their indices: all from `upper` up, and of those in the band as many as
// are missing. The paper takes a random run of the band; here it is the first elements of the band, so that
// runs reproduce.
void select_mstopk(const float* x, size_t count, size_t k, int samplings, uint32_t* indices);

}  // namespace ccore
