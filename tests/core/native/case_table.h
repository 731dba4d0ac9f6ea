// Which cases a test program has: all of them, or those worth a sanitizer's time in every test run.
#pragma once

#include <functional>
#include <map>
#include <string>

namespace test {

struct CaseTable {
  std::map<std::string, std::function<void()>> plain;
  // Of a layout and a number of ranks.
  std::map<std::string, std::function<void(const std::string&, int)>> on_ranks;
};
// Defined by all_cases.cc and by sanitizer_cases.cc, of which a program has one.
CaseTable case_table();

}  // namespace test
