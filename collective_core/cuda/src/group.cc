#include "group.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <utility>

#include "clock.h"
#include "device.h"
#include "error.h"

namespace ccore_cuda {
namespace {

constexpr int64_t kLookNs = 1000000;  // a wait of this length is spent looking; later the thread sleeps
constexpr int64_t kSettleNs = 1000000000;
constexpr int64_t kTendEveryNs = 1000000000;
// Of ranks that are threads of one process, whose staging memory cannot grow.
constexpr size_t kStagingOfThreadsBytes = size_t{64} << 20;

// To it packets take less time than the meetings of the two-shot kernel. Each rank sends all of its data to all, so this
// falls with the number of ranks.
size_t packet_bytes_for(NvlinkClass links, int ranks) {
  const int column = ranks <= 2 ? 0 : ranks <= 4 ? 1 : ranks <= 8 ? 2 : 3;
  return row_of(links).packet_kib[column] << 10;
}

// To this size streams meet once instead of twice. That saves a change of the time slice, at the price of more copies.
constexpr size_t kSlotBytes = size_t{1} << 20;
// The tuner tries packets and buffers where either may win.
constexpr size_t kLeastBytesToTryBuffers = size_t{4} << 10;
constexpr size_t kMostBytesToTryPackets = size_t{4} << 20;
// PCIe carries twice the data in packets, so that slots, which meet once more, take less time above it.
constexpr size_t kPacketBytesOfHost = size_t{24} << 10;
constexpr size_t kHostSlotBytes = size_t{512} << 10;
// Between GPUs 16 to 64 blocks take the same time for a large operation; fewer leave multiprocessors to the program.
constexpr int kBlocksBetweenGpus = 32;

// Above it HostFold is faster.
constexpr size_t kSlotBytesInHostMemory = size_t{128} << 10;

// To it the CPUs take less time than what the path does instead, for ranks that take turns on a GPU. The streams of the path
// `stream` need a change of the time slice for each other rank, and so lose to the CPUs by more with more ranks.
size_t bytes_on_cpus(cc_cuda_path path, int ranks) {
  if (path == CC_CUDA_PATH_STREAM) return (ranks <= 2 ? size_t{512} : size_t{1024}) << 10;
  return size_t{2} << 20;
}

int current_device() {
  int device = 0;
  check(cudaGetDevice(&device), "asking for the current device");
  return device;
}

std::vector<const void*> all_kernels(int ranks) {
  std::vector<const void*> all = copy_functions();
  for (const auto& some : {pull_functions(), exchange_functions(), seal_functions(), gate_functions()})
    all.insert(all.end(), some.begin(), some.end());
  for (int dtype = 0; const ReduceKernels* kernels = reduce_kernels(static_cast<cc_dtype>(dtype)); ++dtype) {
    const auto some = kernels->functions(ranks);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace

Group::Group(cc_comm* comm, const Wishes& wishes, int64_t timeout_ms)
    : meeting_(comm),
      agreement_(agree(meeting_, wishes)),
      device_(current_device()),
      board_memory_(meeting_, sizeof(Board), "shared memory"),
      board_(static_cast<Board*>(board_memory_.get())),
      description_(agreement_.description) {
  DescriptorWay descriptors = meet_if_needed(wishes);
  meeting_.all_or_none([&] { allocate(wishes, timeout_ms, std::move(descriptors)); });
  const bool in_host_memory = agreement_.path == CC_CUDA_PATH_HOST;
  context_.slot_bytes = in_host_memory ? kHostSlotBytes : agreement_.waits_in_streams ? kSlotBytes : 0;
  regions_ = in_host_memory ? make_host_regions(meeting_, context_.slot_bytes)
                            : make_device_regions(meeting_, context_.slot_bytes, buffers_.get());
  if (agreement_.waits_in_streams) make_waits(wishes.first_epoch);
  meeting_.all_or_none([&] {
    start_service(wishes.first_epoch, timeout_ms);
    context_.blocks = blocks_that_fit(wishes.blocks);
  });
  context_.blocks = meeting_.smallest(context_.blocks);
  context_.blocks_of_large = agreement_.gpus > 1 ? std::min(context_.blocks, kBlocksBetweenGpus) : context_.blocks;

  context_.peers.control = control_->as<Control>();
  context_.peers.host = words_->device<HostWords>();
  context_.waits = waits_ ? reinterpret_cast<StreamWaits*>(waits_->get()) : nullptr;
  for (int rank = 0; rank < meeting_.size(); ++rank) context_.peers.regions[rank] = regions_->of(rank);
  context_.peers.deadline_ns = static_cast<uint64_t>(timeout_ms) * 1000000;
  context_.peers.rank = meeting_.rank();
  context_.peers.size = meeting_.size();
  context_.buffers = buffers_.get();
  context_.staging = staging_.get();
  context_.service = service_.get();
  context_.most_staging_bytes = static_cast<size_t>(wishes.staging_bytes);
  if (agreement_.most_threads > 1) {
    // An allocation waits for the kernels of the process, and these for a rank that may wait for the allocation. Ranks
    // that are alone in their process take part: operations are cut into the same parts on all ranks.
    context_.most_staging_bytes = std::min(context_.most_staging_bytes, kStagingOfThreadsBytes);
    meeting_.all_or_none([&] { staging_->reserve(context_.most_staging_bytes); });
  }
  context_.packet_bytes = wishes.packet_bytes ? static_cast<size_t>(wishes.packet_bytes)
                          : in_host_memory    ? kPacketBytesOfHost
                                              : packet_bytes_for(agreement_.links, meeting_.size());
  context_.maps_buffers = !in_host_memory;
  context_.flushes_waits = agreement_.gpus > 1 && flushes_waits(device_);
  kernel_path_ = std::make_unique<KernelPath>(&context_);
  exchange_path_ = std::make_unique<ExchangePath>(&context_, wishes.first_epoch);
  if (agreement_.waits_in_streams) {
    stream_path_ = std::make_unique<StreamPath>(&context_, wishes.first_epoch);
  }
  description_ += ", " + std::to_string(context_.blocks) + " blocks";
}

// Peers that are all threads of one process and GPU use each other's memory as it is.
DescriptorWay Group::meet_if_needed(const Wishes& wishes) {
  const bool is_needed =
      agreement_.path != CC_CUDA_PATH_HOST && (agreement_.most_threads < meeting_.size() || agreement_.gpus > 1);
  if (!is_needed) return {};
  DescriptorWay way = meet_for_descriptors(meeting_, device_, wishes.uses_descriptors != 0);
  description_ += "; memory of cuMemCreate (expandable segments) ";
  description_ += way.refusal.empty() ? "by descriptors" : "staged: " + way.refusal;
  return way;
}

void Group::allocate(const Wishes& wishes, int64_t timeout_ms, DescriptorWay descriptors) {
  control_ = std::make_unique<DeviceMemoryBlock>(sizeof(Control));
  words_ = std::make_unique<MappedHostMemory>(sizeof(HostWords));
  auto* const words = words_->host<HostWords>();
  words->begun = words->ended = wishes.first_epoch;
  const Control control = initial_control(wishes.first_epoch);
  check(cudaMemcpy(control_->as<Control>(), &control, sizeof control, cudaMemcpyHostToDevice), "setting the epochs");
  failure_ = std::make_unique<FailureState>(board_, meeting_.rank(), words);
  buffers_ = std::make_unique<Buffers>(board_, meeting_.rank(), agreement_.processes, agreement_.has_threads_elsewhere,
                                       std::move(descriptors));
  staging_ = std::make_unique<Staging>(buffers_.get(), [this] { settle(); }, timeout_ms * 1000000);
  // Maps what peers export, their regions first.
  service_ = std::make_unique<Service>(watched(timeout_ms), wishes.first_epoch);
}

// Collective. As if all peers had come to the epoch before the first.
void Group::make_waits(uint32_t first_epoch) {
  const auto ranks = static_cast<size_t>(meeting_.size());
  waits_ = std::make_unique<PinnedMapping>(meeting_, ranks * ranks * sizeof(StreamWaits), "the words of streams");
  for (int peer = 0; peer < meeting_.size(); ++peer) {
    StreamWaits* const waits =
        waits_of(reinterpret_cast<StreamWaits*>(waits_->get()), meeting_.size(), meeting_.rank(), peer);
    waits->ready = waits->done = waits->sent = waits->received = first_epoch;
  }
}

// With the words that streams wait for; the first service has mapped the regions.
void Group::start_service(uint32_t first_epoch, int64_t timeout_ms) {
  check(cudaDeviceSynchronize(), "setting up");
  if (agreement_.path == CC_CUDA_PATH_HOST) {
    host_fold_ = std::make_unique<HostFold>(meeting_, agreement_.takes_turns);
  }
  if (agreement_.takes_turns && agreement_.path != CC_CUDA_PATH_KERNEL) {
    cpu_fold_ = std::make_unique<CpuFold>(meeting_, bytes_on_cpus(agreement_.path, meeting_.size()), timeout_ms);
  }
  service_.reset();
  service_ = std::make_unique<Service>(watched(timeout_ms), first_epoch);
}

Service::Watched Group::watched(int64_t timeout_ms) const {
  Service::Watched watched{board_,
                           buffers_.get(),
                           failure_.get(),
                           words_->host<HostWords>(),
                           waits_ ? reinterpret_cast<StreamWaits*>(waits_->get()) : nullptr,
                           meeting_.comm(),
                           meeting_.rank(),
                           meeting_.size(),
                           device_,
                           timeout_ms * 1000000};
  if (host_fold_) watched.host_waits.push_back(host_fold_.get());
  return watched;
}

// Blocks that wait for peers must all be resident, those of all ranks of the GPU at the same time.
int Group::blocks_that_fit(int wished) const {
  int fit = wished > 0 ? wished : kMostBlocks;
  int multiprocessors = 0;
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device_), "asking for the device");
  for (const void* function : all_kernels(meeting_.size())) {
    // This loads the kernel too. One that is loaded when it is first used may wait for one that waits for its peer.
    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, function), "loading a kernel");
    int per_multiprocessor = 0;
    check(
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, function, attributes.maxThreadsPerBlock, 0),
        "asking for the occupancy of a kernel");
    fit = std::min(fit, per_multiprocessor * multiprocessors / agreement_.ranks_on_device);
  }
  if (fit < 1) {
    throw Error(CC_ERROR_SYSTEM, "the GPU cannot run one block of each of its " +
                                     std::to_string(agreement_.ranks_on_device) + " ranks at the same time");
  }
  return fit;
}

