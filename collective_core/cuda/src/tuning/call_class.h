// The kinds of calls for each of which the tuner makes one choice. Only what all ranks pass alike counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "collective_core/collective_core.h"

namespace ccore_cuda {

constexpr int kCollectives = 4;  // those of cc_cuda_collective
constexpr int kTypeClasses = 3;
constexpr int kSizeClasses = 48;
constexpr int kCallClasses = kCollectives * kTypeClasses * kSizeClasses;

struct CallClass {
  int collective;
  int type;  // 0: the data is only moved; 1: reduced as it is; 2: of fewer than 32 bits and reduced in a wider type
  int size;  // the power of two at or below the bytes of all ranks' data

  int index() const { return (collective * kTypeClasses + type) * kSizeClasses + size; }
};

CallClass class_of_index(int index);

// bytes: of the larger of the two buffers of a rank, more than 0.
CallClass class_of(int collective, cc_dtype dtype, size_t bytes);

// "all_reduce"; the names of the cache of the library for the host.
const char* name_of_collective(int collective);
// The collective of that name, or -1.
int collective_of(const std::string& name);
const char* name_of_types(int type);

}  // namespace ccore_cuda
