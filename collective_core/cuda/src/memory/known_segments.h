// The exports of memory of cuMemCreate that this rank has made, found by address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <vector>

#include "memory/segments.h"

namespace ccore_cuda {

class KnownSegments {
 public:
  struct Export {
    Segments segments;
    int number;  // the place on the board; below 0: cannot be exported
    uint64_t last_use;
    bool is_captured;  // a CUDA graph holds its addresses
  };

  // An export that contains the range, if no other memory was mapped there since. Null: none.
  const Export* find(uintptr_t begin, size_t bytes);
  const Export* add(Segments segments, int number);
  // Later uses are of a further operation, which may be captured in a graph.
  void begin_operation(bool is_captured);

  // Forgets exports of which the application has unmapped a part; then those that were not used for the longest time,
  // until at most `most` are left. Keeps what graphs hold. Returns their places. No operation may be under way: a peer
  // may be about to read the rest of an export.
  std::vector<int> forget(size_t most);
  size_t size() const { return exports_.size(); }

 private:
  void use(Export* which) const;

  std::list<Export> exports_;
  uint64_t operation_ = 0;
  bool is_captured_ = false;
};

}  // namespace ccore_cuda
