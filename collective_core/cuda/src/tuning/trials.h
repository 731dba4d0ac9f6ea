// One rank's trials of the candidates for one class of calls, without CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tuning/competition.h"
#include "tuning/shared_record.h"

namespace ccore_cuda {

class Trials {
 public:
  struct Turn {
    uint32_t number;                  // of the call
    Step step;                        // what to do with the call, without a verdict
    std::optional<Verdict> verdict;  // the same on all ranks before the same call
  };

  // shared_records: of all ranks, for this class.
  Trials(const Plan& plan, size_t candidates, std::vector<SharedRecord*> shared_records, int rank)
      : plan_(plan),
        candidates_(candidates),
        shared_records_(std::move(shared_records)),
        own_(shared_records_[static_cast<size_t>(rank)]) {}

  // Before each call. collect(record) fills the record of this rank and returns whether it is complete; it is called
  // after the last trial, until it is. patience: as for records_at().
  template <typename Collect, typename Patience>
  Turn next(Collect collect, Patience patience) {
    const uint32_t number = number_++;
    if (!posted_ && number >= calls_of_trials(plan_, candidates_) && collect(&record_)) {
      own_->post(number, record_);
      posted_ = true;
    }
    own_->begin(number);
    Turn turn{number, step_of(plan_, candidates_, number), std::nullopt};
    if (turn.step.kind == Step::Kind::kBoundary) {
      const auto records = records_at(shared_records_, number, plan_.margin, patience);
      if (records) turn.verdict = decide(*records, candidates_, plan_.rounds);
    }
    return turn;
  }

 private:
  const Plan plan_;
  const size_t candidates_;
  const std::vector<SharedRecord*> shared_records_;
  SharedRecord* const own_;
  uint32_t number_ = 0;
  Record record_;
  bool posted_ = false;
};

}  // namespace ccore_cuda
