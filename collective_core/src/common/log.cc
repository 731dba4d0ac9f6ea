#include "common/log.h"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <string>

#include "common/env.h"

namespace ccore {
namespace {

LogLevel read_level() {
  const std::string text = env_text("CCORE_DEBUG");
  if (text == "INFO" || text == "TRACE") return LogLevel::info;
  if (text == "VERSION") return LogLevel::version;
  if (text == "WARN") return LogLevel::warn;
  return LogLevel::none;
}

}  // namespace

LogLevel log_level() {
  static const LogLevel level = read_level();
  return level;
}

void log(LogLevel level, const char* pattern, ...) {
  if (level == LogLevel::none || level > log_level()) return;
  char line[1024];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(line, sizeof line, pattern, arguments);
  va_end(arguments);
  // One call, so that lines of several ranks on one terminal do not mix.
  std::fprintf(stderr, "collective_core [%d] %s\n", static_cast<int>(getpid()), line);
}

}  // namespace ccore
