#include "topology/link_matrix.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

#include "common/error.h"
#include "common/index.h"
#include "common/plain_numbers.h"

namespace ccore {
namespace {

constexpr size_t kMostBytes = 1024 * 1024;  // what is larger is another file

[[noreturn]] void refuse(const std::string& source, const std::string& why) {
  throw Error(CC_ERROR_INVALID_ARGUMENT, source + ": " + why);
}

float bandwidth(const std::string& source, int from, int to, const std::string& word) {
  const std::string where = format("row %d, column %d: ", from + 1, to + 1);
  if (from == to) {
    if (word != "X" && word != "x" && word != "0") {
      refuse(source, where + "expected X for a rank itself, not '" + word + "'");
    }
    return 0;
  }
  const std::optional<double> value = number_from(word);
  if (!value || !(*value >= 0) || *value > std::numeric_limits<float>::max()) {
    refuse(source, where + "expected the link's 10^9 bytes per second, 0 for none, not '" + word + "'");
  }
  return static_cast<float>(*value);
}

}  // namespace

double LinkMatrix::between(int a, int b) const {
  return std::min(gbytes_per_s[at(a) * at(nranks) + at(b)], gbytes_per_s[at(b) * at(nranks) + at(a)]);
}

bool LinkMatrix::operator==(const LinkMatrix& other) const {
  return nranks == other.nranks && gbytes_per_s == other.gbytes_per_s;
}

std::vector<bool> reachable(const LinkMatrix& links) {
  std::vector<bool> reached(at(links.nranks));
  std::vector<int> to_visit = {0};
  while (!to_visit.empty()) {
    const int rank = to_visit.back();
    to_visit.pop_back();
    if (reached[at(rank)]) continue;
    reached[at(rank)] = true;
    for (int other = 0; other < links.nranks; ++other) {
      if (!reached[at(other)] && links.between(rank, other) > 0) to_visit.push_back(other);
    }
  }
  return reached;
}

LinkMatrix parse_link_matrix(const std::string& source, const std::string& text, int nranks) {
  if (nranks > kMostLinkedRanks) {
    refuse(source, format("there are %d ranks, expected %d at most", nranks, kMostLinkedRanks));
  }
  LinkMatrix links;
  links.nranks = nranks;
  std::istringstream lines(text);
  int row = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    int column = 0;
    for (std::string word; words >> word; ++column) {
      if (row >= nranks) refuse(source, format("it has more than %d rows, one for each rank", nranks));
      if (column < nranks) links.gbytes_per_s.push_back(bandwidth(source, row, column, word));
    }
    if (column == 0) continue;
    ++row;
    if (column != nranks) {
      refuse(source, format("row %d has %d columns, expected %d, one for each rank", row, column, nranks));
    }
  }
  if (row != nranks) refuse(source, format("it has %d rows, expected %d, one for each rank", row, nranks));
  const std::vector<bool> reached = reachable(links);
  const auto lost = std::find(reached.begin(), reached.end(), false);
  if (lost != reached.end()) {
    refuse(source, format("no links lead from rank 0 to rank %d, in both directions",
                          static_cast<int>(lost - reached.begin())));
  }
  return links;
}

LinkMatrix read_link_matrix(const std::string& source, const std::string& path, int nranks) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostBytes + 1, '\0');
  errno = 0;
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) refuse(source, "cannot read it: " + errno_text(errno));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMostBytes) refuse(source, "it has more than 1 MiB, and so is not a matrix of links");
  return parse_link_matrix(source, text, nranks);
}

LinkMatrix part_of(const LinkMatrix& links, const std::vector<int>& members) {
  LinkMatrix part;
  part.nranks = static_cast<int>(members.size());
  for (const int from : members) {
    for (const int to : members) part.gbytes_per_s.push_back(links.gbytes_per_s[at(from) * at(links.nranks) + at(to)]);
  }
  return part;
}

}  // namespace ccore
