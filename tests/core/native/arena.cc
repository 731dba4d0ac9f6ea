// Collectives in the memory of one node: groups that overlap, slots that are too small, odd addresses, and bytes.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "cases.h"
#include "collectives/all_reduce/all_reduce.h"
#include "collectives/subgroup.h"
#include "expect.h"
#include "node.h"
#include "oracle.h"

namespace test {
namespace {

using ccore::Context;
using AllReduce = decltype(&ccore::all_reduce_oneshot);

// Random data of every member, reduced by them, at an odd address; `turn` makes it differ from call to call.
void expect_all_reduce(const Context& context, AllReduce all_reduce, size_t count, cc_dtype dtype, cc_redop op,
                       unsigned turn) {
  std::vector<Data> inputs;
  for (int member = 0; member < context.nranks; ++member) {
    inputs.push_back(random_input(dtype, count, context.rank_of(member), turn));
  }
  const Data& mine = inputs[static_cast<size_t>(context.rank)];
  Data memory(2 * mine.size() + 4, 0xa5);
  unsigned char* in = memory.data() + 1;
  unsigned char* out = in + mine.size() + 2;
  if (!mine.empty()) std::memcpy(in, mine.data(), mine.size());
  all_reduce(context, in, out, count, dtype, op);
  expect_reduction(Data(out, out + mine.size()), inputs, 0, dtype, op);
  EXPECT(Data(in, in + mine.size()) == mine, "the input was written to");
  EXPECT(memory.front() == 0xa5 && memory.back() == 0xa5 && in[mine.size()] == 0xa5 && out[-1] == 0xa5,
         "something beside the output was written to");
  all_reduce(context, in, in, count, dtype, op);
  EXPECT(std::memcmp(in, out, mine.size()) == 0, "in place differs from out of place");
}

// Every rank walks through all groups in the same order and joins those that it is in.
void groups_overlap(int nranks) {
  std::vector<int> all(static_cast<size_t>(nranks));
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::vector<int>> groups{all, {0, 1}, {1, 2}, {2, 0}, all, {nranks - 1, 0}, {1, nranks - 1}};
  groups.emplace_back(all.begin() + 1, all.end());
  groups.emplace_back(all.rbegin(), all.rend());
  run_node(nranks, 4096, [&](const Context& context) {
    for (unsigned turn = 0; turn < 60; ++turn) {
      const std::vector<int>& members = groups[(turn * 7 + turn / 5) % groups.size()];
      if (std::find(members.begin(), members.end(), context.rank) == members.end()) continue;
      const ccore::Subgroup group(context, members);
      EXPECT(group.context().arena == context.arena, "the group has no arena");
      const bool large = turn % 3 == 1;
      const size_t count = turn % 3 == 0 ? 1 + turn % 40 : large ? 5000 + turn : 700 + turn;
      const AllReduce in_two = turn % 2 == 0 ? ccore::all_reduce_twoshot : ccore::all_reduce_cma;
      expect_all_reduce(group.context(), large ? in_two : ccore::all_reduce_oneshot, count, CC_INT32, CC_SUM, turn);
    }
  });
}

void sizes_around_the_edges(int nranks) {
  constexpr size_t kSlot = 8192;
  run_node(nranks, kSlot, [&](const Context& context) {
    unsigned turn = 0;
    const size_t slot = context.arena->slot_bytes();
    const std::vector<cc_dtype> few{CC_BFLOAT16, CC_FLOAT32};
    for (const cc_dtype dtype :
         nranks < 4 ? std::vector<cc_dtype>{CC_UINT8, CC_BFLOAT16, CC_FLOAT32, CC_FLOAT64} : few) {
      for (const cc_redop op : {CC_SUM, CC_AVG}) {
        const size_t size = cc_dtype_size(dtype);
        for (const size_t bytes : {size_t{0}, size, 191 / size * size, ccore::Arena::kInlineBytes, size_t{200}, slot}) {
          expect_all_reduce(context, ccore::all_reduce_oneshot, bytes / size, dtype, op, ++turn);
        }
        for (const size_t bytes : {size_t{0}, size, size_t{200}, slot, 3 * slot + 8, 7 * slot - 24}) {
          expect_all_reduce(context, ccore::all_reduce_twoshot, bytes / size, dtype, op, ++turn);
        }
        for (const size_t bytes : {size_t{0}, size, size_t{200}, size_t{5 * 256 * 1024 + 40}}) {
          expect_all_reduce(context, ccore::all_reduce_cma, bytes / size, dtype, op, ++turn);
        }
      }
    }
  });
}

}  // namespace

void arena() {
  for (const int nranks : {3, 4, 5}) groups_overlap(nranks);
  for (const int nranks : {2, 3, 5, 9}) sizes_around_the_edges(nranks);
}

}  // namespace test
