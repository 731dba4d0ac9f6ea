// Numbers with a point, whatever the language of the program: a process that has called setlocale() may write 0,5, and
// its strtod() ends at the point of 0.5.
#pragma once

#include <locale.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace ccore {

// While it lives, this thread reads and writes numbers as in C.
class PlainNumbers {
 public:
  PlainNumbers() : before_(uselocale(plain())) {}
  ~PlainNumbers() { uselocale(before_); }
  PlainNumbers(const PlainNumbers&) = delete;
  PlainNumbers& operator=(const PlainNumbers&) = delete;

 private:
  static locale_t plain() {
    static const locale_t locale = newlocale(LC_ALL_MASK, "C", nullptr);
    return locale;
  }

  locale_t before_;
};

// The text as a number, such as 0.5; nothing unless all of it is one.
inline std::optional<double> number_from(const std::string& text) {
  const PlainNumbers plain;
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') return std::nullopt;
  return number;
}

}  // namespace ccore
