// The tuner's functions that NCCL calls, in every version of its table, and those of measure.h.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

#include "abi/tuner_tables.h"
#include "common/env.h"
#include "common/error.h"
#include "log.h"
#include "net/plugin_state.h"
#include "tuner/cache.h"
#include "tuner/measure.h"
#include "tuner/surroundings.h"
#include "tuner/table.h"

namespace ccore::nccl {
namespace {

constexpr const char* kName = "ccore";
constexpr int kLeaveToNccl = -2;

struct Forced {
  int algorithm;
  int protocol;
  int channels;
};

struct Measuring {
  std::mutex mutex;
  Forced forced{kUndefined, kUndefined, 0};
  ccore_nccl_question question{};
  std::string key;
  std::string path;
};

Measuring& measuring() {
  static Measuring instance;
  return instance;
}

// Of a communicator.
struct Context {
  Table table;
};

std::string key_of(size_t ranks, size_t nodes, int version) {
  const char* net = net_is_used().load() ? "ccore" : "own";
  return format("gpu=%s; ranks=%zu; nodes=%zu; nccl=%d; net=%s", gpu_name().c_str(), ranks, nodes, version, net);
}

std::string path_of(const std::string& key) {
  const std::string own = env_text("CCORE_NCCL_TABLE");
  if (!own.empty()) return own;
  const std::string directory = cache_directory();
  return directory.empty() ? "" : directory + "/" + table_file_name(key);
}

Table load(const std::string& key, const std::string& path) {
  if (env_integer("CCORE_NCCL_TUNER", 1, 0, 1) == 0) {
    info(kLogInit | kLogTuning, "TUNER/ccore : off (CCORE_NCCL_TUNER=0)");
    return Table{};
  }
  try {
    const std::string text = path.empty() ? "" : read_cache(path);
    if (text.empty()) {
      info(kLogInit | kLogTuning,
           "TUNER/ccore : no table for %s at %s; NCCL chooses. To make one, start "
           "python -m collective_core.nccl_tune on all ranks",
           key.c_str(), path.c_str());
      return Table{};
    }
    Table table = parse_table(key, text);
    info(kLogInit | kLogTuning, "TUNER/ccore : %zu choices from %s, digest %s, for %s", table.choices.size(),
         path.c_str(), table.digest.c_str(), key.c_str());
    return table;
  } catch (const std::invalid_argument& error) {
    warn(
        "TUNER/ccore : %s is not used: %s; NCCL chooses. Expected a table for %s: start "
        "python -m collective_core.nccl_tune on all ranks",
        path.c_str(), error.what(), key.c_str());
  } catch (const Error& error) {
    warn("TUNER/ccore : %s; NCCL chooses", error.what());
  }
  return Table{};
}

Result init(size_t ranks, size_t nodes, Logger logger, void** context, void* caller) {
  set_logger(logger);
  try {
    auto made = std::make_unique<Context>();
    const std::string key = key_of(ranks, nodes, nccl_version(caller));
    const std::string path = path_of(key);
    made->table = load(key, path);
    Measuring& it = measuring();
    const std::lock_guard<std::mutex> lock(it.mutex);
    it.key = key;
    it.path = path;
    *context = made.release();
    return kSuccess;
  } catch (const std::exception& error) {
    warn("TUNER/ccore : %s", error.what());
    return kInternalError;
  }
}

__attribute__((noinline)) Result init_v2(size_t ranks, size_t nodes, Logger logger, void** context) {
  return init(ranks, nodes, logger, context, __builtin_return_address(0));
}

__attribute__((noinline)) Result init_v5(void** context, uint64_t /*comm_id*/, size_t ranks, size_t nodes,
                                         Logger logger, void* /*nvlink_domains*/, void* /*constants*/) {
  return init(ranks, nodes, logger, context, __builtin_return_address(0));
}

Result finalize(void* context) {
  delete static_cast<Context*>(context);
  return kSuccess;
}

// What applies to this question: algorithm kUndefined for NCCL's own choice.
Forced choice_for(const Context& context, const ccore_nccl_question& seen) {
  Measuring& it = measuring();
  {
    const std::lock_guard<std::mutex> lock(it.mutex);
    const uint64_t questions = it.question.questions + 1;
    it.question = seen;
    it.question.questions = questions;
    if (it.forced.algorithm == kLeaveToNccl) return Forced{kUndefined, kUndefined, 0};
    if (it.forced.algorithm != kUndefined) return it.forced;
  }
  const Choice* found = context.table.find(seen.collective, seen.bytes);
  return found ? Forced{found->algorithm, found->protocol, found->channels} : Forced{kUndefined, kUndefined, 0};
}

Result choose_v2(void* context, int collective, size_t bytes, int /*collnet*/, int /*nvls*/, int /*operations*/,
                 int* algorithm, int* protocol, int* channels) {
  const ccore_nccl_question seen{0, bytes, collective, kUndefined, kUndefined, 0};
  const Forced choice = choice_for(*static_cast<Context*>(context), seen);
  if (choice.algorithm == kUndefined) return kSuccess;
  *algorithm = choice.algorithm;
  *protocol = choice.protocol;
  if (choice.channels > 0) *channels = choice.channels;
  return kSuccess;
}

Result choose_v4(void* context, int collective, size_t bytes, int /*operations*/, float** costs, int algorithms,
                 int protocols, int /*registered*/, int* channels) {
  // NCCL passes a two-dimensional array.
  auto* cost = reinterpret_cast<float*>(costs);
  ccore_nccl_question seen{0, bytes, collective, kUndefined, kUndefined, 0};
  float least = 0;
  for (int a = 0; a < std::min(algorithms, kAlgorithms); ++a) {
    for (int p = 0; p < std::min(protocols, kProtocols); ++p) {
      const float one = cost[a * protocols + p];
      if (one < 0) continue;
      seen.available |= 1u << (kProtocols * a + p);
      if (seen.own_algorithm != kUndefined && one >= least) continue;
      least = one;
      seen.own_algorithm = a;
      seen.own_protocol = p;
    }
  }
  const Forced choice = choice_for(*static_cast<Context*>(context), seen);
  if (choice.algorithm == kUndefined || choice.algorithm >= algorithms || choice.protocol >= protocols) return kSuccess;
  float* chosen = &cost[choice.algorithm * protocols + choice.protocol];
  if (*chosen < 0) return kSuccess;  // NCCL cannot use it here
  *chosen = 0;
  if (choice.channels > 0) *channels = choice.channels;
  return kSuccess;
}

Result choose_v3(void* context, int collective, size_t bytes, int operations, float** costs, int algorithms,
                 int protocols, int* channels) {
  return choose_v4(context, collective, bytes, operations, costs, algorithms, protocols, 0, channels);
}

size_t copy_text(const std::string& from, char* to, size_t size) {
  if (size > 0) {
    const size_t count = std::min(from.size(), size - 1);
    std::memcpy(to, from.data(), count);
    to[count] = '\0';
  }
  return from.size();
}

}  // namespace
}  // namespace ccore::nccl

