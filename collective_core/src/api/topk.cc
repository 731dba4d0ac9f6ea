// The C ABI of top-k all_reduce: checks arguments, and chooses between compressed and dense.
#include <algorithm>
#include <cstring>
#include <vector>

#include "api/support.h"
#include "collective_core/collective_core.h"
#include "common/dtype.h"
#include "compress/residual.h"
#include "compress/topk_all_reduce.h"
#include "compress/topk_plan.h"
#include "compress/widen.h"
#include "schedule/schedule.h"
#include "topology/node.h"

struct cc_residual {
  ccore::Residual residual;
};

namespace {

using ccore::Context;
using ccore::Error;
using ccore::guarded;
using ccore::require;

class Hold {
 public:
  explicit Hold(ccore::Residual* residual) : residual_(residual) {
    if (residual_->in_use.test_and_set(std::memory_order_acquire)) {
      throw Error(CC_ERROR_INVALID_USAGE, "another operation uses this residual; each tensor needs its own");
    }
  }
  ~Hold() { residual_->in_use.clear(std::memory_order_release); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  ccore::Residual* residual_;
};

}  // namespace

extern "C" {

cc_result cc_residual_create(cc_residual** residual) {
  if (residual) *residual = nullptr;
  return guarded([&] {
    require(residual != nullptr, "residual is null");
    *residual = new cc_residual{};
  });
}

cc_result cc_residual_reset(cc_residual* residual) {
  return guarded([&] {
    require(residual != nullptr, "residual is null");
    const Hold hold(&residual->residual);
    residual->residual.reset();
  });
}

cc_result cc_residual_get_info(const cc_residual* residual, cc_residual_info* info) {
  return guarded([&] {
    require(residual && info, "an argument is null");
    require(info->size >= sizeof(size_t), "cc_residual_info.size is not set");
    const ccore::Residual& from = residual->residual;
    cc_residual_info full{};
    full.size = std::min(info->size, sizeof full);
    full.count = from.shape().count;
    full.dtype = from.shape().dtype;
    full.shard_begin = from.shape().begin;
    full.shard_count = from.shape().shard;
    full.steps = from.steps();
    full.values = from.values().data();
    std::memcpy(info, &full, full.size);
  });
}

cc_result cc_residual_destroy(cc_residual* residual) {
  return guarded([&] { delete residual; });
}

cc_result cc_topk_get_plan(const cc_comm* comm, size_t count, cc_dtype dtype, const cc_topk_options* topk,
                           cc_topk_plan* plan) {
  return guarded([&] {
    require(comm && plan, "an argument is null");
    require(plan->size >= sizeof(size_t), "cc_topk_plan.size is not set");
    require(ccore::compressible(dtype), "topk_all_reduce works on f32, f16 and bf16; use cc_all_reduce");
    require(count <= SIZE_MAX / ccore::dtype_size(dtype), "count is too large");
    const ccore::TopkSettings settings = ccore::topk_settings_from(topk);
    const std::vector<ccore::Place>& places = comm->communicator.places();
    const int rank = comm->communicator.rank();
    const ccore::Rails rails = ccore::rails_of(places, rank);
    const ccore::Block own = rails.rail.empty()
                                 ? ccore::Block{0, 0}
                                 : ccore::block_of(count, rails.shards, places[static_cast<size_t>(rank)].local_rank);
    cc_topk_plan full{};
    full.size = std::min(plan->size, sizeof full);
    full.compressed = ccore::compresses(settings, rails, count, dtype) ? 1 : 0;
    full.method = settings.method;
    full.values = settings.values == CC_FLOAT16 ? CC_TOPK_VALUES_F16 : CC_TOPK_VALUES_F32;
    full.samplings = settings.samplings;
    full.nodes = rails.nodes;
    full.shards = rails.shards;
    full.shard_begin = own.begin;
    full.shard_count = own.count;
    full.kept = ccore::kept_of(own.count, settings.ratio);
    std::memcpy(plan, &full, full.size);
  });
}

cc_result cc_topk_all_reduce(const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op,
                             const cc_topk_options* topk, cc_residual* residual, cc_comm* comm,
                             const cc_op_options* options) {
  bool dense = false;
  const cc_result result = guarded([&] {
    require(comm != nullptr, "comm is null");
    require(ccore::compressible(dtype), "topk_all_reduce works on f32, f16 and bf16; use cc_all_reduce");
    require(op == CC_SUM || op == CC_AVG, "topk_all_reduce sums or averages; use cc_all_reduce");
    require(count <= SIZE_MAX / ccore::dtype_size(dtype), "count is too large");
    require(count == 0 || (send && recv), "a buffer is null");
    const ccore::TopkSettings settings = ccore::topk_settings_from(topk);
    const ccore::Rails rails = ccore::rails_of(comm->communicator.places(), comm->communicator.rank());
    if (!ccore::compresses(settings, rails, count, dtype)) {
      dense = true;
      return;
    }
    ccore::Residual forgotten;
    ccore::Residual* kept = residual ? &residual->residual : &forgotten;
    const Hold hold(kept);
    ccore::Operation operation;
    operation.kind = ccore::Kind::topk_all_reduce;
    operation.count = count;
    operation.dtype = dtype;
    operation.redop = op;
    operation.shape = ccore::digest(settings);
    comm->communicator.run(operation, ccore::timeout_of(options), [&](const Context& context) {
      ccore::topk_all_reduce(context, rails, settings, send, recv, count, dtype, op, kept);
    });
  });
  return dense ? cc_all_reduce(send, recv, count, dtype, op, comm, options) : result;
}

}  // extern "C"
