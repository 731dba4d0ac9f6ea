// Elements at any address. Compilers turn this into plain, vectorised, unaligned loads and stores.
#pragma once

#include <cstddef>
#include <cstring>

namespace ccore {

template <typename T>
T load(const void* data, size_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * sizeof(T), sizeof value);
  return value;
}

template <typename T>
void store(void* data, size_t index, T value) {
  std::memcpy(static_cast<char*>(data) + index * sizeof(T), &value, sizeof value);
}

}  // namespace ccore
