#include "paths/path.h"

namespace ccore_cuda {

Placed place(const PathContext& context, const void* input, void* output, size_t bytes) {
  Placed placed{};
  // Peers read and write packs of 16 bytes.
  const auto located = [&](const void* memory) {
    return context.maps_buffers && reinterpret_cast<uintptr_t>(memory) % 16 == 0
               ? context.buffers->locate(memory, bytes)
               : 0;
  };
  placed.input_at = located(input);
  placed.output_at = output == input ? placed.input_at : located(output);
  placed.stages_input = placed.input_at == 0;
  placed.stages_output = placed.output_at == 0;
  if (placed.stages_input || placed.stages_output) {
    const Staging::Place staged = context.staging->reserve(bytes);
    placed.staging = staged.memory;
    // A share of the staged input has been read when the result is written over it.
    if (placed.stages_input) placed.input_at = staged.location;
    if (placed.stages_output) placed.output_at = staged.location;
  }
  return placed;
}

}  // namespace ccore_cuda
