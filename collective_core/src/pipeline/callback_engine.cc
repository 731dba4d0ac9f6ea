#include "pipeline/callback_engine.h"

#include <array>

#include "common/error.h"

namespace ccore {
namespace {

using Text = std::array<char, 1024>;

[[noreturn]] void throw_failed(cc_result result, Text* text) {
  text->back() = '\0';
  throw Error(CC_ERROR_SYSTEM, text->front() ? text->data()
                                             : format("the copy engine returned %d and no text",
                                                      static_cast<int>(result)));
}

}  // namespace

CallbackEngine::CallbackEngine(const cc_copy_engine& callbacks) {
  if (callbacks.size < sizeof(cc_copy_engine) || callbacks.size > 4096) {
    throw Error(CC_ERROR_INVALID_ARGUMENT, "cc_copy_engine.size is not set");
  }
  if (!callbacks.start_to_host || !callbacks.start_to_device || !callbacks.poll) {
    throw Error(CC_ERROR_INVALID_ARGUMENT, "a callback of cc_copy_engine is null");
  }
  callbacks_ = callbacks;
}

uint64_t CallbackEngine::start_to_host(void* host, const void* device, size_t bytes) {
  Text text{};
  uint64_t copy = 0;
  const cc_result result =
      callbacks_.start_to_host(callbacks_.context, host, device, bytes, &copy, text.data(), text.size());
  if (result != CC_SUCCESS) throw_failed(result, &text);
  return copy;
}

uint64_t CallbackEngine::start_to_device(void* device, const void* host, size_t bytes) {
  Text text{};
  uint64_t copy = 0;
  const cc_result result =
      callbacks_.start_to_device(callbacks_.context, device, host, bytes, &copy, text.data(), text.size());
  if (result != CC_SUCCESS) throw_failed(result, &text);
  return copy;
}

bool CallbackEngine::poll(uint64_t copy) {
  Text text{};
  const cc_result result = callbacks_.poll(callbacks_.context, copy, text.data(), text.size());
  if (result == CC_IN_PROGRESS) return false;
  if (result != CC_SUCCESS) throw_failed(result, &text);
  return true;
}

}  // namespace ccore
