#include "nodes/nodes.h"

#include <algorithm>
#include <cstring>

#include "collective_core/collective_core_cuda_topk.h"
#include "environment.h"
#include "nodes/divide.h"

namespace ccore_cuda::nodes {
namespace {

constexpr size_t kMostSelected = 0x7fffffff;
constexpr int64_t kGoodbyeMs = 2000;

cc_op_options options_of(int64_t timeout_ms) {
  cc_op_options options{};
  options.size = sizeof options;
  options.timeout_ms = timeout_ms;
  return options;
}

}  // namespace

Nodes::Nodes(cc_comm* comm, size_t chunk_bytes, size_t chunks)
    : places_(comm), inside_(places_), chunk_bytes_(chunk_bytes), default_timeout_ms_(timeout_of(comm)), topk_(0, 0) {
  for (size_t i = 0; i < chunks; ++i) slots_.push_back(std::make_unique<Slot>());
}

Nodes::~Nodes() {
  for (const Stream* stream : {&work_, &down_, &up_}) cudaStreamSynchronize(*stream);
  if (!places_.local() || !broken_.empty()) return;
  // A peer may still read what this rank has given. One that does not come costs this time, and nothing else.
  const cc_op_options options = options_of(kGoodbyeMs);
  cc_barrier(places_.local(), &options);
}

// Ends an operation on all ranks; the handle keeps the first failure.
void Nodes::fail(const Error& error) {
  broken_ = error.what();
  broken_by_ = error.result();
  abort();
}

void Nodes::abort() const {
  places_.abort();
  inside_.abort();
}

void Nodes::require_sound() {
  if (!broken_.empty()) throw Error(broken_by_, broken_);
  try {
    inside_.check();
  } catch (const Error& error) {
    fail(error);
    throw;
  }
}

// Runs an operation between what the caller has queued and what it will queue. A failure ends it on all ranks.
template <typename Body>
void Nodes::guarded(const Call& call, Body body) {
  if (!broken_.empty()) throw Error(broken_by_, "an earlier operation of this handle failed: " + broken_);
  try {
    begun_.record(call.stream);
    for (const Stream* stream : {&work_, &down_, &up_}) begun_.hold_back(*stream);
    body();
    ended_.record(work_);
    ended_.hold_back(call.stream);
  } catch (const Error& error) {
    fail(error);
    throw;
  }
}

void Nodes::await(const Event& event, int64_t timeout_ms) const {
  nodes::await(event, timeout_ms > 0 ? timeout_ms : default_timeout_ms_, "what was queued before a copy to the host",
               [this] { inside_.check(); });
}

// What this rank's rail reduces of a chunk, in host memory.
void Nodes::travel(const Call& call, char* buffer, size_t count) {
  const cc_op_options options = options_of(call.timeout_ms);
  // An average divides by the ranks of all nodes, at the end.
  const cc_redop op = call.op == CC_AVG ? CC_SUM : call.op;
  require_success(cc_all_reduce(buffer, buffer, count, call.dtype, op, places_.rail(), &options));
}

size_t Nodes::chunks_of(const Call& call) const {
  const size_t elements = chunk_bytes_ / cc_dtype_size(call.dtype) * static_cast<size_t>(places_.owners());
  return (call.count + elements - 1) / elements;
}

Nodes::Chunk Nodes::chunk_at(const Call& call, size_t number) const {
  const size_t elements = chunk_bytes_ / cc_dtype_size(call.dtype) * static_cast<size_t>(places_.owners());
  Chunk chunk{number * elements, std::min(elements, call.count - number * elements), {0, 0}};
  if (places_.is_owner()) chunk.part = part_of(chunk.count, places_.owners(), places_.local_rank());
  return chunk;
}

// Queues the first half of a chunk's way.
void Nodes::send_down(const Call& call, size_t number) {
  const size_t element = cc_dtype_size(call.dtype);
  const Chunk chunk = chunk_at(call, number);
  const size_t offset = chunk.begin * element;
  const cc_redop op = call.op == CC_AVG ? CC_SUM : call.op;
  inside_.reduce(call.send + offset, call.recv + offset, chunk.count, call.dtype, op, work_);
  if (chunk.part.count == 0) return;
  const size_t place = number % slots_.size();
  Slot& slot = *slots_[place];
  slot.summed.record(work_);
  slot.summed.hold_back(down_);
  slot.up.hold_back(down_);  // the chunk that had this buffer before
  const char* const from = (places_.local() ? call.recv : call.send) + offset + chunk.part.begin * element;
  check(cudaMemcpyAsync(pinned_.of(0) + place * chunk_bytes_, from, chunk.part.count * element, cudaMemcpyDeviceToHost,
                        down_),
        "copying to the host");
  slot.down.record(down_);
}

void Nodes::reduce_dense(const Call& call) {
  const size_t element = cc_dtype_size(call.dtype), chunks = chunks_of(call);
  pinned_.of(slots_.size() * chunk_bytes_);
  for (size_t number = 0; number < std::min(chunks, slots_.size()); ++number) send_down(call, number);
  for (size_t number = 0; number < chunks; ++number) {
    const Chunk chunk = chunk_at(call, number);
    char* const to = call.recv + (chunk.begin + chunk.part.begin) * element;
    if (chunk.part.count > 0) {
      const size_t place = number % slots_.size();
      Slot& slot = *slots_[place];
      char* const buffer = pinned_.of(0) + place * chunk_bytes_;
      await(slot.down, call.timeout_ms);
      travel(call, buffer, chunk.part.count);
      check(cudaMemcpyAsync(to, buffer, chunk.part.count * element, cudaMemcpyHostToDevice, up_),
            "copying to the device");
      slot.up.record(up_);
      slot.up.hold_back(work_);
      divide(to, chunk.part.count, call.dtype, divisor_of(call), work_);
    }
    inside_.share(call.recv + chunk.begin * element, chunk.count, call.dtype, work_);
    if (number + slots_.size() < chunks) send_down(call, number + slots_.size());
  }
}

void Nodes::all_reduce(const Call& call) {
  if (call.count == 0) return;
  guarded(call, [&] { reduce_dense(call); });
  ++reductions_;
}

void Nodes::topk_all_reduce(const Call& call, const cc_topk_options* options, Residual* residual) {
  cc_topk_plan plan{};
  plan.size = sizeof plan;
  require_success(cc_topk_get_plan(places_.whole(), call.count, call.dtype, options, &plan));
  if (call.op != CC_SUM && call.op != CC_AVG) {
    throw Error(CC_ERROR_INVALID_ARGUMENT, "topk_all_reduce sums or averages; use all_reduce");
  }
  // The selection counts in 31 bits.
  const bool is_too_large = part_of(call.count, plan.shards, 0).count > kMostSelected;
  if (!plan.compressed || is_too_large) return all_reduce(call);
  Residual forgotten;
  guarded(call, [&] { compressed(call, plan, residual ? residual : &forgotten); });
  if (!residual) check(cudaStreamSynchronize(work_), "waiting for the end of a top-k all_reduce");
}

// The stages of src/compress/topk_all_reduce.h of the library for the host.
void Nodes::compressed(const Call& call, const cc_topk_plan& plan, Residual* residual) {
  const size_t element = cc_dtype_size(call.dtype), begin = plan.shard_begin * element;
  residual->take_shape({call.count, call.dtype, plan.shard_begin, plan.shard_count}, work_);
  inside_.reduce(call.send, call.recv, call.count, call.dtype, CC_SUM, work_);
  if (plan.shard_count == 0) {
    exchange(plan, 0, call.timeout_ms);
    return inside_.share(call.recv, call.count, call.dtype, work_);
  }
  const char* const part = (places_.local() ? call.recv : call.send) + begin;
  const auto values = static_cast<cc_topk_values>(plan.values);
  const size_t bytes = cc_cuda_topk_payload_bytes(plan.kept, values);
  // Each payload begins at a multiple of 16 bytes on the device; between the nodes there are no gaps.
  const size_t stride = (bytes + 15) / 16 * 16;
  const auto nodes = static_cast<size_t>(places_.nodes()), node = static_cast<size_t>(places_.node());
  char* const payloads = payloads_.of(nodes * stride);
  char* const on_host = host_payloads_.of(nodes * bytes);
  char* const own = payloads + node * stride;
  const bool half = values == CC_TOPK_VALUES_F16;
  const int samplings = plan.method == CC_TOPK_MSTOPK ? plan.samplings : 0;
  auto* const words = reinterpret_cast<uint32_t*>(own);
  topk_.select({part, residual->values(), residual->next(), static_cast<uint32_t>(plan.shard_count), call.dtype, half},
               topk::plan_of(plan.shard_count, plan.kept, samplings), {words, words + 2, words + 2 + plan.kept}, work_);
  ++selections_;
  check(cudaMemcpyAsync(on_host + node * bytes, own, bytes, cudaMemcpyDeviceToHost, work_), "copying to the host");
  slots_[0]->down.record(work_);
  await(slots_[0]->down, call.timeout_ms);
  if (!exchange(plan, bytes, call.timeout_ms)) {
    reduce_part_dense(call, plan, part);
    return inside_.share(call.recv, call.count, call.dtype, work_);
  }
  std::vector<const void*> list;
  for (size_t other = 0; other < nodes; ++other) {
    char* const to = payloads + other * stride;
    list.push_back(to);
    if (other == node) continue;
    check(cudaMemcpyAsync(to, on_host + other * bytes, bytes, cudaMemcpyHostToDevice, work_), "copying to the device");
  }
  topk_.sum({list.data(), list.size(), static_cast<uint32_t>(plan.kept), half, divisor_of(call), call.recv + begin,
             static_cast<uint32_t>(plan.shard_count), call.dtype},
            work_);
  if (!topk_.is_sound()) throw Error(CC_ERROR_INTERNAL, "an index of a compressed vector is out of range");
  residual->commit();
  inside_.share(call.recv, call.count, call.dtype, work_);
}

// Gives the payload to the other nodes and gets theirs; false if one of them is nonfinite. All rails of a node send the
// same flag, so that all ranks go the same way.
bool Nodes::exchange(const cc_topk_plan& plan, size_t bytes, int64_t timeout_ms) {
  const cc_op_options options = options_of(timeout_ms);
  char* const on_host = host_payloads_.of(0);
  char* const own = on_host + static_cast<size_t>(places_.node()) * bytes;
  int32_t nonfinite = 0;
  if (plan.shard_count > 0) std::memcpy(&nonfinite, own, sizeof nonfinite);
  if (places_.local()) {
    require_success(cc_all_reduce(&nonfinite, &nonfinite, 1, CC_INT32, CC_MAX, places_.local(), &options));
  }
  if (plan.shard_count == 0) return true;
  std::memcpy(own, &nonfinite, sizeof nonfinite);
  require_success(cc_all_gather(own, on_host, bytes, CC_UINT8, places_.rail(), &options));
  for (int other = 0; other < places_.nodes(); ++other) {
    std::memcpy(&nonfinite, on_host + static_cast<size_t>(other) * bytes, sizeof nonfinite);
    if (nonfinite != 0) return false;
  }
  return true;
}

// An infinity or NaN must reach all ranks: the parts travel as they are, and no residual changes.
void Nodes::reduce_part_dense(const Call& call, const cc_topk_plan& plan, const char* part) {
  const size_t bytes = plan.shard_count * cc_dtype_size(call.dtype);
  check(cudaStreamSynchronize(up_), "waiting for copies to the device");  // from the buffer that may grow
  char* const buffer = pinned_.of(std::max(bytes, slots_.size() * chunk_bytes_));
  check(cudaMemcpyAsync(buffer, part, bytes, cudaMemcpyDeviceToHost, work_), "copying to the host");
  slots_[0]->down.record(work_);
  await(slots_[0]->down, call.timeout_ms);
  travel(call, buffer, plan.shard_count);
  char* const to = call.recv + plan.shard_begin * cc_dtype_size(call.dtype);
  check(cudaMemcpyAsync(to, buffer, bytes, cudaMemcpyHostToDevice, work_), "copying to the device");
  divide(to, plan.shard_count, call.dtype, divisor_of(call), work_);
  // The buffer is the next operation's.
  slots_[0]->up.record(work_);
  await(slots_[0]->up, call.timeout_ms);
}

}  // namespace ccore_cuda::nodes
