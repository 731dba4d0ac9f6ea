// What a collective costs by a model: latency of a message, time of a byte on a link, time to reduce a byte.
#pragma once

#include <cstddef>

#include "collectives/algorithm.h"
#include "collectives/measured.h"

namespace ccore {

struct LinkCost {
  double alpha_us;         // from the start of a message to its first byte at the other side
  double overhead_us;      // of each message, on the rank that sends or receives it
  double beta_us_per_byte;  // of a rank that sends and receives at once
};

// Of data that ranks read where its writer left it. Faster than links: it stays in caches.
struct SharedCost {
  double alpha_us;             // until all ranks have seen that all have written
  double copy_us_per_byte;     // from or to the rank's own memory
  double reduce_us_per_byte;   // of what another rank wrote, reading it included
};

// Of copies that the kernel makes between the ranks' own buffers.
struct CrossCost {
  double call_us;      // for each peer, whatever the size of what is copied
  double us_per_byte;  // of a rank that reads, reduces and writes that byte; two ranks
  double crowding;  // what each further rank adds to it where all write to all: they hold and release the same pages
};

struct CostModel {
  // Orders of magnitude of a present server, for what is not measured.
  LinkCost intra{1.0, 0.3, 0.1e-3};  // shared memory: 10 GB/s
  SharedCost shared{0.4, 0.05e-3, 0.1e-3};  // two shots overtake one at 8 KiB, as was measured for 2, 4 and 8 ranks
  CrossCost cross{4.0, 0.093e-3, 0.5};  // all_reduce overtakes the slots at 220 KiB for two ranks, at 3 MiB for four
  LinkCost inter{10.0, 3.0, 0.4e-3};  // TCP: 2.5 GB/s, shared by the ranks of a node
  double gamma_us_per_byte = 0.12e-3;  // 8 GB/s
  // What was measured instead, where it was; null: nothing.
  const Measured* measured = nullptr;
};

// Microseconds until the last rank is done: what was measured, else by the model. bytes: M of docs/algorithms.md. Pure, and growing with bytes.
double estimated_us(Kind kind, Algorithm algorithm, size_t bytes, const Shape& shape, const CostModel& model);

}  // namespace ccore
