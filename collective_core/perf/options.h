// The command line: nccl-tests' flags, as far as they make sense for host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "collective_core/collective_core.h"

namespace ccore_perf {

// A command line that cannot be obeyed; the text says why.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct NamedDtype {
  cc_dtype dtype;
  const char* name;  // as nccl-tests calls it
};
struct NamedRedop {
  cc_redop op;
  const char* name;
};

struct Options {
  size_t min_bytes = 32u << 20;
  size_t max_bytes = 32u << 20;
  size_t step_bytes = 1u << 20;
  size_t step_factor = 1;
  int iterations = 20;
  int warmup_iterations = 1;
  bool check = true;
  int average = 1;  // time over ranks: 0 rank 0, 1 mean, 2 min, 3 max
  int root = 0;  // kEveryRoot: one row for each rank as the root
  bool registered = false;  // buffers from cc_mem_alloc, registered
  int64_t timeout_s = 0;
  bool help = false;
  std::vector<NamedDtype> dtypes;
  std::vector<NamedRedop> redops;
};

constexpr int kEveryRoot = -1;

Options parse_options(int argc, char** argv);
std::string usage_text(const char* program);

}  // namespace ccore_perf
