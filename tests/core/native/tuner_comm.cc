// Ranks that take different algorithms for the same operation: told, never a hang.
#include <array>
#include <cstdlib>
#include <string>

#include "api/support.h"
#include "cases.h"
#include "collectives/all_reduce/all_reduce.h"
#include "expect.h"
#include "ranks.h"

namespace test {
namespace {

using ccore::Algorithm;

void different_algorithms_are_told(const std::string& layout) {
  run_ranks(3, layout_named(layout), [&](int rank, cc_comm* comm) {
    const Algorithm taken = rank == 1 ? Algorithm::doubling : Algorithm::ring;
    std::array<float, 64> data{};
    ccore::Operation operation;
    operation.kind = ccore::Kind::all_reduce;
    operation.count = data.size();
    operation.dtype = CC_FLOAT32;
    operation.redop = CC_SUM;
    operation.algorithm = static_cast<uint32_t>(taken) + 1;
    const cc_result result = ccore::guarded([&] {
      comm->communicator.run(operation, 20000, [&](const ccore::Context& context) {
        ccore::all_reduce_by(taken, context, data.data(), data.data(), data.size(), CC_FLOAT32, CC_SUM);
      });
    });
    EXPECT(result == CC_ERROR_DESYNC || result == CC_ERROR_REMOTE, "rank ", rank, ": ", cc_error_string(result));
    const std::string text = last_error(comm);
    EXPECT(contains(text, "by ring") && contains(text, "by doubling"), text);
  });
}

// Wherever in a search one rank calls something else: also where the others are about to agree on an algorithm.
void different_calls_are_told() {
  constexpr int kCalls = 58;  // the six algorithms eight times each, the best of them once more, and some
  const std::array<std::array<const char*, 2>, 3> settings{
      {{"CCORE_AUTOTUNE", "1"}, {"CCORE_AUTOTUNE_WARMUP_CALLS", "0"}, {"CCORE_AUTOTUNE_PROFILE_CALLS", "1"}}};
  for (const auto& [name, value] : settings) EXPECT(setenv(name, value, 1) == 0, name);
  for (int deviates = 2; deviates <= kCalls; ++deviates) {
    run_ranks(2, layout_named("tcp"), [&](int rank, cc_comm* comm) {
      std::array<float, 64> data{};
      cc_result result = CC_SUCCESS;
      for (int i = 1; i <= deviates && result == CC_SUCCESS; ++i) {
        const size_t count = rank == 1 && i == deviates ? 5 : data.size();
        result = cc_all_reduce(data.data(), data.data(), count, CC_FLOAT32, CC_SUM, comm, nullptr);
      }
      const std::string text = last_error(comm);
      EXPECT(result == CC_ERROR_DESYNC && contains(text, "count=64") && contains(text, "count=5,"), "call ", deviates,
             ": ", text);
    });
  }
  for (const auto& [name, value] : settings) EXPECT(unsetenv(name) == 0, name, value);
}

void arguments_are_checked() {
  run_ranks(2, layout_named("shm"), [](int, cc_comm* comm) {
    const auto refuses = [&](const char* collective, size_t bytes, cc_dtype dtype, const char* algorithm,
                             const char* says) {
      const cc_result result = cc_tuner_set(comm, collective, bytes, dtype, algorithm);
      EXPECT(result == CC_ERROR_INVALID_ARGUMENT, says);
      EXPECT(contains(cc_last_error(nullptr), says), cc_last_error(nullptr));
    };
    refuses("all_reduced", 1, CC_FLOAT32, "ring", "no collective is called 'all_reduced'");
    refuses("all_reduce", 1, CC_FLOAT32, "chain", "all_reduce on these ranks has no algorithm 'chain'; it has ");
    refuses("all_reduce", 0, CC_FLOAT32, "ring", "bytes is 0");
    refuses("all_reduce", 1, static_cast<cc_dtype>(99), "ring", "unknown dtype");
    refuses(nullptr, 1, CC_FLOAT32, "ring", "an argument is null");
    size_t needed = 0;
    EXPECT(cc_tuner_dump(comm, nullptr, 0, &needed) == CC_SUCCESS && needed > 10, needed);
    std::array<char, 9> text{};
    EXPECT(cc_tuner_dump(comm, text.data(), text.size(), &needed) == CC_SUCCESS, "");
    EXPECT(std::string(text.data()) == "autotune", text.data());
    EXPECT(cc_tuner_dump(comm, nullptr, 1, &needed) == CC_ERROR_INVALID_ARGUMENT, "text is null");
    EXPECT(cc_tuner_dump(nullptr, nullptr, 0, &needed) == CC_ERROR_INVALID_ARGUMENT, "comm is null");
    EXPECT(cc_tuner_retune(nullptr) == CC_ERROR_INVALID_ARGUMENT, "comm is null");
    // The communicator still works after these errors, and takes the algorithm that is set.
    EXPECT(cc_tuner_set(comm, "all_reduce", 4096, CC_FLOAT32, "ring") == CC_SUCCESS, last_error(comm));
    std::array<float, 1024> data{};
    EXPECT(cc_all_reduce(data.data(), data.data(), data.size(), CC_FLOAT32, CC_SUM, comm, nullptr) == CC_SUCCESS, "");
    std::array<char, 200> all{};
    EXPECT(cc_tuner_dump(comm, all.data(), all.size(), &needed) == CC_SUCCESS, "");
    EXPECT(contains(all.data(), "all_reduce bytes 2^12 dtypes 32 and 64 bit or integer: fixed ring"), all.data());
  });
}

}  // namespace

void tuner_comm() {
  for (const char* layout : {"shm", "tcp"}) different_algorithms_are_told(layout);
  different_calls_are_told();
  arguments_are_checked();
}

}  // namespace test
