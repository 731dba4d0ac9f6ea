// usage: ccore_native_tests CASE | CASE LAYOUT RANKS
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "case_table.h"

int main(int argc, char** argv) {
  // What tests measure is for no other job; a case that wants files has a directory of its own.
  setenv("CCORE_MEASURE_CACHE", "0", 0);
  const test::CaseTable table = test::case_table();
  const std::string name = argc > 1 ? argv[1] : "";
  try {
    if (argc == 4 && table.on_ranks.count(name) == 1) {
      table.on_ranks.at(name)(argv[2], std::atoi(argv[3]));
    } else if (argc == 2 && table.plain.count(name) == 1) {
      table.plain.at(name)();
    } else {
      std::fprintf(stderr, "usage: %s CASE | CASE LAYOUT RANKS\n", argv[0]);
      for (const auto& one : table.plain) std::fprintf(stderr, "  %s\n", one.first.c_str());
      for (const auto& one : table.on_ranks) std::fprintf(stderr, "  %s LAYOUT RANKS\n", one.first.c_str());
      return 2;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s failed: %s\n", name.c_str(), error.what());
    return 1;
  }
  std::printf("%s passed\n", name.c_str());
  return 0;
}
