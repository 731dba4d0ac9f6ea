// The measured choices of one machine: which algorithm, protocol and number of channels for which sizes.
//
//   collective_core nccl choices 1
//   key gpu=NVIDIA H200; ranks=2; nodes=2; nccl=22809; net=ccore
//   choice all_reduce 0 4096 tree ll 1
//   sha256 ...
//
// A choice holds from the first size to the second one, both included. Channels 0: NCCL's own number.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ccore::nccl {

struct Choice {
  int collective;  // NCCL's numbers
  uint64_t from;
  uint64_t to;
  int algorithm;
  int protocol;
  int channels;
};

struct Table {
  std::vector<Choice> choices;
  std::string digest;  // of the text: equal on every node, or the ranks disagree

  // Null: NCCL's own choice.
  const Choice* find(int collective, uint64_t bytes) const;
};

// Throws std::invalid_argument, which says what is wrong.
Table parse_table(const std::string& key, const std::string& text);
// In the cache directory, one file for each key.
std::string table_file_name(const std::string& key);

}  // namespace ccore::nccl
