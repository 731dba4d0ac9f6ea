#include "schedule/doubling.h"

namespace ccore {
namespace {

int power_of_two_up_to(int nranks) {
  int power = 1;
  while (2 * power <= nranks) power *= 2;
  return power;
}

// Of the first 2 * extra ranks only the odd ones take part in the exchanges, each for itself and the rank
// below it.
struct Places {
  int extra;

  int of_rank(int rank) const { return rank < 2 * extra ? rank / 2 : rank - extra; }
  int rank_at(int place) const { return place < extra ? 2 * place + 1 : place + extra; }
};

}  // namespace

Schedule doubling_all_reduce(int rank, int nranks) {
  Schedule schedule;
  schedule.rank = rank;
  schedule.nranks = nranks;
  const int power = power_of_two_up_to(nranks);
  const Places places{nranks - power};
  const bool paired = rank < 2 * places.extra;
  if (paired && rank % 2 == 0) {
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
