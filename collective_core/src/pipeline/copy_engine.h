// What copies between the memory of a device and that of the host while the caller does something else.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ccore {

class CopyEngine {
 public:
  CopyEngine() = default;
  virtual ~CopyEngine() = default;
  CopyEngine(const CopyEngine&) = delete;
  CopyEngine& operator=(const CopyEngine&) = delete;

  // bytes > 0. Return a number by which poll knows the copy; throw Error if it has not started.
  virtual uint64_t start_to_host(void* host, const void* device, size_t bytes) = 0;
  virtual uint64_t start_to_device(void* device, const void* host, size_t bytes) = 0;
  // Whether the copy has ended. Throws Error if it has failed; then it no longer touches memory. Not called again
  // for it after either.
  virtual bool poll(uint64_t copy) = 0;
};

}  // namespace ccore