Group::~Group() {
  settle();
  // Memory is not freed below a kernel that waits.
  if (cudaEventQuery(order_.last()) == cudaErrorNotReady) {
    failure_->fail(CC_ERROR_ABORTED, "the handle was destroyed during an operation");
  }
  buffers_->leave();
  service_.reset();
}

// Returns when the operations that were queued have ended, or after a moment.
void Group::settle() {
  const int64_t begin = now_ns();
  while (cudaEventQuery(order_.last()) == cudaErrorNotReady && now_ns() - begin < kSettleNs) sched_yield();
}

void Group::require_peers() {
  failure_->throw_if_failed();
  if (const int rank = buffers_->first_that_left(); rank >= 0) {
    failure_->fail(CC_ERROR_REMOTE, "rank " + std::to_string(rank) + " has destroyed its handle");
    failure_->throw_if_failed();
  }
}

template <typename Body>
void Group::queue(cudaStream_t stream, Body body) {
  const std::lock_guard<std::mutex> lock(mutex_);
  require_peers();
  const bool captured = order_.begin(stream);
  if (!captured && now_ns() - tended_ns_ > kTendEveryNs && cudaEventQuery(order_.last()) == cudaSuccess) {
    buffers_->tend();
    tended_ns_ = now_ns();
  }
  buffers_->begin_operation(captured);
  try {
    body(captured);
  } catch (const Error&) {
    failure_->throw_if_failed();  // the first failure is the reason for those that follow
    throw;
  }
  order_.end(stream, captured);
  service_->notice_work();
}

