#include "tuner/table.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "common/error.h"
#include "common/sha256.h"

namespace ccore::nccl {
namespace {

constexpr const char* kTitle = "collective_core nccl choices 1\n";
constexpr size_t kMostChoices = 4096;

// By NCCL's numbers.
constexpr const char* kCollectives[] = {"broadcast", "reduce", "all_gather", "reduce_scatter", "all_reduce"};
constexpr const char* kAlgorithmNames[] = {"tree",      "ring", "collnet_direct", "collnet_chain", "nvls",
                                           "nvls_tree", "pat"};
constexpr const char* kProtocolNames[] = {"ll", "ll128", "simple"};

std::string hex_sha256(const std::string& text) {
  std::string hex;
  for (const unsigned char byte : sha256(text.data(), text.size())) hex += format("%02x", byte);
  return hex;
}

template <size_t kCount>
int number_of(const std::string& name, const char* const (&names)[kCount]) {
  const auto* found = std::find(std::begin(names), std::end(names), name);
  if (found == std::end(names)) throw std::invalid_argument("'" + name.substr(0, 40) + "' is not a known name");
  return static_cast<int>(found - std::begin(names));
}

uint64_t number(const std::string& word, uint64_t most) {
  uint64_t value = 0;
  const char* end = word.data() + word.size();
  const auto [at, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc() || at != end || value > most) {
    throw std::invalid_argument("'" + word.substr(0, 40) + "' is not a number in its range");
  }
  return value;
}

Choice choice_of(const std::string& line) {
  std::istringstream words(line);
  std::string title, collective, from, to, algorithm, protocol, channels, more;
  words >> title >> collective >> from >> to >> algorithm >> protocol >> channels;
  if (!words || words >> more || title != "choice") throw std::invalid_argument("a line is not a choice");
  Choice choice{};
  choice.collective = number_of(collective, kCollectives);
  choice.from = number(from, ~uint64_t{0});
  choice.to = number(to, ~uint64_t{0});
  choice.algorithm = number_of(algorithm, kAlgorithmNames);
  choice.protocol = number_of(protocol, kProtocolNames);
  choice.channels = static_cast<int>(number(channels, 1024));
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
  const std::string head = kTitle + ("key " + key) + "\n";
  if (text.compare(0, std::char_traits<char>::length(kTitle), kTitle) != 0) {
    throw std::invalid_argument("it is of another version");
  }
  const size_t sum = text.rfind("sha256 ");
  if (sum == std::string::npos || text.substr(sum) != "sha256 " + hex_sha256(text.substr(0, sum)) + "\n") {
    throw std::invalid_argument("its checksum is wrong");
  }
  if (text.compare(0, head.size(), head) != 0) throw std::invalid_argument("it is for another key");
  Table table;
  table.digest = text.substr(sum + 7, 12);
  for (size_t begin = head.size(); begin < sum;) {
    const size_t end = text.find('\n', begin);
    if (table.choices.size() == kMostChoices) throw std::invalid_argument("it has too many choices");
    table.choices.push_back(choice_of(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return table;
}

std::string table_file_name(const std::string& key) { return "nccl-" + hex_sha256(key).substr(0, 32) + ".txt"; }

}  // namespace ccore::nccl
