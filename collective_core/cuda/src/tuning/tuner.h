// The tuner of a handle: carries out the program's calls by the ways that compete, and by the winner afterwards.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "collective_core/collective_core_cuda_tuning.h"
#include "group.h"
#include "memory/board.h"
#include "tuning/call_class.h"
#include "tuning/competition.h"
#include "tuning/kept_choices.h"
#include "tuning/result_check.h"
#include "tuning/settings.h"
#include "tuning/shared_record.h"
#include "tuning/timed_calls.h"
#include "tuning/trials.h"
#include "tuning/way.h"

namespace ccore_cuda {

class Tuner {
 public:
  // Collective; fails on all ranks if it fails on one. Without a rival, the path's own choice is the one to beat.
  Tuner(Group* group, const cc_cuda_rival* rival);

  // Carries out a call of the program. Throws Error, also for a failure of the rival.
  void run(const cc_cuda_call& call);
  bool has_rival() const { return rival_.has_value(); }
  // The choice for such calls, if there is one. Any thread.
  std::optional<Way> choice_for(int collective, size_t count, cc_dtype dtype) const;
  // What was chosen so far, for people: "all_reduce 2^20 packets, ...". Empty: nothing.
  std::string summary() const;

 private:
  struct Rival {
    cc_cuda_rival calls;
    std::string name;
    std::string version;
  };
  // A class without a choice, on this rank.
  struct Open {
    uint32_t calls = 0;  // until the measured kind of call is known
    std::optional<cc_cuda_call> measured;
    std::vector<Way> ways;  // the candidates
    std::optional<Trials> trials;
    TimedCalls timed;
  };

  static std::optional<Rival> copy_of(const cc_cuda_rival* rival);
  void share_settings();
  CallClass class_of_call(const cc_cuda_call& call) const;
  Way fallback(const cc_cuda_call& call) const;
  void compete(const cc_cuda_call& call, CallClass of, Open* open);
  void open_trials(const cc_cuda_call& call, CallClass of, Open* open);
  void try_out(const cc_cuda_call& call, CallClass of, const Trials::Turn& turn, Open* open);
  void settle(CallClass of, const Verdict& verdict, const std::vector<Way>& ways);
  void wait_for(int rank, const std::string& what, int64_t begin_ns) const;
  void choose(CallClass of, Way way, double us, double first_us, bool kept);
  void carry_out(const cc_cuda_call& call, Way way);
  std::string name_of(Way way) const;
  std::vector<SharedRecord*> shared_records(CallClass of) const;

  Group* const group_;
  const std::optional<Rival> rival_;
  TuningSettings settings_{};
  SharedMapping shared_records_;
  std::unique_ptr<ResultCheck> result_check_;
  std::unique_ptr<KeptChoices> kept_;  // of rank 0, if choices are kept
  std::array<std::atomic<uint8_t>, kCallClasses> choices_{};  // 1 + the way; 0: none yet
  std::mutex mutex_;  // of what is open
  std::array<std::unique_ptr<Open>, kCallClasses> open_;
};

}  // namespace ccore_cuda
