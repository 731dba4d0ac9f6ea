// The internal exception: a result code with a text. Nothing of it crosses the C ABI.
#pragma once

#include <stdexcept>
#include <string>

#include "collective_core/collective_core.h"

namespace ccore {

class Error : public std::runtime_error {
 public:
  Error(cc_result code, const std::string& text) : std::runtime_error(text), code_(code) {}
  cc_result code() const { return code_; }

 private:
  cc_result code_;
};

// printf-like text.
std::string format(const char* pattern, ...) __attribute__((format(printf, 1, 2)));

// Throws CC_ERROR_SYSTEM: "what: <strerror(errno)>".
[[noreturn]] void throw_errno(const std::string& what);
std::string errno_text(int error_number);

}  // namespace ccore
