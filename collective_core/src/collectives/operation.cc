#include "collectives/operation.h"

#include <cstring>

#include "collectives/algorithm.h"
#include "common/dtype.h"
#include "common/error.h"

namespace ccore {

namespace {

const char* step_name(int32_t step) {
  switch (step) {
    case kTunerAgrees:
      return "agreement of the tuner";
    case kTunerLoads:
      return "load of kept choices";
    case kTunerSearches:
      return "tuner_retune()";
    case kTunerIsSet:
      return "tuner_set()";
  }
  return "unknown step of the tuner";
}

std::string describe_call(const Operation& operation) {
  const auto sequence = static_cast<unsigned long long>(operation.sequence);
  const auto count = static_cast<unsigned long long>(operation.count);
  const char* dtype = dtype_name(static_cast<cc_dtype>(operation.dtype));
  const char* redop = redop_name(static_cast<cc_redop>(operation.redop));
  switch (operation.kind) {
    case Kind::all_reduce:
      return format("operation %llu: all_reduce(count=%llu, %s, %s)", sequence, count, dtype, redop);
    case Kind::reduce_scatter:
      return format("operation %llu: reduce_scatter(count=%llu, %s, %s)", sequence, count, dtype, redop);
    case Kind::broadcast:
      return format("operation %llu: broadcast(count=%llu, %s, root=%d)", sequence, count, dtype, operation.root);
    case Kind::all_gather:
      return format("operation %llu: all_gather(count=%llu, %s)", sequence, count, dtype);
    case Kind::barrier:
      return format("operation %llu: barrier()", sequence);
    case Kind::split:
      return format("operation %llu: split()", sequence);
    case Kind::finalize:
      return format("operation %llu: finalize()", sequence);
    case Kind::meeting:
      return format("operation %llu: the meeting before the first operation on device memory", sequence);
    case Kind::register_memory:
      return format("operation %llu: mem_register()", sequence);
    case Kind::deregister_memory:
      return format("operation %llu: mem_deregister(handle=%llu)", sequence,
                    static_cast<unsigned long long>(operation.shape));
    case Kind::reduce:
      return format("operation %llu: reduce(count=%llu, %s, %s, root=%d)", sequence, count, dtype, redop,
                    operation.root);
    case Kind::gather:
      return format("operation %llu: gather(count=%llu, %s, root=%d)", sequence, count, dtype, operation.root);
    case Kind::scatter:
      return format("operation %llu: scatter(count=%llu, %s, root=%d)", sequence, count, dtype, operation.root);
    case Kind::all_to_all:
      return format("operation %llu: all_to_all(count=%llu, %s)", sequence, count, dtype);
    case Kind::all_to_allv:
      return format("operation %llu: all_to_allv(count between the two=%llu, %s)", sequence, count, dtype);
    case Kind::all_gatherv:
      return format("operation %llu: all_gatherv(count in all=%llu, %s, digest of the counts=%08llx)", sequence, count,
                    dtype, static_cast<unsigned long long>(operation.shape));
    case Kind::topk_all_reduce:
      return format("operation %llu: topk_all_reduce(count=%llu, %s, %s, digest of the settings=%016llx)", sequence,
                    count, dtype, redop, static_cast<unsigned long long>(operation.shape));
    case Kind::cpu_reduce:
      return format("operation %llu: cpu_reduce(count=%llu, %s, %s, chunks of %llu elements)", sequence, count, dtype,
                    redop, static_cast<unsigned long long>(operation.shape));
    case Kind::transfer:
      if (operation.root < 0) {
        return format("transfer from any rank to rank %d (count=%llu, %s, tag=%d)", operation.target, count, dtype,
                      operation.tag);
      }
      return format("transfer %llu from rank %d to rank %d (count=%llu, %s, tag=%d)", sequence, operation.root,
                    operation.target, count, dtype, operation.tag);
    case Kind::tuning:
      if (operation.tag == kTunerAgrees) {
        Operation call = operation;
        call.kind = static_cast<Kind>(operation.target);
        // What is on the wire may be anything, and a call agrees with no other.
        if (call.kind != Kind::tuning) return describe_call(call) + ", agreement of the tuner before it";
      }
      return format("operation %llu: %s", sequence, step_name(operation.tag));
  }
  return "bytes that are not an operation";
}

}  // namespace

std::string describe(const Operation& operation) {
  const std::string call = describe_call(operation) + (on_device(operation) ? " on device memory" : "");
  if (operation.algorithm == 0) return call;
  return call + " by " + name_of(static_cast<Algorithm>(operation.algorithm - 1));
}

bool same(const Operation& a, const Operation& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

bool cannot_end_without(const Operation& operation, int rank, int absent) {
  switch (operation.kind) {
    case Kind::barrier:
    case Kind::split:
    case Kind::finalize:
    case Kind::register_memory:
    case Kind::deregister_memory:
    case Kind::meeting:
      return true;
    case Kind::all_reduce:
    case Kind::reduce_scatter:
    case Kind::all_gather:
    case Kind::all_to_all:
    case Kind::topk_all_reduce:
    case Kind::cpu_reduce:
      return operation.count > 0;
    case Kind::tuning:
      return operation.tag != kTunerLoads || absent == 0;
    case Kind::reduce:
    case Kind::gather:
      return operation.count > 0 && operation.root == rank;
    case Kind::broadcast:
    case Kind::scatter:
      return operation.count > 0 && operation.root == absent;
    case Kind::all_to_allv:
    case Kind::all_gatherv:
    case Kind::transfer:
      return false;
  }
  return false;
}

void require_same(const Operation& own, int rank, const Operation& other, int peer) {
  if (same(own, other)) return;
  throw Error(CC_ERROR_DESYNC, format("ranks called different operations: rank %d is in %s, rank %d is in %s", rank,
                                      describe(own).c_str(), peer, describe(other).c_str()));
}

}  // namespace ccore
