// usage: ccore_native_tests CASE | matrix LAYOUT RANKS | algorithms LAYOUT RANKS
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <string>

#include "cases.h"

int main(int argc, char** argv) {
  const std::map<std::string, std::function<void()>> cases = {
      {"arena", test::arena},
      {"choose", test::choose},
      {"costs", test::costs},
      {"cpu-reduce", test::cpu_reduce},
      {"desync", test::desync},
      {"endurance", test::endurance},
      {"failures", test::failures},
      {"fuzz", test::fuzz},
      {"lifecycle", test::lifecycle},
      {"receive-any", test::receive_any},
      {"recorder", test::recorder},
      {"reduction", test::reduction},
      {"rendezvous", test::rendezvous},
      {"schedules", test::schedules},
      {"schedules-all-reduce", test::schedules_all_reduce},
      {"split", test::split},
      {"stripes", test::stripes},
      {"topk", test::topk},
      {"topk-levels", test::topk_levels},
      {"topk-ranks", test::topk_ranks},
      {"topology", test::topology},
      {"transfers", test::transfers},
      {"tuner", test::tuner},
      {"tuner-cache", test::tuner_cache},
      {"tuner-comm", test::tuner_comm},
      {"wire", test::wire},
  };
  const std::string name = argc > 1 ? argv[1] : "";
  try {
    if (name == "matrix" && argc == 4) {
      test::matrix(argv[2], std::atoi(argv[3]));
    } else if (name == "algorithms" && argc == 4) {
      test::algorithms(argv[2], std::atoi(argv[3]));
    } else if (argc == 2 && cases.count(name) == 1) {
      cases.at(name)();
    } else {
      std::fprintf(stderr, "usage: %s CASE | matrix LAYOUT RANKS | algorithms LAYOUT RANKS\n", argv[0]);
      for (const auto& one : cases) std::fprintf(stderr, "  %s\n", one.first.c_str());
      return 2;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s failed: %s\n", name.c_str(), error.what());
    return 1;
  }
  std::printf("%s passed\n", name.c_str());
  return 0;
}