void Group::carry_out(const cc_cuda_call& call, Way way) {
  const auto* const send = static_cast<const char*>(call.send);
  auto* const recv = static_cast<char*>(call.recv);
  const size_t element = cc_dtype_size(call.dtype);
  const auto stream = static_cast<cudaStream_t>(call.stream);
  switch (call.collective) {
    case CC_CUDA_ALL_REDUCE:
      return all_reduce({send, recv, call.count, element, call.dtype, call.op, stream, way});
    case CC_CUDA_REDUCE_SCATTER:
      return reduce_scatter({send, recv, call.count, element, call.dtype, call.op, stream, way});
    default: {
      const int root = call.collective == CC_CUDA_BROADCAST ? call.root : -1;
      return copy({send, recv, call.count * element, root, call.dtype, call.count, stream, way});
    }
  }
}

std::vector<Way> Group::ways_of(const cc_cuda_call& call) const {
  const size_t bytes = call.count * cc_dtype_size(call.dtype);
  if (agreement_.path == CC_CUDA_PATH_HOST) return {Way::kAutomatic};
  if (agreement_.waits_in_streams) {
    std::vector<Way> ways{Way::kBuffers};
    if (call.collective != CC_CUDA_ALL_REDUCE) return ways;
    if (bytes <= context_.slot_bytes) ways.insert(ways.begin(), Way::kSlots);
    if (cpu_fold_ && cpu_fold_->takes(call.count, call.dtype, call.op)) ways.insert(ways.begin(), Way::kCpus);
    return ways;
  }
  if (bytes <= context_.packet_bytes) {
    return bytes < kLeastBytesToTryBuffers ? std::vector<Way>{Way::kPackets}
                                           : std::vector<Way>{Way::kPackets, Way::kBuffers};
  }
  return bytes > kMostBytesToTryPackets ? std::vector<Way>{Way::kBuffers}
                                        : std::vector<Way>{Way::kBuffers, Way::kPackets};
}

