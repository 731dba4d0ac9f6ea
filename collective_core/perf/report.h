// nccl-tests' output, column for column, so that its parsers read ours.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "options.h"

namespace ccore_perf {

struct RankLine {
  int rank;
  long pid;
  std::string host;
  int device;          // local rank
  std::string memory;  // where the buffers are: stands instead of the PCI address
  std::string model;   // of the processor
};

struct Half {  // one of the two halves of a row
  double time_us;  // negative: this half does not exist
  double algbw_gbps;
  double busbw_gbps;
  long long wrong;  // -1: not checked
};

std::string header_text(const char* program, const Options& options, const std::vector<RankLine>& ranks,
                        const std::vector<std::string>& transports);
// root: -1 if the collective has none.
std::string row_text(size_t size_bytes, size_t count, const char* dtype, const char* redop, int root,
                     const Half& out_of_place, const Half& in_place);
std::string footer_text(const char* program, long long wrong, double average_busbw_gbps);

}  // namespace ccore_perf
