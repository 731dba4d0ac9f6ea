#include "api/support.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace ccore {
namespace {

// What every version of the struct has.
constexpr size_t kLeastOptions = offsetof(cc_op_options, tag);

}  // namespace

std::string& thread_error() {
  thread_local std::string text;
  return text;
}

cc_result fail(cc_result code, const char* text) {
  thread_error() = text;
  return code;
}

void require(bool condition, const char* text) {
  if (!condition) throw Error(CC_ERROR_INVALID_ARGUMENT, text);
}

void copy_text(const std::string& all, char* text, size_t size, size_t* needed) {
  require(needed != nullptr, "needed is null");
  require(text || size == 0, "text is null");
  *needed = all.size() + 1;
  if (size == 0) return;
  const size_t length = std::min(all.size(), size - 1);
  std::memcpy(text, all.data(), length);
  text[length] = '\0';
}

cc_op_options options_of(const cc_op_options* options) {
  cc_op_options full{};
  if (!options) return full;
  require(options->size >= kLeastOptions && options->size <= 4096, "cc_op_options.size is not set");
  std::memcpy(&full, options, std::min(options->size, sizeof full));
  require(full.timeout_ms >= 0, "cc_op_options.timeout_ms is negative");
  require(full.memory >= CC_MEMORY_AUTO && full.memory <= CC_MEMORY_DEVICE,
          "cc_op_options.memory is not one of cc_memory");
  return full;
}

int64_t timeout_of(const cc_op_options* options) { return options_of(options).timeout_ms; }

}  // namespace ccore
