// One rank's part of a compressed exchange: acc = g + r; the payload is the encoded top k of acc; what is left
// of acc is the next residual. Pure: the same inputs give the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/simd.h"
#include "compress/candidates.h"
#include "compress/topk_plan.h"

namespace ccore {

// Memory that is kept between calls.
struct CompressScratch {
  Candidates candidates;
  std::vector<uint32_t> indices;
};

// acc[i] = gradient[i] + residual[i] in f32; a null residual is zero. False if one of them is not finite;
// acc is then incomplete. Also collects the candidates of a later compress() of the same acc.
// The level changes the speed, never a bit.
bool accumulate(const void* gradient, cc_dtype dtype, const float* residual, size_t count, const TopkSettings& settings,
                SimdLevel level, CompressScratch* scratch, float* acc);

// Writes the payload of kept_of(count, settings.ratio) elements of acc, and leaves in acc what is not sent.
void compress(const TopkSettings& settings, size_t count, CompressScratch* scratch, float* acc, std::byte* payload);

}  // namespace ccore
