// Compiled with -mavx2 -mf16c, see common/simd.h.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "reduce/float8.h"
#include "reduce/kernels.h"

namespace ccore {
namespace {

constexpr size_t kWidth = 32;

__m256 widen_f16(const char* from) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))); }

void narrow_f16(char* to, __m256 value) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
}

#include "reduce/vector_kernels.inc"

}  // namespace

ReduceFunction reduce_function_avx2(cc_dtype dtype, cc_redop op, bool last) { return choose(dtype, op, last); }

}  // namespace ccore
