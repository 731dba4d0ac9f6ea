// Powers of two for any number of ranks: those beyond the largest one pair up with a neighbour, so that only a
// power of two takes part (Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in
// MPICH", 2005).
#pragma once

namespace ccore {

inline int power_of_two_up_to(int nranks) {
  int power = 1;
  while (2 * power <= nranks) power *= 2;
  return power;
}

// Of the first 2 * extra ranks only the odd ones take part, each for itself and the rank below it.
struct PowerPlaces {
  int extra;

  bool paired(int rank) const { return rank < 2 * extra; }
  bool takes_part(int rank) const { return !paired(rank) || rank % 2 == 1; }
  int of_rank(int rank) const { return paired(rank) ? rank / 2 : rank - extra; }
  int rank_at(int place) const { return place < extra ? 2 * place + 1 : place + extra; }
};

}  // namespace ccore
