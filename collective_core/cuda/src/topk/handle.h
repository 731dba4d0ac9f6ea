// A handle of the C ABI for top-k: scratch memory of one device, and the order of operations that share it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "topk/select.h"
#include "topk/sum.h"

namespace ccore_cuda::topk {

// Device memory that grows, and is zero when it has grown.
class Memory {
 public:
  Memory() = default;
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  bool has(size_t bytes) const { return bytes <= bytes_; }
  // Nothing may use it.
  void grow(size_t bytes);
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

class Handle {
 public:
  Handle(size_t count, size_t kept);
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  void select(const Input& input, const Plan& plan, const Output& output, cudaStream_t stream);
  void sum(const SparseSum& request, cudaStream_t stream);
  // Whether no sum met a wrong index, as far as the device has come.
  bool is_sound() const { return *static_cast<volatile const uint32_t*>(broken_) == 0; }

 private:
  // Makes the stream wait for the last operation; grows memory before that.
  void enter(cudaStream_t stream, Memory* memory, size_t bytes);
  void leave(cudaStream_t stream);

  Memory board_;
  Memory list_;
  Memory sums_;
  Memory claims_;
  uint32_t* broken_ = nullptr;  // pinned host memory that the device writes
  cudaEvent_t last_ = nullptr;
  cudaStream_t stream_ = nullptr;
  bool used_ = false;
};

}  // namespace ccore_cuda::topk
