#include "schedule/schedules.h"

#include "schedule/powers.h"

namespace ccore {
Schedule doubling_all_reduce(int rank, int nranks) {
  Schedule schedule;
  schedule.rank = rank;
  schedule.nranks = nranks;
  const int power = power_of_two_up_to(nranks);
  const PowerPlaces places{nranks - power};
  const bool paired = places.paired(rank);
  if (!places.takes_part(rank)) {
    Step hand_over;
    hand_over.send_peer = rank + 1;
    hand_over.send_block = 0;
    Step result;
    result.recv_peer = rank + 1;
    result.recv_block = 0;
    schedule.steps = {hand_over, result};
    return schedule;
  }
  if (paired) {
    Step take;
    take.recv_peer = rank - 1;
    take.recv_block = 0;
    take.action = Action::fold_below;
    take.completes = power == 1;
    schedule.steps.push_back(take);
  }
  const int place = places.of_rank(rank);
  for (int distance = 1; distance < power; distance *= 2) {
    const int partner = places.rank_at(place ^ distance);
    Step exchange;
    exchange.send_peer = partner;
    exchange.send_block = 0;
    exchange.send_after = static_cast<int>(schedule.steps.size()) - 1;  // kNone for the first
    exchange.recv_peer = partner;
    exchange.recv_block = 0;
    exchange.action = partner < rank ? Action::fold_below : Action::fold_above;
    exchange.completes = 2 * distance == power;
    schedule.steps.push_back(exchange);
  }
  if (paired) {
    Step give_back;
    give_back.send_peer = rank - 1;
    give_back.send_block = 0;
    give_back.send_after = static_cast<int>(schedule.steps.size()) - 1;
    schedule.steps.push_back(give_back);
  }
  return schedule;
}

}  // namespace ccore
