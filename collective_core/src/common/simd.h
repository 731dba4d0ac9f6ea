// Which vector instructions the hot loops use: chosen once, by what the CPU and its kernel offer.
//
// Code for a level stands in translation units of its own, compiled for it; the rest of the library runs on any CPU of
// the architecture. Such a unit has no external function but its entry points, and uses no inline function or template
// of a shared header: the linker keeps one copy of each, and might keep the one that other CPUs cannot run.
#pragma once

#include <vector>

namespace ccore {

// avx2: with F16C and FMA; avx512: F, BW, DQ and VL, with all of avx2. neon: Advanced SIMD of 64-bit Arm.
enum class SimdLevel { scalar, avx2, avx512, neon };

// All that this CPU offers, the best one last.
const std::vector<SimdLevel>& simd_levels();
// The best one, or what CCORE_SIMD says. Throws CC_ERROR_INVALID_ARGUMENT if that is not a level or one that the CPU lacks.
SimdLevel simd_level();

}  // namespace ccore
