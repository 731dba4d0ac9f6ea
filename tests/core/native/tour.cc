// A little of everything that ranks do together, each answer checked: for sanitizers, which see what lies behind it.
// Another thread of every rank looks on all the time, as a monitoring caller may.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "cases.h"
#include "expect.h"
#include "oracle.h"
#include "ranks.h"
#include "variable.h"

namespace test {
namespace {

using Numbers = std::vector<int32_t>;

// Reads all that may be read at any time, until it goes out of scope.
class Onlooker {
 public:
  explicit Onlooker(cc_comm* comm) : thread_([this, comm] { look(comm); }) {}
  ~Onlooker() {
    done_ = true;
    thread_.join();
  }
  Onlooker(const Onlooker&) = delete;
  Onlooker& operator=(const Onlooker&) = delete;

 private:
  void look(cc_comm* comm) const {
    std::vector<cc_trace_entry> entries(CC_TRACE_ENTRIES);
    std::vector<cc_count> counts(64);
    std::array<char, 512> text{};
    while (!done_) {
      size_t count = entries.size();
      size_t needed = 0;
      size_t rows = counts.size();
      cc_op_stats stats{};
      stats.size = sizeof stats;
      cc_result state = CC_SUCCESS;
      const bool answered = cc_comm_trace(comm, entries.data(), sizeof(cc_trace_entry), &count) == CC_SUCCESS &&
                            cc_comm_stats(comm, CC_OPERATION_ALL_REDUCE, &stats) == CC_SUCCESS &&
                            cc_dump_config(comm, text.data(), text.size(), &needed) == CC_SUCCESS &&
                            cc_comm_counts(comm, counts.data(), sizeof(cc_count), &rows) == CC_SUCCESS &&
                            cc_comm_get_async_error(comm, &state) == CC_SUCCESS &&
                            (state == CC_SUCCESS || state == CC_IN_PROGRESS);
      if (!answered) std::abort();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  std::atomic<bool> done_{false};
  std::thread thread_;
};

class Rank {
 public:
  Rank(int rank, int nranks, cc_comm* comm)
      : rank_(rank), nranks_(nranks), n_(static_cast<size_t>(nranks)), comm_(comm) {}

  void reductions(cc_dtype dtype, size_t count) const {
    std::vector<Data> inputs;
    for (int rank = 0; rank < nranks_; ++rank) inputs.push_back(random_input(dtype, count, rank, 7));
    const Data& mine = inputs[static_cast<size_t>(rank_)];
    Data out(mine.size());
    done(cc_all_reduce(mine.data(), out.data(), count, dtype, CC_SUM, comm_, nullptr));
    expect_reduction(out, inputs, 0, dtype, CC_SUM);
    Data in_place = mine;
    done(cc_all_reduce(in_place.data(), in_place.data(), count, dtype, CC_SUM, comm_, nullptr));
    EXPECT(in_place == out, "in place differs");
    done(cc_reduce(mine.data(), out.data(), count, dtype, CC_MAX, 1, comm_, nullptr));
    if (rank_ == 1) expect_reduction(out, inputs, 0, dtype, CC_MAX);
    const size_t part = count / n_;
    if (part == 0) return;
    Data block(part * cc_dtype_size(dtype));
    done(cc_reduce_scatter(mine.data(), block.data(), part, dtype, CC_AVG, comm_, nullptr));
    expect_reduction(block, inputs, part * static_cast<size_t>(rank_), dtype, CC_AVG);
  }

  // Element i of rank r is 1000000 * r + i.
  void copies(size_t count) const {
    Numbers mine(count);
    std::iota(mine.begin(), mine.end(), first(rank_));
    Numbers all(count * n_);
    done(cc_all_gather(mine.data(), all.data(), count, CC_INT32, comm_, nullptr));
    Numbers expected;
    for (int rank = 0; rank < nranks_; ++rank) {
      expected.resize(expected.size() + count);
      std::iota(expected.end() - static_cast<std::ptrdiff_t>(count), expected.end(), first(rank));
    }
    EXPECT(all == expected, "all_gather");
    Numbers got = mine;
    done(cc_broadcast(got.data(), got.data(), count, CC_INT32, 1, comm_, nullptr));
    EXPECT(got.front() == first(1), "broadcast");
    done(cc_gather(mine.data(), all.data(), count, CC_INT32, 0, comm_, nullptr));
    done(cc_scatter(all.data(), got.data(), count, CC_INT32, 0, comm_, nullptr));
    EXPECT(got == mine, "gather, then scatter");
    Numbers exchanged(count * n_);
    done(cc_all_to_all(all.data(), exchanged.data(), count, CC_INT32, comm_, nullptr));
    done(cc_barrier(comm_, nullptr));
  }

  void transfers(size_t count) const {
    Numbers out(count, rank_);
    Numbers in(count, -1);
    const int before = (rank_ + nranks_ - 1) % nranks_;
    done(cc_group_start(comm_));
    done(cc_recv(in.data(), count, CC_INT32, before, comm_, nullptr));
    done(cc_send(out.data(), count, CC_INT32, (rank_ + 1) % nranks_, comm_, nullptr));
    done(cc_group_end(comm_));
    EXPECT(in == Numbers(count, before), "from the rank before");
  }

  void top_k(size_t count) const {
    cc_residual* residual = nullptr;
    done(cc_residual_create(&residual));
    cc_topk_options options{};
    options.size = sizeof options;
    options.threshold_bytes = 1;
    options.ratio = 0.05;
    std::vector<float> data(count);
    for (const cc_topk_method method : {CC_TOPK_EXACT, CC_TOPK_MSTOPK}) {
      options.method = method;
      options.values = method == CC_TOPK_EXACT ? CC_TOPK_VALUES_F32 : CC_TOPK_VALUES_F16;
      for (size_t i = 0; i < count; ++i) data[i] = i % 100 == 0 ? 64.0F : 0.25F;
      done(cc_topk_all_reduce(data.data(), data.data(), count, CC_FLOAT32, CC_SUM, &options, residual, comm_, nullptr));
      EXPECT(data[0] >= 64.0F * static_cast<float>(nranks_), "the largest were sent: ", data[0]);
    }
    done(cc_residual_destroy(residual));
  }

  void through_staging(size_t count) const {
    cc_cpu_reduce_options options{};
    options.size = sizeof options;
    options.chunk_bytes = 4096;
    cc_cpu_reduce* handle = nullptr;
    done(cc_cpu_reduce_create(comm_, &options, nullptr, &handle));
    Numbers data(count, rank_);
    done(cc_cpu_reduce_run(handle, data.data(), data.data(), count, CC_INT32, CC_SUM, nullptr));
    EXPECT(data == Numbers(count, nranks_ * (nranks_ - 1) / 2), "cpu_reduce");
    done(cc_cpu_reduce_destroy(handle));
  }

  void split() const {
    cc_comm* part = nullptr;
    done(cc_comm_split(comm_, rank_ % 2, 0, nullptr, &part));
    int32_t one = 1;
    EXPECT(cc_all_reduce(&one, &one, 1, CC_INT32, CC_SUM, part, nullptr) == CC_SUCCESS, last_error(part));
    EXPECT(one == (rank_ % 2 == 0 ? (nranks_ + 1) / 2 : nranks_ / 2), "ranks of the part: ", one);
    EXPECT(cc_comm_destroy(part) == CC_SUCCESS, cc_last_error(nullptr));
  }

 private:
  static int32_t first(int rank) { return 1000000 * rank; }
  void done(cc_result result) const { EXPECT(result == CC_SUCCESS, "rank ", rank_, ": ", cc_last_error(nullptr)); }

  int rank_;
  int nranks_;
  size_t n_;
  cc_comm* comm_;
};

void visit(const char* layout, int nranks) {
  run_ranks(nranks, layout_named(layout), [&](int number, cc_comm* comm) {
    const Onlooker onlooker(comm);
    const Rank rank(number, nranks, comm);
    try {
      // Beside the mark, in one slot, and through many: see docs/algorithms.md.
      for (const size_t count : {3u, 1021u, 150001u}) rank.reductions(CC_FLOAT32, count);
      rank.reductions(CC_BFLOAT16, 5003);
      rank.reductions(CC_FLOAT16, 5003);
      for (const size_t count : {1u, 40009u}) rank.copies(count);
      for (int call = 0; call < 20; ++call) rank.reductions(CC_INT32, 701);  // so that a tuner gets on
      rank.transfers(30011);
      rank.through_staging(5000);
      rank.top_k(4001);
      rank.split();
      EXPECT(cc_comm_finalize(comm, nullptr) == CC_SUCCESS, last_error(comm));
    } catch (...) {
      cc_comm_abort(comm);  // the other ranks must not wait for this one
      throw;
    }
  });
}

}  // namespace

void tour() {
  visit("shm", 3);
  visit("mixed", 4);
  {
    const Variable streams("CCORE_TCP_STREAMS", "3");
    visit("tcp", 2);
  }
  {
    const Variable library("CCORE_IBVERBS_LIBRARY", CCORE_STAND_IN_VERBS);
    const Variable net("CCORE_NET", "rdma");
    visit("tcp", 3);
  }
  const Variable tuned("CCORE_AUTOTUNE", "1");
  const Variable warm_up("CCORE_AUTOTUNE_WARMUP_CALLS", "1");
  visit("cyclic", 3);
}

}  // namespace test
