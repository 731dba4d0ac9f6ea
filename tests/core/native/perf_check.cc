// What the perf programs fill in and expect: sums of any number of ranks that every type holds exactly.
#include "check.h"

#include <vector>

#include "cases.h"
#include "expect.h"
#include "reduce/kernels.h"

namespace test {
namespace {

constexpr cc_dtype kTypes[] = {CC_INT8,    CC_UINT8,   CC_INT32,       CC_FLOAT16,    CC_BFLOAT16,
                               CC_FLOAT32, CC_FLOAT64, CC_FLOAT8_E4M3, CC_FLOAT8_E5M2};
constexpr size_t kElements = 700;
constexpr size_t kFirst = 4000;  // over the end of the period of the contributions

// One rank after another, as round a ring, in the type's own arithmetic.
void reduced_in_turn(const ccore_perf::Inputs& inputs) {
  const auto next = ccore::reduce_function(inputs.dtype, inputs.op);
  const auto last = ccore::last_reduce_function(inputs.dtype, inputs.op);
  std::vector<unsigned char> all(kElements * cc_dtype_size(inputs.dtype));
  std::vector<unsigned char> own(all.size());
  ccore_perf::fill(all.data(), kFirst, kElements, inputs, 0);
  for (int rank = 1; rank < inputs.nranks; ++rank) {
    ccore_perf::fill(own.data(), kFirst, kElements, inputs, rank);
    const auto reduce = rank == inputs.nranks - 1 ? last : next;
    reduce(all.data(), all.data(), own.data(), kElements, static_cast<unsigned>(inputs.nranks));
  }
  const size_t wrong = ccore_perf::count_wrong(all.data(), kFirst, kElements, inputs, ccore_perf::kReduction);
  EXPECT(wrong == 0, wrong, " wrong of type ", inputs.dtype, ", operation ", inputs.op, ", ", inputs.nranks, " ranks");
}

}  // namespace

void perf_check() {
  for (const int nranks : {2, 60, 61, 200, 1000}) {
    for (const cc_dtype dtype : kTypes) {
      for (const cc_redop op : {CC_SUM, CC_AVG, CC_PROD, CC_MIN, CC_MAX}) {
        reduced_in_turn(ccore_perf::Inputs{dtype, op, true, nranks});
      }
    }
  }
}

}  // namespace test
