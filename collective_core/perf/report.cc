#include "report.h"

#include <cstdio>

namespace ccore_perf {
namespace {

template <typename... Values>
std::string print(const char* pattern, Values... values) {
  char text[512];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

std::string half_text(const Half& half) {
  if (half.time_us < 0) return print("  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A");
  const std::string wrong = half.wrong < 0 ? "N/A" : std::to_string(half.wrong);
  return print("  %7.2f  %6.2f  %6.2f  %6s", half.time_us, half.algbw_gbps, half.busbw_gbps, wrong.c_str());
}

}  // namespace

std::string header_text(const char* program, const Options& options, const std::vector<RankLine>& ranks,
                        const std::vector<std::string>& transports) {
  const bool factor = options.step_factor > 1;
  std::string text = print("# collective_core version %s (columns of nccl-tests)\n", cc_version_string());
  text += print("# Collective test starting: %s\n", program);
  text += print(
      "# nThread 1 nGpus 1 minBytes %zu maxBytes %zu step: %zu(%s) warmup iters: %d iters: %d agg iters: 1 "
      "validation: %d graph: 0 unalign: 0\n#\n",
      options.min_bytes, options.max_bytes, factor ? options.step_factor : options.step_bytes,
      factor ? "factor" : "bytes", options.warmup_iterations, options.iterations, options.check ? 1 : 0);
  text += "# Using devices\n";
  for (const RankLine& rank : ranks) {
    text += print("#  Rank %2d Group %2d Pid %6ld on %10s device %2d [%s] %s\n", rank.rank, 0, rank.pid,
                  rank.host.c_str(), rank.device, rank.memory.c_str(), rank.model.c_str());
  }
  for (const std::string& line : transports) text += "# Transport: " + line + "\n";
  text += "#\n";
  // The spacing of nccl-tests 2.19, kept as it is.
  text +=
      "#                                                              out-of-place     "
      "                  in-place          \n";
  text +=
      "#       size         count      type   redop    root     time   algbw   busbw  #"
      "wrong     time   algbw   busbw  #wrong \n";
  text +=
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)   "
      "          (us)  (GB/s)  (GB/s)         \n";
  return text;
}

std::string row_text(size_t size_bytes, size_t count, const char* dtype, const char* redop, int root,
                     const Half& out_of_place, const Half& in_place) {
  return print("%12zu  %12zu  %8s  %6s  %6d", size_bytes, count, dtype, redop, root) + half_text(out_of_place) +
         half_text(in_place) + "\n";
}

std::string footer_text(const char* program, long long wrong, double average_busbw_gbps) {
  return print("# Out of bounds values : %lld %s\n", wrong, wrong == 0 ? "OK" : "FAILED") +
         print("# Avg bus bandwidth    : %g \n", average_busbw_gbps) +
         print("#\n# Collective test concluded: %s\n#\n\n", program);
}

}  // namespace ccore_perf