void Group::all_reduce(const ReduceCall& call) {
  queue(call.stream, [&](bool captured) {
    const size_t bytes = call.count * call.element;
    if (meeting_.size() == 1) {
      copy_own(call.send, call.recv, bytes, call.stream);
    } else if (!captured && folds_on_cpus(call)) {
      fold_on_cpus(call);
    } else if (stream_path_ && !captured) {
      stream_path_->all_reduce(call);
    } else if (folds_on_host(bytes, captured)) {
      host_fold_->all_reduce(call.send, call.recv, call.count, call.dtype, call.op, call.stream);
    } else {
      pass_gate(call_of(Kind::kAllReduce, call.dtype, call.op, 0, call.count), bytes, call.stream, captured);
      kernel_path_->all_reduce(call);
    }
  });
}

// On another stream than the default one, an operation runs beside the program's kernels, which a wide kernel that waits for
// a peer would keep from the multiprocessors.
void Group::pass_gate(uint64_t call, size_t bytes, cudaStream_t stream, bool captured) {
  const bool is_default = !stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
  if (!is_default && !captured && bytes >= kLargeBytes && agreement_.path == CC_CUDA_PATH_KERNEL) {
    start_gate(call, context_.peers, stream);
  }
}

bool Group::folds_on_cpus(const ReduceCall& call) const {
  const bool may = call.way == Way::kAutomatic || call.way == Way::kCpus;
  return may && cpu_fold_ && cpu_fold_->takes(call.count, call.dtype, call.op);
}