#define CCORE_EXPORT extern "C" __attribute__((visibility("default")))

using ccore::nccl::measuring;

CCORE_EXPORT const ccore::nccl::TunerV2 ncclTunerPlugin_v2 = {ccore::nccl::kName, ccore::nccl::init_v2,
                                                              ccore::nccl::choose_v2, ccore::nccl::finalize};
CCORE_EXPORT const ccore::nccl::TunerV3 ncclTunerPlugin_v3 = {ccore::nccl::kName, ccore::nccl::init_v2,
                                                              ccore::nccl::choose_v3, ccore::nccl::finalize};
CCORE_EXPORT const ccore::nccl::TunerV4 ncclTunerPlugin_v4 = {ccore::nccl::kName, ccore::nccl::init_v2,
                                                              ccore::nccl::choose_v4, ccore::nccl::finalize};
CCORE_EXPORT const ccore::nccl::TunerV5 ncclTunerPlugin_v5 = {ccore::nccl::kName, ccore::nccl::init_v5,
                                                              ccore::nccl::choose_v4, ccore::nccl::finalize};
CCORE_EXPORT const ccore::nccl::TunerV6 ncclTunerPlugin_v6 = {ccore::nccl::kName, ccore::nccl::init_v5,
                                                              ccore::nccl::choose_v4, ccore::nccl::finalize, nullptr};

CCORE_EXPORT void ccore_nccl_force(int algorithm, int protocol, int channels) {
  const std::lock_guard<std::mutex> lock(measuring().mutex);
  measuring().forced = {algorithm, protocol, channels};
}

CCORE_EXPORT void ccore_nccl_last_question(ccore_nccl_question* question) {
  const std::lock_guard<std::mutex> lock(measuring().mutex);
  *question = measuring().question;
}

CCORE_EXPORT size_t ccore_nccl_table_key(char* text, size_t size) {
  const std::lock_guard<std::mutex> lock(measuring().mutex);
  return ccore::nccl::copy_text(measuring().key, text, size);
}

CCORE_EXPORT size_t ccore_nccl_table_path(char* text, size_t size) {
  const std::lock_guard<std::mutex> lock(measuring().mutex);
  return ccore::nccl::copy_text(measuring().path, text, size);
}
