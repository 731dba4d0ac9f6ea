// A failed expectation is an exception with file, line and what was seen.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace test {

class Failed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <typename... Parts>
[[noreturn]] void fail(const char* file, int line, const Parts&... parts) {
  std::ostringstream text;
  text << file << ":" << line << ": ";
  (text << ... << parts);
  throw Failed(text.str());
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace test

#define EXPECT(condition, ...)                                                               \
  do {                                                                                       \
    if (!(condition)) test::fail(__FILE__, __LINE__, #condition " is false. ", __VA_ARGS__); \
  } while (false)
