#include "common/error.h"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <system_error>
#include <vector>

#include "common/plain_numbers.h"

namespace ccore {

std::string format(const char* pattern, ...) {
  const PlainNumbers plain;
  va_list arguments;
  va_start(arguments, pattern);
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, pattern, arguments);
  va_end(arguments);
  std::vector<char> text(static_cast<size_t>(length < 0 ? 0 : length) + 1);
  std::vsnprintf(text.data(), text.size(), pattern, again);
  va_end(again);
  return std::string(text.data());
}

std::string errno_text(int error_number) { return std::generic_category().message(error_number); }

void throw_errno(const std::string& what) { throw Error(CC_ERROR_SYSTEM, what + ": " + errno_text(errno)); }

}  // namespace ccore
