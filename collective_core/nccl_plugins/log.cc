#include "log.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>

namespace ccore::nccl {
namespace {

std::atomic<Logger> g_logger{nullptr};

void write(LogLevel level, unsigned long subsystems, const char* pattern, va_list arguments) {
  const Logger logger = g_logger.load(std::memory_order_acquire);
  if (!logger) return;
  char line[1024];
  std::vsnprintf(line, sizeof line, pattern, arguments);
  logger(level, subsystems, "collective_core", 0, "%s", line);
}

}  // namespace

void set_logger(Logger logger) { g_logger.store(logger, std::memory_order_release); }

void info(unsigned long subsystems, const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  write(kLogInfo, subsystems, pattern, arguments);
  va_end(arguments);
}

void warn(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  write(kLogWarn, kLogInit | kLogNet, pattern, arguments);
  va_end(arguments);
}

}  // namespace ccore::nccl
