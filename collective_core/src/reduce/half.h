// 16-bit floats to and from f32, rounding to nearest even. Arrays, because that is where the time goes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ccore {

float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);
float bf16_to_f32(uint16_t bits);
uint16_t f32_to_bf16(float value);

// Pointers need no alignment.
void f16_to_f32(const void* from, float* to, size_t count);
void f32_to_f16(const float* from, void* to, size_t count);
void bf16_to_f32(const void* from, float* to, size_t count);
void f32_to_bf16(const float* from, void* to, size_t count);

}  // namespace ccore
