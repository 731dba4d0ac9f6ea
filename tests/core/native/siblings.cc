// The siblings of all_reduce in the memory of one node, by each of their ways: any number of ranks, slots that are too
// small, odd addresses, in place, blocks of different sizes, and one way after the other.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "cases.h"
#include "collectives/all_gather/all_gather.h"
#include "collectives/all_to_all/all_to_all.h"
#include "collectives/broadcast/broadcast.h"
#include "collectives/gather/gather.h"
#include "collectives/reduce/reduce.h"
#include "collectives/reduce_scatter/reduce_scatter.h"
#include "collectives/scatter/scatter.h"
#include "collectives/shm/slot_stream.h"
#include "collectives/subgroup.h"
#include "expect.h"
#include "node.h"
#include "oracle.h"

namespace test {
namespace {

using ccore::Algorithm;
using ccore::Block;
using ccore::Context;

constexpr unsigned char kUntouched = 0xa5;

// Memory at an odd address, with a byte on each side of it that must not be written to.
class Place {
 public:
  explicit Place(const Data& content) : bytes_(content.size()), memory_(content.size() + 2, kUntouched) {
    if (bytes_ > 0) std::memcpy(data(), content.data(), bytes_);
  }
  explicit Place(size_t bytes) : bytes_(bytes), memory_(bytes + 2, kUntouched) {}
  unsigned char* data() { return memory_.data() + 1; }
  Data content() { return Data(data(), data() + bytes_); }
  void expect(const Data& wanted, const std::string& what) {
    EXPECT(content() == wanted, what, ": other data than expected");
    EXPECT(memory_.front() == kUntouched && memory_.back() == kUntouched, what, ": wrote beside");
  }

 private:
  size_t bytes_;
  Data memory_;
};

// One rank's calls; every rank makes the same ones, in the same order.
class Caller {
 public:
  explicit Caller(const Context& context)
      : context_(context), p_(static_cast<size_t>(context.nranks)), own_(static_cast<size_t>(context.rank)) {}

  void moves(Algorithm way, size_t bytes, unsigned turn) {
    inputs_ = inputs(CC_UINT8, bytes * p_, turn);
    const int root = static_cast<int>(turn % p_);
    const bool is_root = context_.rank == root;
    const std::string what =
        std::string(name_of(way)) + " of " + std::to_string(bytes) + " bytes on " + std::to_string(p_) + " ranks";
    const Data first = part(own_, 0, bytes);
    Data joined;
    Data exchanged;
    for (size_t rank = 0; rank < p_; ++rank) {
      append(&joined, part(rank, 0, bytes));
      append(&exchanged, part(rank, own_ * bytes, bytes));
    }
    const auto from_root = static_cast<size_t>(root);
    for (const bool in_place : {false, true}) {
      Place input(first);
      Place output(bytes);
      broadcast_by(way, context_, input.data(), in_place ? input.data() : output.data(), bytes, root);
      (in_place ? input : output).expect(part(from_root, 0, bytes), "broadcast by " + what);

      Place gathered(joined.size());
      if (in_place && bytes > 0) std::memcpy(gathered.data() + own_ * bytes, first.data(), bytes);
      Place one(first);
      unsigned char* given = in_place ? gathered.data() + own_ * bytes : one.data();
      all_gather_by(way, context_, given, gathered.data(), even_blocks(bytes));
      gathered.expect(joined, "all_gather by " + what);

      Place at_root(is_root ? joined.size() : 0);
      if (in_place && is_root && bytes > 0) std::memcpy(at_root.data() + own_ * bytes, first.data(), bytes);
      given = in_place && is_root ? at_root.data() + own_ * bytes : one.data();
      gather_by(way, context_, given, is_root ? at_root.data() : nullptr, bytes, root);
      at_root.expect(is_root ? joined : Data(), "gather by " + what);
      one.expect(first, "what gather was given");

      Place scattered(is_root ? inputs_[own_] : Data());
      Place mine(bytes);
      unsigned char* to = in_place && is_root ? scattered.data() + own_ * bytes : mine.data();
      scatter_by(way, context_, is_root ? scattered.data() : nullptr, to, bytes, root);
      EXPECT(Data(to, to + bytes) == part(from_root, own_ * bytes, bytes), "scatter by ", what);
      scattered.expect(is_root ? inputs_[own_] : Data(), "what scatter was given");
    }
    Place leaving(inputs_[own_]);
    Place coming(exchanged.size());
    all_to_all_by(way, context_, leaving.data(), coming.data(), bytes);
    coming.expect(exchanged, "all_to_all by " + what);
    leaving.expect(inputs_[own_], "what all_to_all was given");
    uneven(way, bytes, what);
  }

