// What a reduction must give, computed another way: f64 for floats with an error bound, modulo 2^64 for
// integers.
#pragma once

#include <cstddef>
#include <vector>

#include "collective_core/collective_core.h"

namespace test {

using Data = std::vector<unsigned char>;

// Random values of the type; the same for the same rank and seed.
Data random_input(cc_dtype dtype, size_t count, int rank, unsigned seed);
// Checks `got` against the reduction of inputs (one per rank) from element `begin` on.
void expect_reduction(const Data& got, const std::vector<Data>& inputs, size_t begin, cc_dtype dtype, cc_redop op);

constexpr cc_dtype kDtypes[] = {CC_FLOAT64, CC_FLOAT32, CC_FLOAT16, CC_BFLOAT16, CC_INT8,        CC_UINT8,
                                CC_INT32,   CC_UINT32,  CC_INT64,   CC_UINT64,   CC_FLOAT8_E4M3, CC_FLOAT8_E5M2};
constexpr cc_redop kRedops[] = {CC_SUM, CC_PROD, CC_MIN, CC_MAX, CC_AVG};

}  // namespace test
