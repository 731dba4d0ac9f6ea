#include "link_fixtures.h"

#include <numeric>
#include <sstream>
#include <vector>

namespace test {

std::string dgx1v_text() {
  return R"(# gpu0 gpu1 gpu2 gpu3 gpu4 gpu5 gpu6 gpu7
      X   25   25   50   50    0    0    0
     25    X   50   25    0   50    0    0
     25   50    X   50    0    0   25    0
     50   25   50    X    0    0    0   25  # the end of the first board
     50    0    0    0    X   25   25   50
      0   50    0    0   25    X   50   25
      0    0   25    0   25   50    X   50
      0    0    0   25   50   25   50    X
)";
}

ccore::LinkMatrix dgx1v(int nranks) {
  std::vector<int> first(static_cast<size_t>(nranks));
  std::iota(first.begin(), first.end(), 0);
  return part_of(ccore::parse_link_matrix("DGX-1V", dgx1v_text(), 8), first);
}

std::vector<ccore::Tree> dgx1v_chains() {
  std::vector<ccore::Tree> chains;
  const auto add = [&](const std::vector<int>& order, int share) {
    ccore::Tree chain{std::vector<int>(order.size(), ccore::kNone), share};
    for (size_t i = 1; i < order.size(); ++i) chain.parent[static_cast<size_t>(order[i])] = order[i - 1];
    chains.push_back(chain);
  };
  add({0, 3, 2, 1, 5, 6, 7, 4}, 2);
  add({0, 4, 7, 6, 5, 1, 2, 3}, 2);
  add({0, 1, 3, 7, 5, 4, 6, 2}, 1);
  add({0, 2, 6, 4, 5, 7, 3, 1}, 1);
  return chains;
}

std::string text_of(const ccore::LinkMatrix& links) {
  std::ostringstream text;
  for (size_t i = 0; i < links.gbytes_per_s.size(); ++i) {
    text << links.gbytes_per_s[i] << ((i + 1) % static_cast<size_t>(links.nranks) == 0 ? '\n' : ' ');
  }
  return text.str();
}

ccore::LinkMatrix switched(int nranks, float gbytes_per_s) {
  const auto p = static_cast<size_t>(nranks);
  ccore::LinkMatrix links{nranks, std::vector<float>(p * p, gbytes_per_s)};
  for (size_t rank = 0; rank < p; ++rank) links.gbytes_per_s[rank * p + rank] = 0;
  return links;
}

}  // namespace test