  void reductions(Algorithm way, size_t count, cc_dtype dtype, cc_redop op, unsigned turn) {
    const size_t bytes = count * cc_dtype_size(dtype);
    const int root = static_cast<int>(turn % p_);
    const bool is_root = context_.rank == root;
    inputs_ = inputs(dtype, count, turn);
    for (const bool in_place : {false, true}) {
      Place input(inputs_[own_]);
      Place output(is_root ? bytes : 0);
      unsigned char* to = in_place ? input.data() : output.data();
      reduce_by(way, context_, input.data(), is_root ? to : nullptr, count, dtype, op, root);
      if (is_root) expect_reduction(Data(to, to + bytes), inputs_, 0, dtype, op);
      if (!is_root || !in_place) input.expect(inputs_[own_], "what reduce was given");
    }
    if (way == Algorithm::twoshot) return;  // of reduce alone
    inputs_ = inputs(dtype, count * p_, turn + 1);
    Data apart;
    for (const bool in_place : {false, true}) {
      Place input(inputs_[own_]);
      Place output(bytes);
      unsigned char* to = in_place ? input.data() + own_ * bytes : output.data();
      reduce_scatter_by(way, context_, input.data(), to, count, dtype, op);
      const Data result(to, to + bytes);
      if (!in_place) expect_reduction(result, inputs_, own_ * count, dtype, op);
      if (!in_place) apart = result;
      EXPECT(result == apart, "reduce_scatter in place by ", name_of(way), " differs");
      if (!in_place) input.expect(inputs_[own_], "what reduce_scatter was given");
    }
  }

 private:
  // Blocks of all sizes up to `bytes`, one of them empty, with gaps between them.
  void uneven(Algorithm way, size_t bytes, const std::string& what) {
    std::vector<Block> blocks;
    Data wanted;
    for (size_t rank = 0; rank < p_; ++rank) {
      const size_t size = rank == 1 ? 0 : bytes * (rank + 1) / p_;
      wanted.push_back(kUntouched);
      blocks.push_back(Block{wanted.size(), size});
      append(&wanted, part(rank, 0, size));
    }
    Place given(part(own_, 0, blocks[own_].count));
    Place gathered(wanted.size());
    all_gather_by(way, context_, given.data(), gathered.data(), blocks);
    gathered.expect(wanted, "all_gatherv by " + what);
  }

  std::vector<Data> inputs(cc_dtype dtype, size_t count, unsigned turn) const {
    std::vector<Data> all;
    for (size_t rank = 0; rank < p_; ++rank) {
      all.push_back(random_input(dtype, count, context_.rank_of(static_cast<int>(rank)), turn));
    }
    return all;
  }
  std::vector<Block> even_blocks(size_t bytes) const {
    std::vector<Block> blocks;
    for (size_t rank = 0; rank < p_; ++rank) blocks.push_back(Block{rank * bytes, bytes});
    return blocks;
  }
  Data part(size_t rank, size_t begin, size_t bytes) const {
    const auto first = inputs_[rank].begin() + static_cast<std::ptrdiff_t>(begin);
    return Data(first, first + static_cast<std::ptrdiff_t>(bytes));
  }
  static void append(Data* to, const Data& more) { to->insert(to->end(), more.begin(), more.end()); }

