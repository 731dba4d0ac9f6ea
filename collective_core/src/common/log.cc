#include "common/log.h"

#include <unistd.h>

#include <cctype>
#include <cstdarg>
#include <cstdio>
#include <string>

#include "common/env.h"
#include "common/error.h"

namespace ccore {
namespace {

struct LevelName {
  const char* name;
  LogLevel level;
};

// In the second row, what Horovod calls them.
constexpr LevelName kLevelNames[] = {
    {"none", LogLevel::none},    {"warn", LogLevel::warn},  {"version", LogLevel::version},
    {"info", LogLevel::info},    {"fatal", LogLevel::none}, {"error", LogLevel::none},
    {"warning", LogLevel::warn}, {"debug", LogLevel::info}, {"trace", LogLevel::info},
};

const LevelName* find_level(std::string text) {
  for (char& letter : text) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  for (const LevelName& one : kLevelNames) {
    if (text == one.name) return &one;
  }
  return nullptr;
}

LogLevel read_level() {
  const LevelName* found = find_level(env_text("CCORE_DEBUG"));
  return found ? found->level : LogLevel::none;
}

void write_line(const char* pattern, va_list arguments) {
  char line[1024];
  std::vsnprintf(line, sizeof line, pattern, arguments);
  // One call, so that lines of several ranks on one terminal do not mix.
  std::fprintf(stderr, "collective_core [%d] %s\n", static_cast<int>(getpid()), line);
}

}  // namespace

LogLevel log_level() {
  static const LogLevel level = read_level();
  return level;
}

void check_log_level() {
  const EnvSetting setting = env_setting("CCORE_DEBUG");
  if (setting.text.empty() || find_level(setting.text)) return;
  throw Error(CC_ERROR_INVALID_ARGUMENT,
              format("%s=%s: expected WARN, VERSION or INFO", setting.name.c_str(), setting.text.c_str()));
}

void log(LogLevel level, const char* pattern, ...) {
  if (level == LogLevel::none || level > log_level()) return;
  va_list arguments;
  va_start(arguments, pattern);
  write_line(pattern, arguments);
  va_end(arguments);
}

void log_always(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  write_line(pattern, arguments);
  va_end(arguments);
}

}  // namespace ccore
