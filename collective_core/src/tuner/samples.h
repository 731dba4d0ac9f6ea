// What a candidate took, and the one number that stands for it.
#pragma once

#include <cstddef>
#include <vector>

#include "tuner/settings.h"

namespace ccore {

// Sorts a copy. 0 for none.
double median(std::vector<double> values);
double mean(const std::vector<double>& values);
// Of those that are at most twice the median.
double mean_without_outliers(const std::vector<double>& values);

struct Samples {
  std::vector<double> own_us;       // of the operation
  std::vector<double> interval_us;  // from its beginning to that of the next of its kind

  double figure(PerfMode mode) const;
};

}  // namespace ccore