// The call blocks, so its failure is known at once. Like one on the device, it is that of the handle, and fills the output.
void Group::fold_on_cpus(const ReduceCall& call) {
  try {
    cpu_fold_->all_reduce(call.send, call.recv, call.count, call.dtype, call.op, call.stream);
  } catch (const Error& error) {
    const uint64_t text = call_of(Kind::kAllReduce, call.dtype, call.op, 0, call.count);
    failure_->fail(error.result(), text_of_call(text) + ": " + error.what());
    start_seal({{&context_.peers.host->abort}, 1, 0, call.recv, call.count * call.element, invalid_value(text)},
               call.stream);
    throw;
  }
}

bool Group::folds_on_host(size_t bytes, bool captured) const {
  if (!host_fold_ || captured) return false;
  return agreement_.takes_turns || bytes > kSlotBytesInHostMemory;
}

void Group::reduce_scatter(const ReduceCall& call) {
  queue(call.stream, [&](bool captured) {
    if (meeting_.size() == 1) {
      copy_own(call.send, call.recv, call.count * call.element, call.stream);
    } else if (stream_path_ && !captured) {
      stream_path_->reduce_scatter(call);
    } else {
      pass_gate(call_of(Kind::kReduceScatter, call.dtype, call.op, 0, call.count), call.count * call.element,
                call.stream, captured);
      kernel_path_->reduce_scatter(call);
    }
  });
}

// all_gather and broadcast.
void Group::copy(const CopyCall& call) {
  queue(call.stream, [&](bool captured) {
    if (meeting_.size() == 1) {
      copy_own(call.send, call.recv, call.bytes, call.stream);
    } else if (stream_path_ && !captured) {
      stream_path_->copy(call);
    } else {
      const Kind kind = call.root < 0 ? Kind::kAllGather : Kind::kBroadcast;
      pass_gate(call_of(kind, call.dtype, 0, std::max(call.root, 0), call.count), call.bytes, call.stream, captured);
      kernel_path_->copy(call);
    }
  });
}

void Group::exchange(const cc_cuda_transfer* transfers, size_t count, cudaStream_t stream) {
  queue(stream, [&](bool captured) {
    exchange_path_->exchange(transfers, count, stream, stream_path_ != nullptr && !captured);
  });
}

void Group::copy_own(const void* send, void* recv, size_t bytes, cudaStream_t stream) {
  if (send == recv) return;
  check(cudaMemcpyAsync(recv, send, bytes, cudaMemcpyDeviceToDevice, stream), "copying on the GPU");
}

void Group::wait(int64_t timeout_ms) {
  const int64_t begin = now_ns();
  while (true) {
    const cudaError_t code = cudaEventQuery(order_.last());
    if (code == cudaSuccess) break;
    if (code != cudaErrorNotReady) check(code, "waiting for an operation");
    const int64_t waited = now_ns() - begin;
    if (waited > timeout_ms * 1000000) {
      failure_->throw_if_failed();
      throw Error(CC_ERROR_TIMEOUT, "the operation did not end within " + std::to_string(timeout_ms) +
                                        " ms; work that was queued before it on its stream may not have ended");
    }
    if (waited < kLookNs) {
      sched_yield();
    } else {
      const timespec moment{0, 50000};
      nanosleep(&moment, nullptr);
    }
  }
  failure_->throw_if_failed();
}

std::string Group::description() const {
  const std::string buffers = buffers_->describe();
  return buffers.empty() ? description_ : description_ + "; " + buffers;
}

void Group::abort() {
  failure_->fail(CC_ERROR_ABORTED, "cc_cuda_abort was called on rank " + std::to_string(meeting_.rank()));
}

cc_result Group::poll(const char** text) {
  const cc_result result = failure_->poll();
  if (text) *text = result == CC_SUCCESS ? "" : failure_->text().c_str();
  return result;
}

}  // namespace ccore_cuda
