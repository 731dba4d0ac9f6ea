#include "common/dtype.h"

namespace ccore {
namespace {

struct DtypeRow {
  size_t size;
  const char* name;
};
// In the order of cc_dtype.
constexpr DtypeRow kDtypes[] = {{8, "f64"}, {4, "f32"}, {2, "f16"}, {2, "bf16"}, {1, "i8"},     {1, "u8"},
                                {4, "i32"}, {4, "u32"}, {8, "i64"}, {8, "u64"},  {1, "f8e4m3"}, {1, "f8e5m2"}};
constexpr const char* kRedops[] = {"sum", "prod", "min", "max", "avg"};

// The enums come through a C ABI, so any integer can arrive in them.
template <typename Enum, typename Row, size_t N>
const Row* row_of(const Row (&rows)[N], Enum value) {
  const auto index = static_cast<unsigned>(value);
  return index < N ? &rows[index] : nullptr;
}

}  // namespace

size_t dtype_size(cc_dtype dtype) {
  const DtypeRow* row = row_of(kDtypes, dtype);
  return row ? row->size : 0;
}

const char* dtype_name(cc_dtype dtype) {
  const DtypeRow* row = row_of(kDtypes, dtype);
  return row ? row->name : "unknown";
}

bool redop_known(cc_redop op) { return row_of(kRedops, op) != nullptr; }

const char* redop_name(cc_redop op) {
  const auto* row = row_of(kRedops, op);
  return row ? *row : "unknown";
}

}  // namespace ccore
