#include "nvlink_class.h"

#include <algorithm>

namespace ccore_cuda {
namespace {

constexpr NvlinkRow kRows[] = {
    {NvlinkClass::kUnknown, "unknown", "NVML does not report links", {512, 256, 64, 32}, "direct"},
    {NvlinkClass::kNone, "none", "no pair has links", {64, 32, 16, 8}, "direct"},
    {NvlinkClass::kIslands,
     "islands",
     "groups of GPUs with links, and none between the groups",
     {64, 32, 16, 8},
     "direct"},
    {NvlinkClass::kMesh,
     "mesh",
     "links between some pairs, over which all GPUs are connected",
     {64, 32, 16, 8},
     "direct"},
    {NvlinkClass::kFullMesh, "full mesh", "links between all pairs, more between some", {512, 256, 64, 32}, "direct"},
    {NvlinkClass::kEqual, "equal", "every pair has the same links", {512, 256, 64, 32}, "direct"},
};

// Through the switches, a pair has as many links as its GPU with fewer.
int links_between(const NvlinkMatrix& matrix, size_t a, size_t b) {
  return matrix.links[a][b] + std::min(matrix.to_switches[a], matrix.to_switches[b]);
}

struct Pairs {
  int fewest = 0;
  int most = 0;
};

Pairs pairs_of(const NvlinkMatrix& matrix) {
  Pairs pairs;
  bool is_first = true;
  for (size_t a = 0; a < matrix.links.size(); ++a) {
    for (size_t b = a + 1; b < matrix.links.size(); ++b) {
      const int links = links_between(matrix, a, b);
      pairs.fewest = is_first ? links : std::min(pairs.fewest, links);
      pairs.most = std::max(pairs.most, links);
      is_first = false;
    }
  }
  return pairs;
}

bool is_connected(const NvlinkMatrix& matrix) {
  std::vector<bool> is_reached(matrix.links.size(), false);
  std::vector<size_t> next{0};
  is_reached[0] = true;
  size_t reached = 0;
  while (!next.empty()) {
    const size_t gpu = next.back();
    next.pop_back();
    ++reached;
    for (size_t other = 0; other < matrix.links.size(); ++other) {
      if (is_reached[other] || other == gpu || links_between(matrix, gpu, other) == 0) continue;
      is_reached[other] = true;
      next.push_back(other);
    }
  }
  return reached == matrix.links.size();
}

}  // namespace

NvlinkClass class_of(const NvlinkMatrix& matrix) {
  if (!matrix.is_known) return NvlinkClass::kUnknown;
  const Pairs pairs = pairs_of(matrix);
  if (pairs.most == 0) return NvlinkClass::kNone;
  if (pairs.fewest == pairs.most) return NvlinkClass::kEqual;
  if (pairs.fewest > 0) return NvlinkClass::kFullMesh;
  return is_connected(matrix) ? NvlinkClass::kMesh : NvlinkClass::kIslands;
}

const NvlinkRow& row_of(NvlinkClass kind) {
  return *std::find_if(std::begin(kRows), std::end(kRows), [&](const NvlinkRow& row) { return row.kind == kind; });
}

std::string describe(const NvlinkMatrix& matrix) {
  const NvlinkRow& row = row_of(class_of(matrix));
  const Pairs pairs = pairs_of(matrix);
  std::string text = std::string("NVLink ") + row.name + " (" + row.meaning;
  if (pairs.most > 0) {
    const std::string fewest = pairs.fewest == pairs.most ? "" : std::to_string(pairs.fewest) + " to ";
    text += ": " + fewest + std::to_string(pairs.most);
  }
  return text + "), " + row.shape;
}

}  // namespace ccore_cuda
