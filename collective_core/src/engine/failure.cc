#include "engine/failure.h"

namespace ccore {

bool Failure::set(cc_result code, const std::string& text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (code_.load(std::memory_order_relaxed) != CC_SUCCESS) return false;
  text_ = text;
  code_.store(code, std::memory_order_release);
  return true;
}

std::string Failure::text() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return text_;
}

void Failure::check() const {
  const cc_result now = code();
  if (now != CC_SUCCESS) throw Error(now, text());
}

}  // namespace ccore
