// What a communicator does about its tuner beside telling it of every operation.
#include "collectives/barrier/barrier.h"
#include "collectives/broadcast/broadcast.h"
#include "common/env.h"
#include "common/error.h"
#include "engine/communicator.h"
#include "tuner/identity.h"

namespace ccore {
namespace {

// A file has no more; a rank that is sent more is not to believe it.
constexpr uint64_t kMostChoices = 4096;

Operation operation_of(TuningStep step) {
  Operation operation;
  operation.kind = Kind::tuning;
  operation.tag = step;
  return operation;
}

std::string model_size_text(int64_t bytes) {
  return bytes == 0 ? "" : format("%lld bytes", static_cast<long long>(bytes));
}

}  // namespace

// Rank 0 reads and sends to the others: files that differ between hosts cannot make ranks differ.
void Communicator::load_choices() {
  std::vector<Choice> choices;
  if (rank_ == 0) {
    choices = tuning_.load(table_identity(),
                           model_key(env_text("CCORE_CACHE_MODEL"), model_size_text(connections_.tuner.model_bytes)));
  }
  run(operation_of(kTunerLoads), settings_.init_timeout_ms, [&](const Context& context) {
    uint64_t count = choices.size();
    broadcast_tree(context, &count, &count, sizeof count, 0);
    if (count > kMostChoices) throw Error(CC_ERROR_INTERNAL, "rank 0 sent too many choices");
    choices.resize(count);
    if (count > 0) broadcast_tree(context, choices.data(), choices.data(), count * sizeof(Choice), 0);
  });
  tuning_.use(choices);
}

CacheIdentity Communicator::table_identity() const {
  std::vector<std::string> transports;
  for (const auto& link : connections_.links) {
    if (link) transports.emplace_back(link->name());
  }
  return {machine_text(connections_.cores_on_host), std::string("collective_core ") + cc_version_string(),
          scale_text(places_, transports) +
              format(", %s, cma %s, slots of %lld bytes, %d streams", chooser_.shape.shared ? "shared memory" : "links",
                     chooser_.shape.crossed ? "in use" : "not used", static_cast<long long>(settings_.slot_bytes),
                     connections_.streams.streams)};
}

void Communicator::retune() {
  run(operation_of(kTunerSearches), 0, [&](const Context& context) {
    barrier_dissemination(context);
    tuning_.retune();
  });
}

void Communicator::set_algorithm(const Choice& choice) {
  Operation operation = operation_of(kTunerIsSet);
  operation.shape = uint64_t{choice.kind} << 48 | uint64_t{choice.size_class} << 40 |
                    uint64_t{choice.dtype_class} << 32 | choice.algorithm;
  run(operation, 0, [&](const Context& context) {
    barrier_dissemination(context);
    tuning_.use({choice});
  });
}

Choice Communicator::choice_of(const std::string& collective, uint64_t bytes, cc_dtype dtype,
                               const std::string& algorithm) const {
  return tuning_.choice_of(collective, bytes, dtype, algorithm);
}

std::string Communicator::tuner_text() {
  check_process();
  const Turns::Turn turn(&turns_);
  return tuning_.dump();
}

}  // namespace ccore
