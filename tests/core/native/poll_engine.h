// A copy engine whose clock are the polls: a copy moves its bytes after a set number of polls, and not before, so that
// data which is used, or memory which is taken, too early gives a wrong result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "collective_core/collective_core.h"

namespace test {

class PollEngine {
 public:
  static constexpr int kNever = -1;

  int polls_to_host = 3;  // kNever: copies do not end
  int polls_to_device = 3;
  // The copy to the host, counted from 0, that cannot start, or that fails when it is asked for; kNever: none does.
  int fails_to_start = kNever;
  int fails_to_end = kNever;
  std::function<void()> on_poll;

  // What was seen.
  int fetches = 0;
  int next_under_way = 0;  // chunks whose successor was coming to the host while they were reduced
  int last_under_way = 0;  // those whose predecessor was going back
  size_t most_chunks = 0;  // between the start of a chunk's first copy and the end of its second
  std::set<const void*> buffers;
  std::string defect;  // of the pipeline
  size_t under_way() const { return copies_.size(); }

  cc_copy_engine callbacks();

 private:
  struct Copy {
    void* to;
    const void* from;
    size_t bytes;
    bool back;
    int polls;
    bool fails;
  };
  cc_result fetch(void* host, const void* device, size_t bytes, uint64_t* copy, char* error, size_t error_bytes);
  cc_result give_back(void* device, const void* host, size_t bytes, uint64_t* copy);
  cc_result poll(uint64_t number, char* error, size_t error_bytes);

  uint64_t last_ = 0;
  std::map<uint64_t, Copy> copies_;
  std::set<const void*> occupied_;
};

}  // namespace test
