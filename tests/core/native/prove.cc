#include "prove.h"

#include <algorithm>

#include "expect.h"
#include "symbolic.h"

namespace test {

using ccore::Schedule;

std::vector<Schedule> for_all(int p, const std::function<Schedule(int)>& make) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < p; ++rank) schedules.push_back(make(rank));
  return schedules;
}

void prove(const std::string& what, const std::vector<Schedule>& schedules, int dividing) {
  std::vector<Schedule> finer;
  for (const Schedule& schedule : schedules) finer.push_back(halved(schedule));
  for (const std::vector<Schedule>* variant : {&schedules, static_cast<const std::vector<Schedule>*>(&finer)}) {
    const SymbolicRun run = run_from_full_input(*variant);
    EXPECT(run.problem.empty(), what, ": ", run.problem);
    for (const auto& blocks : run.holds) {
      for (const auto& counts : blocks) {
        EXPECT(std::all_of(counts.begin(), counts.end(), [](int n) { return n == 1; }), what,
               ": not every contribution once");
      }
    }
  }
  std::vector<int> divided(static_cast<size_t>(schedules[0].nblocks));
  for (const Schedule& schedule : schedules) {
    for (const ccore::Step& step : schedule.steps) {
      if (!step.completes) continue;
      EXPECT(step.action != ccore::Action::copy, what, ": a copy that divides");
      ++divided[static_cast<size_t>(step.recv_block)];
    }
  }
  const int times = schedules.size() > 1 ? dividing : 0;
  EXPECT(std::all_of(divided.begin(), divided.end(), [=](int n) { return n == times; }), what,
         ": a block is not divided at ", times, " ranks");
}

}  // namespace test
