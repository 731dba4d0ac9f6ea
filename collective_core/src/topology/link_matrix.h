// What every pair of ranks can carry: a bandwidth for each of their links, given by the user.
#pragma once

#include <string>
#include <vector>

namespace ccore {

struct LinkMatrix {
  int nranks = 0;
  std::vector<float> gbytes_per_s;  // of one direction, by sender, then receiver; 0: no link; the diagonal is 0

  // Of both directions at once: the slower one's.
  double between(int a, int b) const;
  bool operator==(const LinkMatrix& other) const;
};

// More than any machine has accelerators; what travels at the start of a communicator stays small.
constexpr int kMostLinkedRanks = 64;

// A row per sender and a column per receiver, in the order of ranks: numbers in units of 10^9 bytes per second, 0 for
// no link, 0 or X for a rank itself. From # to the end of a line is comment. Throws CC_ERROR_INVALID_ARGUMENT, which
// begins with `source`, if it is not a matrix of nranks ranks, or leaves ranks without a way to rank 0.
LinkMatrix parse_link_matrix(const std::string& source, const std::string& text, int nranks);
// The same of a file; also CC_ERROR_INVALID_ARGUMENT when it cannot be read.
LinkMatrix read_link_matrix(const std::string& source, const std::string& path, int nranks);

// The ranks that a way over links joins with rank 0, by rank.
std::vector<bool> reachable(const LinkMatrix& links);
// That of some of the ranks, numbered in this order.
LinkMatrix part_of(const LinkMatrix& links, const std::vector<int>& members);

}  // namespace ccore
