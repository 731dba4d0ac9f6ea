// Compiled with -mavx512f -mavx512bw -mavx512dq -mavx512vl, see common/simd.h.
#if defined(__GNUC__) && !defined(__clang__)
// GCC's own _mm512_undefined_ps (bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "reduce/float8.h"
#include "reduce/kernels.h"

namespace ccore {
namespace {

constexpr size_t kWidth = 64;

__m512 widen_f16(const char* from) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

void narrow_f16(char* to, __m512 value) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
}

#include "reduce/vector_kernels.inc"

}  // namespace

ReduceFunction reduce_function_avx512(cc_dtype dtype, cc_redop op, bool last) { return choose(dtype, op, last); }

}  // namespace ccore