  const Context& context_;
  size_t p_;
  size_t own_;
  std::vector<Data> inputs_;
};

constexpr size_t kSlot = 8192;

void sizes_around_the_edges(int nranks) {
  run_node(nranks, kSlot, [&](const Context& context) {
    Caller caller(context);
    unsigned turn = 0;
    const size_t slot = context.arena->slot_bytes();
    for (const size_t bytes :
         {size_t{0}, size_t{1}, size_t{191}, ccore::Arena::kInlineBytes, size_t{193}, slot / 4, slot, 5 * slot + 3}) {
      for (const Algorithm way : {Algorithm::oneshot, Algorithm::cma}) caller.moves(way, bytes, ++turn);
      for (const Algorithm way : {Algorithm::oneshot, Algorithm::twoshot, Algorithm::cma}) {
        caller.reductions(way, bytes / 2, CC_BFLOAT16, CC_AVG, ++turn);
      }
    }
  });
}

void every_type_and_operator(int nranks) {
  run_node(nranks, kSlot, [&](const Context& context) {
    Caller caller(context);
    unsigned turn = 0;
    for (const cc_dtype dtype : kDtypes) {
      for (const cc_redop op : kRedops) {
        for (const Algorithm way : {Algorithm::oneshot, Algorithm::twoshot, Algorithm::cma}) {
          // Beside the marks, and by chunks.
          for (const size_t count : {size_t{23}, size_t{2301}}) caller.reductions(way, count, dtype, op, ++turn);
        }
      }
    }
  });
}

// More than a section of the kernel's copies, and past the caches.
void much(int nranks) {
  run_node(nranks, size_t{1} << 20, [&](const Context& context) {
    Caller caller(context);
    const size_t bytes = (size_t{4} << 20) + 12;
    for (const Algorithm way : {Algorithm::oneshot, Algorithm::cma}) caller.moves(way, bytes, 3);
    for (const Algorithm way : {Algorithm::oneshot, Algorithm::twoshot, Algorithm::cma}) {
      caller.reductions(way, bytes / 4, CC_FLOAT32, CC_SUM, 4);
    }
  });
}

// Pairs of ranks that meet in some stages and not in others, some of them with a root.
void groups_overlap(int nranks) {
  std::vector<int> all(static_cast<size_t>(nranks));
  std::iota(all.begin(), all.end(), 0);
  const std::vector<std::vector<int>> groups{
      all, {0, 1}, {2, 1}, {2, 0}, all, {nranks - 1, 0}, {all.rbegin(), all.rend()}};
  run_node(nranks, kSlot, [&](const Context& context) {
    for (unsigned turn = 0; turn < 30; ++turn) {
      const std::vector<int>& members = groups[(turn * 5 + turn / 7) % groups.size()];
      if (std::find(members.begin(), members.end(), context.rank) == members.end()) continue;
      const ccore::Subgroup group(context, members);
      Caller caller(group.context());
      const Algorithm way = turn % 3 == 0 ? Algorithm::cma : Algorithm::oneshot;
      caller.moves(way, turn % 2 == 0 ? 40 + turn : 3000 + turn, turn);
      caller.reductions(way, turn % 2 == 1 ? 9 + turn : 5000 + turn, CC_INT32, CC_SUM, turn);
    }
  });
}

// So many ranks that the parts for all are more than a chunk, and each still goes beside the marks.
void a_crowd() {
  for (const size_t ranks : {size_t{2}, size_t{86}, size_t{200}, size_t{1000}}) {
    for (const bool one_way : {false, true}) {
      const ccore::StreamPlan plan(ccore::Arena::kInlineBytes, ranks, 1, size_t{1} << 20, one_way);
      EXPECT(plan.piece_bytes() == ccore::Arena::kInlineBytes && plan.chunks() == 1, ranks,
             " ranks: ", plan.piece_bytes());
    }
  }
  constexpr int kRanks = 96;
  run_node(kRanks, ccore::Arena::least_slot_bytes(kRanks), [&](const Context& context) {
    const size_t bytes = ccore::Arena::kInlineBytes;
    const Data send = random_input(CC_UINT8, bytes * kRanks, 0, 1);
    Data recv(bytes, kUntouched);
    ccore::scatter_by(Algorithm::oneshot, context, send.data(), recv.data(), bytes, 0);
    const auto own = send.begin() + static_cast<std::ptrdiff_t>(bytes) * context.rank;
    EXPECT(std::equal(recv.begin(), recv.end(), own), "rank ", context.rank, " of ", kRanks,
           ": other data than expected");
  });
}

}  // namespace

void siblings() {
  a_crowd();
  for (const int nranks : {2, 3, 4, 5, 6, 7, 8}) sizes_around_the_edges(nranks);
  for (const int nranks : {2, 4}) every_type_and_operator(nranks);
  for (const int nranks : {2, 3}) much(nranks);
  for (const int nranks : {3, 4, 5}) groups_overlap(nranks);
}

}  // namespace test
