#include "schedule/schedules.h"

#include "schedule/powers.h"

namespace ccore {
namespace {

// Blocks [begin, begin + count).
struct Span {
  int begin;
  int count;
};

class HalvingBuilder {
 public:
  HalvingBuilder(int rank, int nranks) : power_(power_of_two_up_to(nranks)), places_{nranks - power_} {
    schedule_.rank = rank;
    schedule_.nranks = nranks;
    schedule_.nblocks = power_;
    last_.assign(static_cast<size_t>(power_), kNone);
  }

  Schedule build() {
    const int rank = schedule_.rank;
    const Span all{0, power_};
    const Span nothing{0, 0};
    if (!places_.takes_part(rank)) {
      exchange(rank + 1, all, nothing, Action::copy, false);
      exchange(rank + 1, nothing, all, Action::copy, false);
      return schedule_;
    }
    if (places_.paired(rank)) exchange(rank - 1, nothing, all, Action::fold_below, false);
    const int place = places_.of_rank(rank);
    Span mine = all;
    for (int distance = 1; distance < power_; distance *= 2) {
      const int partner = places_.rank_at(place ^ distance);
      const int half = mine.count / 2;
      const Span lower{mine.begin, half};
      const Span upper{mine.begin + half, half};
      const bool keeps_upper = (place & distance) != 0;
      mine = keeps_upper ? upper : lower;
      exchange(partner, keeps_upper ? lower : upper, mine, partner < rank ? Action::fold_below : Action::fold_above,
               half == 1);
    }
    for (int distance = power_ / 2; distance > 0; distance /= 2) {
      const bool has_upper = (place & distance) != 0;
      const Span theirs{has_upper ? mine.begin - mine.count : mine.begin + mine.count, mine.count};
      exchange(places_.rank_at(place ^ distance), mine, theirs, Action::copy, false);
      mine = Span{has_upper ? theirs.begin : mine.begin, 2 * mine.count};
    }
    if (places_.paired(rank)) exchange(rank - 1, all, nothing, Action::copy, false);
    return schedule_;
  }

 private:
  // One message each way, of the blocks of the two spans.
  void exchange(int peer, Span leaves, Span comes, Action action, bool completes) {
    for (int i = 0; i < leaves.count || i < comes.count; ++i) {
      Step step;
      step.continues = i > 0;
      if (i < leaves.count) {
        step.send_peer = peer;
        step.send_block = leaves.begin + i;
        step.send_after = last_[static_cast<size_t>(step.send_block)];
      }
      if (i < comes.count) {
        step.recv_peer = peer;
        step.recv_block = comes.begin + i;
        step.action = action;
        step.completes = completes;
        last_[static_cast<size_t>(step.recv_block)] = static_cast<int>(schedule_.steps.size());
      }
      schedule_.steps.push_back(step);
    }
  }

  int power_;
  PowerPlaces places_;
  std::vector<int> last_;  // by block: the step that received it last
  Schedule schedule_;
};

}  // namespace

Schedule halving_all_reduce(int rank, int nranks) { return HalvingBuilder(rank, nranks).build(); }

}  // namespace ccore
