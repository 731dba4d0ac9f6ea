#include "graphs.h"

namespace ccore_nccl {
namespace {

constexpr unsigned kNoDestructorSync = 1;
constexpr unsigned kMoveReference = 1;

// Called by the driver, which allows no call of CUDA here.
void graph_is_gone(void* count) { static_cast<std::atomic<int>*>(count)->fetch_sub(1, std::memory_order_release); }

}  // namespace

void note_capture(Communicator* communicator, Stream stream) {
  const CudaDriver* driver = cuda_driver();
  int state = 0;
  uint64_t capture = 0;
  Graph graph = nullptr;
  if (driver->capture_info(stream, &state, &capture, &graph, nullptr, nullptr) != kCudaSuccess) return;
  if (state != kCapturing || communicator->captured.exchange(capture, std::memory_order_relaxed) == capture) return;
  void* object = nullptr;
  communicator->graphs.fetch_add(1, std::memory_order_relaxed);
  // If one of these fails, the count never falls, and the communicator's memory stays.
  if (driver->user_object_create(&object, &communicator->graphs, &graph_is_gone, 1, kNoDestructorSync) ==
      kCudaSuccess) {
    driver->graph_retain_user_object(graph, object, 1, kMoveReference);
  }
}

}  // namespace ccore_nccl
