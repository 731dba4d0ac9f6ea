#include "api/device.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "api/support.h"
#include "collectives/all_gather/all_gather.h"
#include "common/log.h"
#include "device/memory_kind.h"
#include "engine/split.h"

namespace ccore {
namespace {

constexpr char kLibrary[] = "libcollective_core_cuda.so";

// What a rank says when they meet; travels as bytes.
struct Ability {
  char obstacle[256] = {};  // empty: it can
};

// The library that lies beside this one; null and the reason if it cannot be used.
const DevicePart* load_part(std::string* obstacle) {
  Dl_info self{};
  std::string path = kLibrary;
  if (dladdr(reinterpret_cast<void*>(&load_part), &self) != 0 && self.dli_fname) {
    const std::string own = self.dli_fname;
    const size_t slash = own.rfind('/');
    if (slash != std::string::npos) path = own.substr(0, slash + 1) + kLibrary;
  }
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* const why = dlerror();
    *obstacle = why ? why : path + " cannot be loaded";
    return nullptr;
  }
  const auto function = reinterpret_cast<DevicePartFunction>(dlsym(library, "cc_cuda_device_part"));
  const DevicePart* const part = function ? function() : nullptr;
  if (part && part->version == CC_VERSION_NUMBER) return part;
  *obstacle = path + " is of another version; install both of one wheel";
  return nullptr;
}

const char* name_of_way(DeviceWay way) {
  switch (way) {
    case DeviceWay::inside:
      return "gpu";
    case DeviceWay::between:
      return "2d_gpu";
    case DeviceWay::staged:
      break;
  }
  return "staged";
}

}  // namespace

DeviceSide::DeviceSide(Communicator* whole) : whole_(whole) { look_for_driver(); }

DeviceSide::~DeviceSide() {
  if (handle_) part_->destroy(handle_);
}

void DeviceSide::run(Operation operation, const DeviceCall& call, uint64_t elements) {
  operation.tag = kOnDevice;
  {
    const std::lock_guard<std::mutex> meeting(meeting_);
    if (!has_met_) meet(call.timeout_ms);
  }
  if (!handle_) throw Error(CC_ERROR_INVALID_USAGE, refusal_);
  whole_->run(
      operation, call.timeout_ms,
      [&](const Context&) {
        DeviceWay way = DeviceWay::staged;
        const cc_result result = part_->run(handle_, &call, &way);
        if (result != CC_SUCCESS) {
          const Error error(result, part_->last_error());
          part_->abort(handle_);  // or the others would wait for this rank
          throw error;
        }
        whole_->set_way(name_of_way(way));
      },
      elements);
}

void DeviceSide::meet(int64_t timeout_ms) {
  Operation operation;
  operation.kind = Kind::meeting;
  Ability own;
  std::string obstacle;
  const DevicePart* const part = load_part(&obstacle);
  std::strncpy(own.obstacle, obstacle.c_str(), sizeof own.obstacle - 1);
  std::string refusal;
  whole_->run(operation, timeout_ms, [&](const Context& context) {
    const std::vector<Ability> every = gather_all(context, own);
    for (size_t rank = 0; rank < every.size() && refusal.empty(); ++rank) {
      if (every[rank].obstacle[0] == '\0') continue;
      refusal = format(
          "rank %zu cannot work on device memory: %s; copy the data to host memory, or install a wheel of "
          "collective_core with its CUDA library on all nodes",
          rank, std::string(every[rank].obstacle, strnlen(every[rank].obstacle, sizeof(Ability))).c_str());
    }
  });
  if (refusal.empty()) {
    const auto seat = split(whole_, SplitWish{0, whole_->rank()}, nullptr);
    auto comm = std::make_unique<cc_comm>(seat->id, seat->rank, seat->nranks, seat->settings);
    void* handle = nullptr;
    if (part->create(comm.get(), &handle) == CC_SUCCESS) {
      const std::lock_guard<std::mutex> lock(mutex_);
      part_ = part;
      own_ = std::move(comm);
      handle_ = handle;
    } else {
      refusal = std::string("the ranks cannot work on device memory: ") + part->last_error();
    }
  }
  refusal_ = refusal;
  has_met_ = true;
  log(LogLevel::info, "operations on device memory: %s", refusal.empty() ? "possible" : refusal.c_str());
}

void DeviceSide::describe(const Operation& operation, cc_description* description) {
  const std::lock_guard<std::mutex> meeting(meeting_);
  if (has_met_ && !handle_) throw Error(CC_ERROR_INVALID_USAGE, refusal_);
  DeviceCall call{};
  call.operation = static_cast<cc_operation>(operation.kind);
  call.count = operation.count;
  call.dtype = static_cast<cc_dtype>(operation.dtype);
  DeviceWay way = DeviceWay::staged;
  const cc_result result = handle_ ? part_->way_of(handle_, &call, &way) : CC_SUCCESS;
  if (result != CC_SUCCESS) throw Error(result, part_->last_error());
  const std::string name = handle_ ? name_of_way(way) : "";
  std::memset(description->algorithm, 0, sizeof description->algorithm);
  std::strncpy(description->algorithm, name.c_str(), sizeof description->algorithm - 1);
  std::strncpy(description->path, "device", sizeof description->path - 1);
  description->reason = CC_REASON_MODEL;
}

void DeviceSide::poll() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!handle_ || whole_->failure().code() != CC_SUCCESS) return;
  const cc_result result = part_->poll(handle_);
  if (result != CC_SUCCESS) whole_->fail(result, part_->last_error());
}

void DeviceSide::abort() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (handle_) part_->abort(handle_);
}

}  // namespace ccore

cc_comm::cc_comm(const ccore::UniqueId& id, int rank, int nranks, const ccore::Settings& settings)
    : communicator(id, rank, nranks, settings), device(std::make_unique<ccore::DeviceSide>(&communicator)) {}

cc_comm::~cc_comm() {
  if (communicator.is_forked()) {
    static_cast<void>(device.release());  // its GPU and its peers are the parent's
    return;
  }
  communicator.end_operations();
  if (communicator.busy()) device->abort();
  communicator.wait_for_none();
}
