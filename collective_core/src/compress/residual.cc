#include "compress/residual.h"

#include "common/dtype.h"
#include "common/log.h"

namespace ccore {

void Residual::take_shape(const ResidualShape& shape) {
  if (shape == shape_) return;
  if (steps_ > 0) {
    log(LogLevel::warn,
        "a residual of %zu %s elements (%zu of them here, from %zu on) is used for %zu %s elements (%zu, from "
        "%zu on): what it held is dropped",
        shape_.count, dtype_name(shape_.dtype), shape_.shard, shape_.begin, shape.count,
        dtype_name(shape.dtype), shape.shard, shape.begin);
  }
  shape_ = shape;
  values_.assign_zeros(shape.shard);
  next_.assign_zeros(shape.shard);
  steps_ = 0;
}

void Residual::commit() {
  values_.swap(next_);
  ++steps_;
}

void Residual::reset() {
  values_.clear();
  steps_ = 0;
}

}  // namespace ccore
