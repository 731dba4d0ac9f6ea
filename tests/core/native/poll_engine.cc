#include "poll_engine.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace test {

cc_copy_engine PollEngine::callbacks() {
  cc_copy_engine engine{};
  engine.size = sizeof engine;
  engine.context = this;
  engine.start_to_host = [](void* context, void* host, const void* device, size_t bytes, uint64_t* copy, char* error,
                            size_t error_bytes) {
    return static_cast<PollEngine*>(context)->fetch(host, device, bytes, copy, error, error_bytes);
  };
  engine.start_to_device = [](void* context, void* device, const void* host, size_t bytes, uint64_t* copy, char*,
                              size_t) {
    return static_cast<PollEngine*>(context)->give_back(device, host, bytes, copy);
  };
  engine.poll = [](void* context, uint64_t copy, char* error, size_t error_bytes) {
    return static_cast<PollEngine*>(context)->poll(copy, error, error_bytes);
  };
  return engine;
}

cc_result PollEngine::fetch(void* host, const void* device, size_t bytes, uint64_t* copy, char* error,
                            size_t error_bytes) {
  const int number = fetches++;
  if (number == fails_to_start) {
    std::snprintf(error, error_bytes, "no copy channel is left");
    return CC_ERROR_INTERNAL;
  }
  if (!occupied_.insert(host).second) defect = "a buffer was taken before it was free";
  if (bytes == 0) defect = "an empty copy";
  buffers.insert(host);
  most_chunks = std::max(most_chunks, occupied_.size());
  *copy = ++last_;
  copies_[last_] = Copy{host, device, bytes, false, polls_to_host, number == fails_to_end};
  return CC_SUCCESS;
}

// A chunk goes back at once after it was reduced, without a poll in between: what is under way now, was then.
cc_result PollEngine::give_back(void* device, const void* host, size_t bytes, uint64_t* copy) {
  if (occupied_.count(host) == 0) defect = "a buffer went back that nothing came to";
  const auto goes_back = [](const auto& one) { return one.second.back; };
  const auto comes = [](const auto& one) { return !one.second.back; };
  if (std::any_of(copies_.begin(), copies_.end(), comes)) ++next_under_way;
  if (std::any_of(copies_.begin(), copies_.end(), goes_back)) ++last_under_way;
  *copy = ++last_;
  copies_[last_] = Copy{device, host, bytes, true, polls_to_device, false};
  return CC_SUCCESS;
}

cc_result PollEngine::poll(uint64_t number, char* error, size_t error_bytes) {
  if (on_poll) on_poll();
  const auto found = copies_.find(number);
  if (found == copies_.end()) {
    defect = "a poll for a copy that is not under way";
    return CC_SUCCESS;
  }
  Copy& copy = found->second;
  if (copy.polls == kNever || --copy.polls > 0) return CC_IN_PROGRESS;
  const Copy ended = copy;
  copies_.erase(found);
  if (ended.fails) {
    std::snprintf(error, error_bytes, "uncorrectable memory error at page 17");
    return CC_ERROR_INTERNAL;
  }
  std::memcpy(ended.to, ended.from, ended.bytes);
  if (ended.back) occupied_.erase(ended.from);
  return CC_SUCCESS;
}

}  // namespace test
