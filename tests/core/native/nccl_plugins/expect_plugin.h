// Checks of the plugin tests: a failure ends the case with its place.
#pragma once

#include <stdexcept>
#include <string>

#define EXPECT_THAT(condition)                                                                            \
  do {                                                                                                    \
    if (!(condition)) {                                                                                   \
      throw std::runtime_error(std::string(__FILE__) + ":" + std::to_string(__LINE__) + ": " #condition); \
    }                                                                                                     \
  } while (0)

namespace ccore::nccl {

inline void expect_text(const std::string& text, const std::string& part, const char* file, int line) {
  if (text.find(part) != std::string::npos) return;
  throw std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": '" + part + "' is not in '" + text +
                           "'");
}

}  // namespace ccore::nccl

#define EXPECT_TEXT(text, part) ccore::nccl::expect_text(text, part, __FILE__, __LINE__)
