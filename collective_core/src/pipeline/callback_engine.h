// A copy engine of the caller's, behind the C ABI.
#pragma once

#include "collective_core/collective_core.h"
#include "pipeline/copy_engine.h"

namespace ccore {

class CallbackEngine : public CopyEngine {
 public:
  // Throws CC_ERROR_INVALID_ARGUMENT if something is missing.
  explicit CallbackEngine(const cc_copy_engine& callbacks);

  uint64_t start_to_host(void* host, const void* device, size_t bytes) override;
  uint64_t start_to_device(void* device, const void* host, size_t bytes) override;
  bool poll(uint64_t copy) override;

 private:
  cc_copy_engine callbacks_;
};

}  // namespace ccore
