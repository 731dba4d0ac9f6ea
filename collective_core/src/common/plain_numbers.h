// Numbers with a point, whatever the language of the program: a process that has called setlocale() may write 0,5, and
// its strtod() ends at the point of 0.5.
#pragma once

#include <locale.h>

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

}  // namespace ccore
