#include "topology/cpus.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

namespace ccore {
namespace {

constexpr int kMostCpus = 1024;
static_assert(kMostCpus == CPU_SETSIZE, "the kernel's set fits ours");

// Removes the first of `wanted` from *free; false: there is none.
bool take_one(const CpuSet& wanted, CpuSet* free) {
  for (size_t i = 0; i < wanted.words.size(); ++i) {
    const uint64_t common = wanted.words[i] & free->words[i];
    if (common == 0) continue;
    free->words[i] &= ~(common & (~common + 1));
    return true;
  }
  return false;
}

}  // namespace

int CpuSet::count() const {
  return std::accumulate(words.begin(), words.end(), 0,
                         [](int sum, uint64_t word) { return sum + __builtin_popcountll(word); });
}

CpuSet usable_cpus() {
  CpuSet all;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int cpu = 0; cpu < kMostCpus; ++cpu) {
      if (CPU_ISSET(static_cast<size_t>(cpu), &set)) all.add(cpu);
    }
    return all;
  }
  const long online = std::clamp<long>(sysconf(_SC_NPROCESSORS_ONLN), 1, kMostCpus);
  for (int cpu = 0; cpu < online; ++cpu) all.add(cpu);
  return all;
}

int cores_of(std::vector<CpuSet> processes) {
  CpuSet together;
  for (const CpuSet& one : processes) {
    for (size_t i = 0; i < one.words.size(); ++i) together.words[i] |= one.words[i];
  }
  const int all = together.count();
  // Those that may choose least choose first. Sets that are equal, disjoint or nested, as launchers make them, are
  // served as well as possible by it.
  std::stable_sort(processes.begin(), processes.end(),
                   [](const CpuSet& a, const CpuSet& b) { return a.count() < b.count(); });
  int served = 0;
  for (const CpuSet& one : processes) served += take_one(one, &together) ? 1 : 0;
  return served < static_cast<int>(processes.size()) ? served : all;
}

}  // namespace ccore
