// The class of a machine's NVLinks, for matrices as nvidia-smi topo -m and nvidia-smi nvlink report them.
#include <string>
#include <utility>
#include <vector>

#include "cases.h"
#include "expect.h"
#include "nvlink_class.h"

namespace test {
namespace {

using namespace ccore_cuda;

using Rows = std::vector<std::vector<int>>;

Rows no_links(size_t gpus) { return Rows(gpus, std::vector<int>(gpus, 0)); }

Rows all_pairs(size_t gpus, int links) {
  Rows rows(gpus, std::vector<int>(gpus, links));
  for (size_t gpu = 0; gpu < gpus; ++gpu) rows[gpu][gpu] = 0;
  return rows;
}

// Of a DGX-1V, nvidia-smi topo -m: NV1 and NV2, and SYS between the halves.
const Rows kHybridCubeMesh = {
    {0, 1, 1, 2, 2, 0, 0, 0}, {1, 0, 2, 1, 0, 2, 0, 0}, {1, 2, 0, 2, 0, 0, 1, 0}, {2, 1, 2, 0, 0, 0, 0, 1},
    {2, 0, 0, 0, 0, 1, 1, 2}, {0, 2, 0, 0, 1, 0, 2, 1}, {0, 0, 1, 0, 1, 2, 0, 2}, {0, 0, 0, 1, 2, 1, 2, 0},
};
// 4 A100 PCIe with bridges between 0 and 1 and between 2 and 3: NV12.
const Rows kTwoBridges = {{0, 12, 0, 0}, {12, 0, 0, 0}, {0, 0, 0, 12}, {0, 0, 12, 0}};

struct Case {
  const char* machine;
  NvlinkMatrix matrix;
  NvlinkClass kind;
  std::string text;
};

std::vector<Case> cases() {
  Rows quad(4, std::vector<int>(4));  // GPUs 0 to 3 of the DGX-1V
  for (size_t a = 0; a < 4; ++a) {
    for (size_t b = 0; b < 4; ++b) quad[a][b] = kHybridCubeMesh[a][b];
  }
  return {
      {"DGX H100",
       {no_links(8), std::vector<int>(8, 18)},
       NvlinkClass::kEqual,
       "NVLink equal (every pair has the same links: 18), direct"},
      {"2 GPUs of a DGX A100", {no_links(2), {12, 12}}, NvlinkClass::kEqual, "links: 12)"},
      {"DGX H100, two links of a GPU down",
       {no_links(4), {18, 18, 16, 18}},
       NvlinkClass::kFullMesh,
       "more between some: 16 to 18)"},
      {"DGX H100, a GPU without links", {no_links(4), {18, 18, 0, 18}}, NvlinkClass::kIslands, "0 to 18)"},
      {"HGX A100 with 4 GPUs", {all_pairs(4, 4), {0, 0, 0, 0}}, NvlinkClass::kEqual, "links: 4)"},
      {"4 A100 PCIe with two bridges", {kTwoBridges, {0, 0, 0, 0}}, NvlinkClass::kIslands, "NVLink islands"},
      {"8 V100, hybrid cube mesh", {kHybridCubeMesh, std::vector<int>(8, 0)}, NvlinkClass::kMesh, "0 to 2)"},
      {"half of the hybrid cube mesh", {quad, {0, 0, 0, 0}}, NvlinkClass::kFullMesh, "1 to 2)"},
      {"8 L40S", {no_links(8), std::vector<int>(8, 0)}, NvlinkClass::kNone, "NVLink none (no pair has links), direct"},
      {"no NVML", {no_links(2), {0, 0}, false}, NvlinkClass::kUnknown, "NVLink unknown"},
  };
}

}  // namespace

void cuda_nvlink() {
  for (const Case& given : cases()) {
    const std::string text = describe(given.matrix);
    EXPECT(class_of(given.matrix) == given.kind, given.machine, ": ", text);
    EXPECT(row_of(given.kind).kind == given.kind, given.machine);
    EXPECT(contains(text, given.text), given.machine, ": ", text);
  }
}

}  // namespace test
