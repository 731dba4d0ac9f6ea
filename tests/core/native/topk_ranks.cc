// Top-k all_reduce between ranks: nothing is lost, all ranks get the same bits, and what goes over the links.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "cases.h"
#include "collective_core/collective_core.h"
#include "compress/payload.h"
#include "compress/topk_plan.h"
#include "expect.h"
#include "ranks.h"
#include "reduce/half.h"
#include "schedule/schedule.h"

namespace test {
namespace {

using Values = std::vector<float>;

// A letter per rank: its node.
Layout on_nodes(const std::string& nodes) {
  Layout layout;
  layout.node_id = [nodes](int rank) { return std::string(1, nodes[static_cast<size_t>(rank)]); };
  return layout;
}

// Multiples of 1/1024 below 64 in magnitude: sums of them are exact in f32, and f16 must round most of them.
Values dyadic(size_t count, int rank, unsigned step) {
  std::mt19937 engine(step * 101 + static_cast<unsigned>(rank));
  Values x(count);
  for (float& value : x) value = (static_cast<float>(engine() % 131072) - 65536.0f) / 1024.0f;
  return x;
}

cc_topk_options options_of(double ratio, cc_topk_method method, cc_topk_values values) {
  cc_topk_options options{};
  options.size = sizeof options;
  options.ratio = ratio;
  options.threshold_bytes = 1;
  options.method = method;
  options.values = values;
  return options;
}

void succeed(cc_result result, cc_comm* comm) {
  EXPECT(result == CC_SUCCESS, cc_error_string(result), ": ", last_error(comm), cc_last_error(nullptr));
}

class Kept {
 public:
  Kept() { EXPECT(cc_residual_create(&handle) == CC_SUCCESS, cc_last_error(nullptr)); }
  ~Kept() { cc_residual_destroy(handle); }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  cc_residual_info info() const {
    cc_residual_info info{};
    info.size = sizeof info;
    EXPECT(cc_residual_get_info(handle, &info) == CC_SUCCESS, cc_last_error(nullptr));
    return info;
  }
  cc_residual* handle = nullptr;
};

// What all ranks can look at after a meeting.
struct Shared {
  explicit Shared(int nranks)
      : meeting(nranks), results(static_cast<size_t>(nranks)), infos(static_cast<size_t>(nranks)) {}
  Meeting meeting;
  std::vector<Values> results;
  std::vector<cc_residual_info> infos;
};

// Over four steps: sum of the results + what all residuals hold == sum of all inputs, to the last bit.
void nothing_is_lost(const std::string& nodes, size_t count, const cc_topk_options& options, bool in_place) {
  const auto nranks = static_cast<int>(nodes.size());
  Shared shared(nranks);
  run_ranks(nranks, on_nodes(nodes), [&](int rank, cc_comm* comm) {
    const auto own = static_cast<size_t>(rank);
    Kept kept;
    std::vector<double> balance(count, 0.0);
    bool compressed = false;
    for (unsigned step = 0; step < 4; ++step) {
      const Values input = dyadic(count, rank, step);
      Values out = in_place ? input : Values(count, -7.0f);
      const float* send = in_place ? out.data() : input.data();
      succeed(cc_topk_all_reduce(send, out.data(), count, CC_FLOAT32, CC_SUM, &options, kept.handle, comm, nullptr),
              comm);
      shared.results[own] = out;
      shared.infos[own] = kept.info();
      cc_topk_plan plan{};
      plan.size = sizeof plan;
      succeed(cc_topk_get_plan(comm, count, CC_FLOAT32, &options, &plan), comm);
      EXPECT(plan.compressed == 1 && plan.shard_begin == shared.infos[own].shard_begin &&
                 plan.shard_count == shared.infos[own].shard_count && plan.kept <= plan.shard_count,
             nodes, ": the plan is not what was done");
      shared.meeting.wait();
      for (int other = 0; other < nranks; ++other) {
        const Values given = dyadic(count, other, step);
        for (size_t i = 0; i < count; ++i) balance[i] += static_cast<double>(given[i]);
      }
      for (size_t i = 0; i < count; ++i) balance[i] -= static_cast<double>(out[i]);
      const auto zeros = static_cast<size_t>(std::count(out.begin(), out.end(), 0.0f));
      compressed = compressed || zeros > count / 2;
      for (const Values& other : shared.results) {
        EXPECT(std::memcmp(other.data(), out.data(), count * sizeof(float)) == 0, nodes, ": ranks differ");
      }
      shared.meeting.wait();
    }
    EXPECT(compressed, nodes, ": everything was sent");
    shared.meeting.wait();
    for (const cc_residual_info& info : shared.infos) {
      EXPECT(info.count == count && info.dtype == CC_FLOAT32, nodes, " count ", info.count);
      EXPECT(info.steps == (info.shard_count > 0 ? 4 : 0), nodes, " steps ", info.steps);
      for (size_t i = 0; i < info.shard_count; ++i) {
        balance[info.shard_begin + i] -= static_cast<double>(info.values[i]);
      }
    }
    for (size_t i = 0; i < count; ++i) {
      EXPECT(balance[i] == 0.0, nodes, ": element ", i, " lost ", balance[i]);
    }
    shared.meeting.wait();
  });
}

// All is sent where f16 values make it fit, and small integers need no rounding: equal to dense.
void a_ratio_of_one_is_dense() {
  for (const cc_dtype dtype : {CC_FLOAT32, CC_FLOAT16, CC_BFLOAT16}) {
    for (const cc_redop op : {CC_SUM, CC_AVG}) {
      // 16-bit elements are never larger than index and value: take the ratio that just pays.
      const double ratio = dtype == CC_FLOAT32 ? 0.6 : 0.3;
      const cc_topk_options options = options_of(ratio, CC_TOPK_EXACT, CC_TOPK_VALUES_F16);
      run_ranks(4, on_nodes("abab"), [&](int rank, cc_comm* comm) {
        const size_t count = 1000;
        Values input(count, 0.0f);
        for (size_t i = 0; i < count; i += 4) input[i] = static_cast<float>(4 * rank) + static_cast<float>(i % 8);
        std::vector<std::byte> send(count * cc_dtype_size(dtype));
        if (dtype == CC_FLOAT32) std::memcpy(send.data(), input.data(), send.size());
        if (dtype == CC_FLOAT16) ccore::f32_to_f16(input.data(), send.data(), count);
        if (dtype == CC_BFLOAT16) ccore::f32_to_bf16(input.data(), send.data(), count);
        std::vector<std::byte> dense(send.size());
        std::vector<std::byte> sparse(send.size(), std::byte{0xa5});
        Kept kept;
        succeed(cc_all_reduce(send.data(), dense.data(), count, dtype, op, comm, nullptr), comm);
        succeed(cc_topk_all_reduce(send.data(), sparse.data(), count, dtype, op, &options, kept.handle, comm, nullptr),
                comm);
        EXPECT(kept.info().steps == 1, "it was not compressed");
        EXPECT(sparse == dense, "dtype ", static_cast<int>(dtype), " op ", static_cast<int>(op));
        const cc_topk_options all = options_of(1.0, CC_TOPK_EXACT, CC_TOPK_VALUES_DEFAULT);
        succeed(cc_topk_all_reduce(send.data(), sparse.data(), count, dtype, op, &all, kept.handle, comm, nullptr),
                comm);
        EXPECT(kept.info().steps == 1, "what makes it larger goes densely and leaves the residual alone");
        EXPECT(sparse == dense, "ratio 1");
      });
    }
  }
}

void not_a_number_passes_through() {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Shared shared(5);
    run_ranks(5, on_nodes("abcab"), [&](int rank, cc_comm* comm) {
      const size_t count = 5000;
      const auto own = static_cast<size_t>(rank);
      const cc_topk_options options = options_of(0.01, CC_TOPK_EXACT, CC_TOPK_VALUES_F16);
      Kept kept;
      Values data = dyadic(count, rank, 1);
      succeed(
          cc_topk_all_reduce(data.data(), data.data(), count, CC_FLOAT32, CC_AVG, &options, kept.handle, comm, nullptr),
          comm);
      const cc_residual_info before = kept.info();
      const Values held(before.values, before.values + before.shard_count);
      Values input = dyadic(count, rank, 2);
      if (rank == 4) input[4321] = bad;
      Values out(count);
      succeed(
          cc_topk_all_reduce(input.data(), out.data(), count, CC_FLOAT32, CC_AVG, &options, kept.handle, comm, nullptr),
          comm);
      shared.results[own] = out;
      shared.meeting.wait();
      for (const Values& other : shared.results) {
        EXPECT(std::memcmp(other.data(), out.data(), count * sizeof(float)) == 0, "ranks differ");
      }
      Values sum(count, 0.0f);
      for (int other = 0; other < 5; ++other) {
        const Values given = dyadic(count, other, 2);
        for (size_t i = 0; i < count; ++i) sum[i] += given[i];
      }
      for (size_t i = 0; i < count; ++i) {
        if (i == 4321) {
          EXPECT(std::isnan(bad) ? std::isnan(out[i]) : out[i] == bad, "rank ", rank, " got ", out[i]);
        } else {
          EXPECT(std::fabs(out[i] - sum[i] / 5.0f) < 1e-5f, "element ", i, ": ", out[i], ", not ", sum[i] / 5.0f);
        }
      }
      const cc_residual_info after = kept.info();
      EXPECT(after.steps == (after.shard_count > 0 ? 1 : 0), "the dense step counts");
      EXPECT(held == Values(after.values, after.values + after.shard_count), "the residual changed");
      shared.meeting.wait();
    });
  }
}

void another_shape_starts_again() {
  run_ranks(2, on_nodes("ab"), [](int rank, cc_comm* comm) {
    const cc_topk_options options = options_of(0.1, CC_TOPK_EXACT, CC_TOPK_VALUES_F32);
    Kept kept;
    EXPECT(kept.info().count == 0 && kept.info().steps == 0, "new");
    const auto run = [&](size_t count) {
      Values data = dyadic(count, rank, 3);
      succeed(
          cc_topk_all_reduce(data.data(), data.data(), count, CC_FLOAT32, CC_SUM, &options, kept.handle, comm, nullptr),
          comm);
    };
    run(1000);
    run(1000);
    EXPECT(kept.info().count == 1000 && kept.info().shard_count == 1000 && kept.info().steps == 2, "kept");
    run(999);
    EXPECT(kept.info().count == 999 && kept.info().steps == 1, "dropped");
    const cc_residual_info info = kept.info();
    for (const float value : Values(info.values, info.values + info.shard_count)) {
      EXPECT(std::fabs(value) <= 64.0f, "something of the other tensor is left: ", value);
    }
    EXPECT(cc_residual_reset(kept.handle) == CC_SUCCESS && kept.info().steps == 0, "reset");
    for (size_t i = 0; i < 999; ++i) EXPECT(kept.info().values[i] == 0.0f, "element ", i);
  });
}

// The bytes that docs/algorithms.md promises, on every link.
void bytes_are_counted(cc_topk_values values) {
  const std::string nodes = "aabb";
  const size_t count = 100001;
  run_ranks(4, on_nodes(nodes), [&](int rank, cc_comm* comm) {
    const cc_topk_options options = options_of(0.01, CC_TOPK_EXACT, values);
    Kept kept;
    Values data = dyadic(count, rank, 4);
    succeed(
        cc_topk_all_reduce(data.data(), data.data(), count, CC_FLOAT32, CC_SUM, &options, kept.handle, comm, nullptr),
        comm);
    succeed(cc_barrier(comm, nullptr), comm);  // all has been received
    const int local = rank % 2;
    const auto shard = [&](int owner) { return ccore::block_of(count, 2, owner).count; };
    const size_t payload = 8 + ccore::kept_of(shard(local), 0.01) * (values == CC_TOPK_VALUES_F16 ? 6 : 8);
    for (int peer = 0; peer < 4; ++peer) {
      if (peer == rank) continue;
      cc_peer_info info{};
      info.size = sizeof info;
      succeed(cc_comm_peer_info(comm, peer, &info), comm);
      const bool same_node = nodes[static_cast<size_t>(peer)] == nodes[static_cast<size_t>(rank)];
      size_t expected = 0;
      // Its shard of this rank's data, this rank's sum, and the four bytes that say whether all is finite.
      if (same_node) expected = 4 * (shard(1 - local) + shard(local)) + 4;
      if (!same_node && peer % 2 == local) expected = payload;
      const uint64_t barrier = info.payload_bytes_sent - expected;
      EXPECT(barrier <= 1, "rank ", rank, " sent ", info.payload_bytes_sent, " to ", peer, ", not ", expected);
    }
  });
}

void wrong_calls_are_refused() {
  run_ranks(2, on_nodes("ab"), [](int rank, cc_comm* comm) {
    const size_t count = 1000;
    Values data(count, 1.0f);
    const auto call = [&](cc_dtype dtype, cc_redop op, const cc_topk_options* options) {
      return cc_topk_all_reduce(data.data(), data.data(), count, dtype, op, options, nullptr, comm, nullptr);
    };
    EXPECT(call(CC_INT32, CC_SUM, nullptr) == CC_ERROR_INVALID_ARGUMENT, "integers");
    EXPECT(contains(cc_last_error(nullptr), "cc_all_reduce"), cc_last_error(nullptr));
    EXPECT(call(CC_FLOAT32, CC_MAX, nullptr) == CC_ERROR_INVALID_ARGUMENT, "max");
    // Two ranks that compress differently notice it, and say how each was called.
    const cc_topk_options options = options_of(rank == 0 ? 0.01 : 0.02, CC_TOPK_EXACT, CC_TOPK_VALUES_F32);
    EXPECT(call(CC_FLOAT32, CC_SUM, &options) == CC_ERROR_DESYNC, last_error(comm));
    EXPECT(contains(last_error(comm), "topk_all_reduce(count=1000, f32, sum"), last_error(comm));
  });
}

}  // namespace

void topk_ranks() {
  const cc_topk_options plain = options_of(0.05, CC_TOPK_EXACT, CC_TOPK_VALUES_F32);
  const cc_topk_options half = options_of(0.02, CC_TOPK_EXACT, CC_TOPK_VALUES_F16);
  const cc_topk_options search = options_of(0.05, CC_TOPK_MSTOPK, CC_TOPK_VALUES_F16);
  for (const char* nodes : {"ab", "abc", "aabb", "abab", "abcd", "aaabb", "abbb"}) {
    nothing_is_lost(nodes, 2003, plain, false);
    nothing_is_lost(nodes, 2003, half, true);
  }
  nothing_is_lost("aab", 1001, search, false);
  a_ratio_of_one_is_dense();
  not_a_number_passes_through();
  another_shape_starts_again();
  bytes_are_counted(CC_TOPK_VALUES_F32);
  bytes_are_counted(CC_TOPK_VALUES_F16);
  wrong_calls_are_refused();
}

}  // namespace test
