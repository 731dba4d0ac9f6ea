#include "group.h"

#include <sched.h>
#include <time.h>

#include <algorithm>

#include "clock.h"
#include "error.h"

namespace ccore_cuda {
namespace {

constexpr int64_t kLookNs = 1000000;  // a wait of this length is spent looking; later the thread sleeps
constexpr int64_t kSettleNs = 1000000000;

// To it packets take less time than the meetings of the two-shot kernel. Each rank sends all of its data to all, so this
// falls with the number of ranks.
size_t packet_bytes_for(int ranks) {
  const size_t kib = ranks == 2 ? 512 : ranks <= 4 ? 256 : ranks <= 8 ? 64 : 32;
  return kib << 10;
}

// To this size streams meet once instead of twice. That saves a change of the time slice, at the price of more copies.
constexpr size_t kSlotBytes = size_t{1} << 20;
constexpr size_t kHostSlotBytes = size_t{256} << 10;  // of transfers through host memory
// PCIe carries twice the data in packets; above it HostFold is faster.
constexpr size_t kPacketBytesInHostMemory = size_t{128} << 10;

// As if all peers had come to the epoch before the first.
StreamLine first_line(uint32_t epoch) {
  StreamLine line{};
  line.ready = line.done = epoch;
  return line;
}

// Kernels of other ranks, which wait for this one, may run in the same context.
bool has_threads_on_device(const Agreement& agreement) { return agreement.threads_on_device > 1; }

int current_device() {
  int device = 0;
  check(cudaGetDevice(&device), "asking for the current device");
  return device;
}

std::vector<const void*> all_kernels(int ranks) {
  std::vector<const void*> all = copy_functions();
  for (const auto& some : {pull_functions(), exchange_functions()}) all.insert(all.end(), some.begin(), some.end());
  for (int dtype = CC_FLOAT64; dtype <= CC_UINT64; ++dtype) {
    const auto some = reduce_kernels(static_cast<cc_dtype>(dtype))->functions(ranks);
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
      control_(sizeof(Control)),
      words_(sizeof(HostWords)),
      failure_(board_, meeting_.rank(), words_.host<HostWords>()),
      buffers_(board_, meeting_.rank(), agreement_.processes),
      staging_(&buffers_, has_threads_on_device(agreement_)),
      description_(agreement_.description) {
  const Control control = initial_control(wishes.first_epoch);
  check(cudaMemcpy(control_.as<Control>(), &control, sizeof control, cudaMemcpyHostToDevice), "setting the epochs");
  HostWords* const words = words_.host<HostWords>();
  words->begun = words->ended = wishes.first_epoch;
  Service::Watched watched{board_, &buffers_,       &failure_,       words,   control_.as<Control>(), nullptr,
                           comm,   meeting_.rank(), meeting_.size(), device_, timeout_ms * 1000000};
  const bool in_host_memory = agreement_.path == CC_CUDA_PATH_HOST;
  context_.slot_bytes = in_host_memory ? kHostSlotBytes : agreement_.path == CC_CUDA_PATH_STREAM ? kSlotBytes : 0;
  {
    // Peers map what others export; the region that streams wait in comes with it.
    const Service mapper(watched, wishes.first_epoch);
    regions_ = in_host_memory ? make_host_regions(meeting_, context_.slot_bytes)
                              : make_device_regions(meeting_, context_.slot_bytes, &buffers_);
  }
  if (agreement_.path == CC_CUDA_PATH_STREAM) {
    watched.parts = part_of(regions_->of(meeting_.rank()), 0);
    const StreamLine line = first_line(wishes.first_epoch);
    for (int rank = 0; rank < meeting_.size(); ++rank) {
      check(cudaMemcpy(&watched.parts[rank].stream, &line, sizeof line, cudaMemcpyHostToDevice),
            "setting the words of streams");
      const uint32_t transfers[] = {wishes.first_epoch, wishes.first_epoch};
      check(cudaMemcpy(&watched.parts[rank].transfer.stream_sent, transfers, sizeof transfers, cudaMemcpyHostToDevice),
            "setting the words of streams");
    }
  }
  check(cudaDeviceSynchronize(), "setting up");
  if (in_host_memory) {
    host_fold_ = std::make_unique<HostFold>(meeting_, agreement_.takes_turns, timeout_ms);
    watched.host_waits.push_back(host_fold_.get());
  }
  service_ = std::make_unique<Service>(watched, wishes.first_epoch);

  context_.peers.control = control_.as<Control>();
  context_.peers.host = words_.device<HostWords>();
  for (int rank = 0; rank < meeting_.size(); ++rank) context_.peers.regions[rank] = regions_->of(rank);
  context_.peers.deadline_ns = static_cast<uint64_t>(timeout_ms) * 1000000;
  context_.peers.rank = meeting_.rank();
  context_.peers.size = meeting_.size();
  context_.buffers = &buffers_;
  context_.staging = &staging_;
  context_.service = service_.get();
  context_.words = words;
  context_.most_staging_bytes = static_cast<size_t>(wishes.staging_bytes);
  context_.packet_bytes =
      wishes.packet_bytes ? static_cast<size_t>(wishes.packet_bytes) : packet_bytes_for(meeting_.size());
  context_.maps_buffers = !in_host_memory;
  context_.blocks = agree_on_blocks(wishes.blocks);
  kernel_path_ = std::make_unique<KernelPath>(&context_);
  exchange_path_ = std::make_unique<ExchangePath>(&context_, wishes.first_epoch);
  if (agreement_.path == CC_CUDA_PATH_STREAM) {
    stream_path_ = std::make_unique<StreamPath>(&context_, wishes.first_epoch);
  }
  description_ += ", " + std::to_string(context_.blocks) + " blocks";
}

// Blocks that wait for peers must all be resident, those of all ranks of the GPU at the same time.
int Group::agree_on_blocks(int wished) const {
  int fit = kMostBlocks;
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
  if (wished > 0) fit = std::min(fit, wished);
  struct Blocks {
    int32_t fit;
    char error[160];
  };
  Blocks own{fit, {}};
  if (fit < 1) put(own.error, "the GPU cannot run one block of each of its ranks at the same time");
  const auto all = meeting_.exchange(own);
  require_all(all);
  for (const Blocks& other : all) fit = std::min(fit, static_cast<int>(other.fit));
  return fit;
}

Group::~Group() {
  const int64_t begin = now_ns();
  while (cudaEventQuery(order_.last()) == cudaErrorNotReady && now_ns() - begin < kSettleNs) sched_yield();
  buffers_.leave();
  service_.reset();
}

template <typename Body>
void Group::queue(cudaStream_t stream, Body body) {
  const std::lock_guard<std::mutex> lock(mutex_);
  failure_.throw_if_failed();
  const bool captured = order_.begin(stream);
  body(captured);
  order_.end(stream, captured);
  service_->notice_work();
}

void Group::all_reduce(const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op, cudaStream_t stream) {
  const ReduceCall call{
      static_cast<const char*>(send), static_cast<char*>(recv), count, cc_dtype_size(dtype), dtype, op, stream};
  queue(stream, [&](bool captured) {
    if (meeting_.size() == 1) {
      copy_own(send, recv, count * call.element, stream);
    } else if (stream_path_ && !captured) {
      stream_path_->all_reduce(call);
    } else if (folds_on_host(count * call.element, captured)) {
      host_fold_->all_reduce(send, recv, count, dtype, op, stream);
    } else {
      kernel_path_->all_reduce(call);
    }
  });
}

bool Group::folds_on_host(size_t bytes, bool captured) const {
  if (!host_fold_ || captured) return false;
  return agreement_.takes_turns || bytes > kPacketBytesInHostMemory;
}

void Group::reduce_scatter(const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op,
                           cudaStream_t stream) {
  const ReduceCall call{
      static_cast<const char*>(send), static_cast<char*>(recv), count, cc_dtype_size(dtype), dtype, op, stream};
  queue(stream, [&](bool captured) {
    if (meeting_.size() == 1) {
      copy_own(send, recv, count * call.element, stream);
    } else if (stream_path_ && !captured) {
      stream_path_->reduce_scatter(call);
    } else {
      kernel_path_->reduce_scatter(call);
    }
  });
}

void Group::all_gather(const void* send, void* recv, size_t count, cc_dtype dtype, cudaStream_t stream) {
  const size_t bytes = count * cc_dtype_size(dtype);
  const CopyCall call{static_cast<const char*>(send), static_cast<char*>(recv), bytes, -1, dtype, count, stream};
  queue(stream, [&](bool captured) {
    if (meeting_.size() == 1) {
      copy_own(send, recv, bytes, stream);
    } else if (stream_path_ && !captured) {
      stream_path_->copy(call);
    } else {
      kernel_path_->copy(call);
    }
  });
}

void Group::broadcast(const void* send, void* recv, size_t count, cc_dtype dtype, int root, cudaStream_t stream) {
  const size_t bytes = count * cc_dtype_size(dtype);
  const CopyCall call{static_cast<const char*>(send), static_cast<char*>(recv), bytes, root, dtype, count, stream};
  queue(stream, [&](bool captured) {
    if (meeting_.size() == 1) {
      copy_own(send, recv, bytes, stream);
    } else if (stream_path_ && !captured) {
      stream_path_->copy(call);
    } else {
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
      failure_.throw_if_failed();
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
  failure_.throw_if_failed();
}

void Group::abort() {
  failure_.fail(CC_ERROR_ABORTED, "cc_cuda_abort was called on rank " + std::to_string(meeting_.rank()));
}

cc_result Group::poll(const char** text) {
  const cc_result result = failure_.poll();
  if (text) *text = result == CC_SUCCESS ? "" : failure_.text().c_str();
  return result;
}

}  // namespace ccore_cuda
