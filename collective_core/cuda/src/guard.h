// The border of the C ABI: exceptions become results, and their texts what cc_cuda_last_error returns.
#pragma once

#include <new>
#include <string>

#include "error.h"

namespace ccore_cuda {

// Of the calling thread.
std::string& last_error();

template <typename Body>
cc_result guarded(Body body) {
  try {
    body();
    return CC_SUCCESS;
  } catch (const Error& error) {
    last_error() = error.what();
    return error.result();
  } catch (const std::bad_alloc&) {
    last_error() = "out of host memory";
    return CC_ERROR_SYSTEM;
  } catch (const std::exception& error) {
    last_error() = error.what();
    return CC_ERROR_INTERNAL;
  }
}

inline void require(bool condition, const char* text) {
  if (!condition) throw Error(CC_ERROR_INVALID_ARGUMENT, text);
}

}  // namespace ccore_cuda
