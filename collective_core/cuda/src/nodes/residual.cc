#include "nodes/residual.h"

#include <cstring>

namespace ccore_cuda::nodes {

Residual::~Residual() {
  try {
    clear();
  } catch (const Error&) {
    // The driver is shutting down, and the memory goes with the process.
  }
}

void Residual::clear() {
  if (!device_) return;
  const DeviceScope scope(*device_);
  buffer_.clear();
}

void Residual::take_shape(const Shape& shape, cudaStream_t stream) {
  const DeviceContext current = DeviceContext::current();
  if (!device_ || *device_ != current) {
    clear();
    device_ = current;
    shape_ = Shape{};
    steps_ = 0;
  }
  if (shape.count == shape_.count && shape.dtype == shape_.dtype && shape.begin == shape_.begin &&
      shape.part == shape_.part) {
    return;
  }
  steps_ = 0;
  check(cudaStreamSynchronize(stream), "waiting for the last operation of a residual");
  // Each half begins at a multiple of 256 bytes.
  const size_t half = (shape.part * sizeof(float) + 255) / 256 * 256;
  char* const data = shape.part > 0 ? buffer_.of(2 * half) : nullptr;
  memory_[0] = reinterpret_cast<float*>(data);
  memory_[1] = data ? reinterpret_cast<float*>(data + half) : nullptr;
  current_ = 0;
  shape_ = shape;
}

void Residual::read(float* values) const {
  if (!device_) return;
  const DeviceScope scope(*device_);
  check(cudaDeviceSynchronize(), "waiting for the last operation of a residual");
  const size_t bytes = shape_.part * sizeof(float);
  if (this->values()) {
    check(cudaMemcpy(values, this->values(), bytes, cudaMemcpyDeviceToHost), "copying a residual to the host");
  } else if (bytes > 0) {
    std::memset(values, 0, bytes);
  }
}

void Residual::commit() {
  current_ = 1 - current_;
  ++steps_;
}

}  // namespace ccore_cuda::nodes
