#include "tuner/samples.h"

#include <algorithm>
#include <numeric>

namespace ccore {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double mean_without_outliers(const std::vector<double>& values) {
  const double limit = 2 * median(values);
  std::vector<double> kept;
  std::copy_if(values.begin(), values.end(), std::back_inserter(kept), [&](double v) { return v <= limit; });
  return mean(kept);
}

double Samples::figure(PerfMode mode) const {
  switch (mode) {
    case PerfMode::time:
      return mean(interval_us);
    case PerfMode::filter:
      return mean_without_outliers(interval_us);
    case PerfMode::profile:
      break;
  }
  return median(own_us);
}

}  // namespace ccore
