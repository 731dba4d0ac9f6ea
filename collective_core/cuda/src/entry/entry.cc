#include "entry/entry.h"

#include <algorithm>
#include <climits>
#include <string>
#include <vector>

#include "environment.h"
#include "guard.h"
#include "nodes/places.h"

namespace ccore_cuda::entry {
namespace {

using ccore::DeviceCall;
using ccore::DeviceWay;
using nodes::require_success;

constexpr int64_t kGoodbyeMs = 2000;

void require_cuda(cc_result result) {
  if (result != CC_SUCCESS) throw Error(result, cc_cuda_last_error());
}

// What a rank wants, by CCORE_CUDA_PATH. Ranks that differ take what all of them allow.
enum Wish : unsigned char { kUnset, kPath, kNotBetween, kStaged };

Wish own_wish() {
  const std::string text = path_text();
  if (text == "staged") return kStaged;
  if (text == "host") return kNotBetween;
  return text.empty() ? kUnset : kPath;
}

// Errors of cc_cuda_create that mean that these ranks cannot use it, on all of them; others are faults.
bool means_not_here(cc_result result) {
  return result == CC_ERROR_SYSTEM || result == CC_ERROR_INVALID_ARGUMENT || result == CC_ERROR_INVALID_USAGE;
}

size_t bytes_of(const DeviceCall& call) { return call.count * cc_dtype_size(call.dtype); }

using Transfers = std::vector<cc_cuda_transfer>;

void add(Transfers* all, const void* send, void* recv, size_t bytes, int peer) {
  if (bytes > 0) all->push_back({send, recv, bytes, peer});
}

const char* at(const void* buffer, size_t offset) { return static_cast<const char*>(buffer) + offset; }
char* at(void* buffer, size_t offset) { return static_cast<char*>(buffer) + offset; }

}  // namespace

Entry::Entry(cc_comm* comm) : comm_(comm), context_(DeviceContext::current()), staging_(comm, timeout_of(comm)) {
  require_success(cc_comm_rank(comm, &rank_));
  require_success(cc_comm_size(comm, &size_));
  limits_.size = sizeof limits_;
  require_success(cc_get_limits(comm, &limits_));
  for (int rank = 0; rank < size_; ++rank) {
    cc_peer_info info{};
    info.size = sizeof info;
    require_success(cc_comm_peer_info(comm, rank, &info));
    nodes_count_ = std::max(nodes_count_, info.node + 1);
  }
  const unsigned char own = own_wish();
  std::vector<unsigned char> wishes(static_cast<size_t>(size_));
  exchange(&own, wishes.data());
  const bool all_request = std::all_of(wishes.begin(), wishes.end(), [](unsigned char one) { return one == kPath; });
  may_attach_ = nodes_count_ > 1 && all_request;
  if (nodes_count_ > 1 || std::find(wishes.begin(), wishes.end(), kStaged) != wishes.end()) return;
  const cc_result result = cc_cuda_create(comm, nullptr, &inside_);
  if (result != CC_SUCCESS && !means_not_here(result)) require_cuda(result);
}

Entry::~Entry() {
  const DeviceScope scope(context_);
  cudaDeviceSynchronize();  // before what runs loses its memory
  cc_result failed = CC_SUCCESS;
  const bool is_sound = cc_comm_get_async_error(comm_, &failed) == CC_SUCCESS && failed == CC_SUCCESS;
  if (inside_ && is_sound && cc_cuda_poll(inside_, nullptr) == CC_SUCCESS) {
    // A peer may still read what this rank has given. One that does not come costs this time, and nothing else.
    cc_op_options options{};
    options.size = sizeof options;
    options.timeout_ms = kGoodbyeMs;
    cc_barrier(comm_, &options);
  }
  cc_cuda_destroy(inside_);
  cc_cuda_nodes_destroy(nodes_);
}

void Entry::exchange(const unsigned char* own, unsigned char* all) const {
  require_success(cc_all_gather(own, all, 1, CC_UINT8, comm_, nullptr));
}

void Entry::require_sound() const {
  const char* text = nullptr;
  cc_result result = CC_SUCCESS;
  if (inside_) result = cc_cuda_poll(inside_, &text);
  if (nodes_ && result == CC_SUCCESS) result = cc_cuda_nodes_poll(nodes_, &text);
  if (result != CC_SUCCESS) throw Error(result, text ? text : "an operation on device memory failed");
}

void Entry::abort() const {
  cc_comm_abort(comm_);
  if (inside_) cc_cuda_abort(inside_);
  if (nodes_) cc_cuda_nodes_abort(nodes_);
}

bool Entry::may_go_between(const DeviceCall& call) const {
  const auto bytes = static_cast<int64_t>(bytes_of(call));
  return call.operation == CC_OPERATION_ALL_REDUCE && may_attach_ && bytes <= limits_.most_2d_bytes &&
         bytes >= limits_.least_device_2d_bytes[CC_CUDA_PATH_AUTO];
}

bool Entry::goes_between(const DeviceCall& call) const {
  return may_go_between(call) && nodes_ &&
         static_cast<int64_t>(bytes_of(call)) >= limits_.least_device_2d_bytes[slowest_path_];
}

DeviceWay Entry::way_of(const DeviceCall& call) const {
  if (inside_) return DeviceWay::inside;
  return goes_between(call) || (may_go_between(call) && !attached_) ? DeviceWay::between : DeviceWay::staged;
}

// Meets the other ranks; afterwards all have a handle, or none.
void Entry::attach_nodes() {
  attached_ = true;
  cc_cuda_nodes_info info{};
  info.size = sizeof info;
  unsigned char own = 0;  // cannot; else 1 + the path inside its node
  if (cc_cuda_nodes_create(comm_, nullptr, &nodes_) == CC_SUCCESS &&
      cc_cuda_nodes_get_info(nodes_, &info) == CC_SUCCESS) {
    own = static_cast<unsigned char>(1 + info.inside);
  }
  std::vector<unsigned char> all(static_cast<size_t>(size_));
  exchange(&own, all.data());
  if (std::find(all.begin(), all.end(), 0) != all.end()) {
    cc_cuda_nodes_destroy(nodes_);
    nodes_ = nullptr;
    return;
  }
  // A rank that is alone on its node has no path, and waits for the others.
  for (const unsigned char one : all) {
    const int path = one - 1;
    const auto slower = [&](int a, int b) {
      return limits_.least_device_2d_bytes[a] > limits_.least_device_2d_bytes[b];
    };
    if (path != CC_CUDA_PATH_AUTO && (slowest_path_ == CC_CUDA_PATH_AUTO || slower(path, slowest_path_))) {
      slowest_path_ = path;
    }
  }
}

DeviceWay Entry::run(const DeviceCall& call) {
  const DeviceScope scope(context_);
  require_sound();
  if (inside_) {
    run_inside(call);
    return DeviceWay::inside;
  }
  if (may_go_between(call) && !attached_) attach_nodes();
  if (goes_between(call)) {
    require_cuda(cc_cuda_nodes_all_reduce(nodes_, call.send, call.recv, call.count, call.dtype, call.op, call.stream,
                                          call.timeout_ms));
    return DeviceWay::between;
  }
  staging_.run(call, rank_, size_);
  return DeviceWay::staged;
}

void Entry::run_inside(const DeviceCall& call) {
  switch (call.operation) {
    case CC_OPERATION_ALL_REDUCE:
      return require_cuda(
          cc_cuda_all_reduce(inside_, call.send, call.recv, call.count, call.dtype, call.op, call.stream));
    case CC_OPERATION_REDUCE_SCATTER:
      return require_cuda(
          cc_cuda_reduce_scatter(inside_, call.send, call.recv, call.count, call.dtype, call.op, call.stream));
    case CC_OPERATION_ALL_GATHER:
      return require_cuda(cc_cuda_all_gather(inside_, call.send, call.recv, call.count, call.dtype, call.stream));
    case CC_OPERATION_BROADCAST:
      return require_cuda(
          cc_cuda_broadcast(inside_, call.send, call.recv, call.count, call.dtype, call.root, call.stream));
    case CC_OPERATION_REDUCE:
      return reduce_inside(call);
    default:
      return exchange_inside(call);
  }
}

// An all_reduce whose result the others than the root throw away.
void Entry::reduce_inside(const DeviceCall& call) {
  void* const to = rank_ == call.root ? call.recv : scratch_.of(bytes_of(call));
  require_cuda(cc_cuda_all_reduce(inside_, call.send, to, call.count, call.dtype, call.op, call.stream));
}

void Entry::exchange_inside(const DeviceCall& call) {
  const size_t element = cc_dtype_size(call.dtype), block = bytes_of(call);
  const bool is_root = rank_ == call.root;
  Transfers all;
  for (int peer = 0; peer < size_; ++peer) {
    const size_t offset = static_cast<size_t>(peer) * block;
    const bool is_self = peer == rank_;
    switch (call.operation) {
      case CC_OPERATION_GATHER:
        if (is_self && is_root && call.send == at(call.recv, offset)) break;  // in place
        if (peer == call.root) add(&all, call.send, nullptr, block, peer);
        if (is_root) add(&all, nullptr, at(call.recv, offset), block, peer);
        break;
      case CC_OPERATION_SCATTER:
        if (is_self && is_root && at(call.send, offset) == call.recv) break;  // in place
        if (is_root) add(&all, at(call.send, offset), nullptr, block, peer);
        if (peer == call.root) add(&all, nullptr, call.recv, block, peer);
        break;
      case CC_OPERATION_ALL_TO_ALL:
        add(&all, at(call.send, offset), nullptr, block, peer);
        add(&all, nullptr, at(call.recv, offset), block, peer);
        break;
      case CC_OPERATION_ALL_TO_ALLV:
        add(&all, at(call.send, call.send_offsets[peer] * element), nullptr, call.send_counts[peer] * element, peer);
        add(&all, nullptr, at(call.recv, call.recv_offsets[peer] * element), call.recv_counts[peer] * element, peer);
        break;
      case CC_OPERATION_ALL_GATHERV: {
        char* const to = at(call.recv, call.recv_offsets[peer] * element);
        if (is_self && to == call.send) break;  // in place
        add(&all, call.send, nullptr, call.recv_counts[rank_] * element, peer);
        add(&all, nullptr, to, call.recv_counts[peer] * element, peer);
        break;
      }
      default:
        throw Error(CC_ERROR_INTERNAL, "an operation that works on no device memory");
    }
  }
  require_cuda(cc_cuda_exchange(inside_, all.data(), all.size(), call.stream));
}

}  // namespace ccore_cuda::entry
