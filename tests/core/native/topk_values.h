// Vectors to compress, and what becomes of them.
#pragma once

#include <cstddef>
#include <limits>
#include <random>
#include <vector>

namespace test {

using Values = std::vector<float>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kDenormal = std::numeric_limits<float>::denorm_min();

inline Values normal(size_t count, unsigned seed, float deviation = 1e-3f) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> draw(0.0f, deviation);
  Values x(count);
  for (float& value : x) value = draw(engine);
  return x;
}

// One step with error feedback.
struct Compressed {
  bool finite;
  std::vector<std::byte> payload;
  Values left;
};

}  // namespace test
