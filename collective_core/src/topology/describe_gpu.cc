#include "topology/describe_gpu.h"

#include <algorithm>
#include <map>

namespace ccore {
namespace {

std::string counted(int count, const std::string& what) {
  return std::to_string(count) + " NVLink" + (count == 1 ? "" : "s") + " to " + what;
}

std::string describe_links(const std::optional<NvLinks>& links) {
  if (!links) return ", NVLinks unknown";
  std::map<std::string, int> by_gpu;
  for (const std::string& gpu : links->to_gpus) ++by_gpu[gpu];
  std::string text;
  if (links->to_switches > 0) text += ", " + counted(links->to_switches, "switches");
  for (const auto& [gpu, count] : by_gpu) text += ", " + counted(count, gpu);
  return text.empty() ? ", no NVLink" : text;
}

}  // namespace

std::string describe(const PciPlace& gpu, const std::optional<NvLinks>& links, const std::vector<Nic>& nics) {
  std::string text = gpu.address + ": NUMA node " + (gpu.numa_node < 0 ? "unknown" : std::to_string(gpu.numa_node)) +
                     describe_links(links);
  std::vector<const Nic*> nearest;
  for (const Nic& nic : nics) nearest.push_back(&nic);
  std::stable_sort(nearest.begin(), nearest.end(), [&](const Nic* one, const Nic* other) {
    return distance(gpu, one->place) < distance(gpu, other->place);
  });
  const char* separator = "; ";
  for (const Nic* nic : nearest) {
    text += separator + nic->name + " " + name_of(distance(gpu, nic->place));
    separator = ", ";
  }
  return text;
}

}  // namespace ccore
