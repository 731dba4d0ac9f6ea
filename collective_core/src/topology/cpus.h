// The CPUs that the ranks of a host may use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ccore {

// Of one process, by the kernel's numbers below 1024; travels as bytes.
struct CpuSet {
  std::array<uint64_t, 16> words{};

  int count() const;
  void add(int cpu) { words[static_cast<size_t>(cpu) / 64] |= uint64_t{1} << (cpu % 64); }
};

CpuSet usable_cpus();

// CPUs that these processes have together. A launcher that binds each rank to a core of its own leaves each of them one,
// and still none waits for another's. Less than the number of processes if not every one can have its own.
int cores_of(std::vector<CpuSet> processes);

}  // namespace ccore
