#include "tuner/table.h"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "common/sha256.h"
#include "tuner/cache.h"

namespace ccore::nccl {
namespace {

constexpr const char* kTitle = "collective_core nccl choices 1";
constexpr size_t kMostChoices = 4096;

// By NCCL's numbers.
constexpr const char* kCollectives[] = {"broadcast", "reduce", "all_gather", "reduce_scatter", "all_reduce"};
constexpr const char* kAlgorithmNames[] = {"tree",      "ring", "collnet_direct", "collnet_chain", "nvls",
                                           "nvls_tree", "pat"};
constexpr const char* kProtocolNames[] = {"ll", "ll128", "simple"};

template <size_t kCount>
int number_of(const std::string& name, const char* const (&names)[kCount]) {
  const auto* found = std::find(std::begin(names), std::end(names), name);
  if (found == std::end(names)) throw std::invalid_argument("'" + name.substr(0, 40) + "' is not a known name");
  return static_cast<int>(found - std::begin(names));
}

Choice choice_of(const std::string& line) {
  std::istringstream words(line);
  std::string title, collective, from, to, algorithm, protocol, channels, more;
  words >> title >> collective >> from >> to >> algorithm >> protocol >> channels;
  if (!words || words >> more || title != "choice") throw std::invalid_argument("a line is not a choice");
  Choice choice{};
  choice.collective = number_of(collective, kCollectives);
  choice.from = parse_number(from, ~uint64_t{0});
  choice.to = parse_number(to, ~uint64_t{0});
  choice.algorithm = number_of(algorithm, kAlgorithmNames);
  choice.protocol = number_of(protocol, kProtocolNames);
  choice.channels = static_cast<int>(parse_number(channels, 1024));
  if (choice.from > choice.to) throw std::invalid_argument("a choice ends before it begins");
  return choice;
}

}  // namespace

const Choice* Table::find(int collective, uint64_t bytes) const {
  for (const Choice& one : choices) {
    if (one.collective == collective && one.from <= bytes && bytes <= one.to) return &one;
  }
  return nullptr;
}

Table parse_table(const std::string& key, const std::string& text) {
  Table table;
  for (const std::string& line : parse_lines(kTitle, "key " + key + "\n", text, kMostChoices)) {
    table.choices.push_back(choice_of(line));
  }
  table.digest = text.substr(text.rfind("sha256 ") + 7, 12);
  return table;
}

std::string table_file_name(const std::string& key) { return "nccl-" + hex_sha256(key).substr(0, 32) + ".txt"; }

}  // namespace ccore::nccl
