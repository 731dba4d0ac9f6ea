// Which ranks can use the memory of which others: found by doing it. cudaDeviceCanAccessPeer() cannot be asked about a
// device that CUDA_VISIBLE_DEVICES hides, although its memory can be mapped, and it promises nothing of the data: behind
// an IOMMU, or with ACS enabled, mapped memory of a peer reads as something else.
#pragma once

#include <vector>

#include "meeting.h"
#include "path_choice.h"

namespace ccore_cuda {

// Fills the matrices of a table whose ranks are known. Collective, on the current device; equal on all ranks. Fails on all
// ranks if one has no memory for it.
void probe_peers(const Meeting& meeting, RankTable* table);

}  // namespace ccore_cuda
