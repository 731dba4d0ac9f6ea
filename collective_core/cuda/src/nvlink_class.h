// The shape of the NVLinks between GPUs, as a class, and what follows from it. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ccore_cuda {

struct NvlinkMatrix {
  std::vector<std::vector<int>> links;  // between each two GPUs, directly
  std::vector<int> to_switches;         // of each GPU
  bool is_known = true;                 // false: NVML could not be read
};

enum class NvlinkClass { kUnknown, kNone, kIslands, kMesh, kFullMesh, kEqual };

// A row for each class.
struct NvlinkRow {
  NvlinkClass kind;
  const char* name;
  const char* meaning;
  // The largest message in packets, in KiB, of up to 2, 4, 8, and more ranks. PCIe carries less than NVLink, and packets
  // double the data.
  size_t packet_kib[4];
  // How the kernels of all ranks move large data. A column of one word: algorithms.md has the reasons.
  const char* shape;
};

NvlinkClass class_of(const NvlinkMatrix& matrix);
const NvlinkRow& row_of(NvlinkClass kind);
// "NVLink equal (every pair has the same links: 18), direct"
std::string describe(const NvlinkMatrix& matrix);

}  // namespace ccore_cuda
