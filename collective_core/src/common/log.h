// Log lines on stderr, by CCORE_DEBUG: unset or none, WARN, VERSION, INFO, in letters of any case.
#pragma once

namespace ccore {

enum class LogLevel { none = 0, warn = 1, version = 2, info = 3 };

LogLevel log_level();
// Throws CC_ERROR_INVALID_ARGUMENT if CCORE_DEBUG is set to something else.
void check_log_level();
// What is not as the user asked, at every level.
void log_always(const char* pattern, ...) __attribute__((format(printf, 1, 2)));
void log(LogLevel level, const char* pattern, ...) __attribute__((format(printf, 2, 3)));

}  // namespace ccore
