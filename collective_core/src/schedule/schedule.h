// What one rank does in one collective, as data: who talks to whom at each step, about which block.
// Pure: no transport, no memory, no element type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ccore {

constexpr int kNone = -1;

enum class Action {
  copy,        // the received block replaces the local one
  reduce,      // received op this rank's own input
  fold_below,  // received op what this rank holds: the received part is of lower ranks
  fold_above,  // what this rank holds op received: the received part is of higher ranks
};

// A step sends one block and receives one, at the same moment; either half may be missing.
struct Step {
  int send_peer = kNone;
  int send_block = kNone;
  // The step whose received block is what is sent; kNone: the rank's own input. A byte may leave as soon as
  // the same byte of that step has arrived, which is what makes every schedule a pipeline.
  int send_after = kNone;
  int recv_peer = kNone;
  int recv_block = kNone;
  Action action = Action::copy;
  bool completes = false;  // the block is whole after this: an average is divided here
  // Steps of one lane go one after the other, in both directions; those of different lanes wait only for the
  // bytes that they are made of. All steps that send to one peer are of one lane, and all that receive from it.
  int lane = 0;
  bool continues = false;  // of the messages of the lane's step before: costs bytes, but no further message
};

struct Schedule {
  int rank = 0;
  int nranks = 1;
  int nblocks = 1;  // the data is cut into this many blocks
  std::vector<Step> steps;
};

// What keeps steps in different lanes, or in different directions, from spoiling a block that they share in
// memory. Element by element, as with send_after.
struct Waits {
  int recv_after_recv = kNone;  // the receiving step in another lane whose result is folded on or replaced
  int recv_after_send = kNone;  // the step that sends from the memory which is written, this one included
};
std::vector<Waits> waits_of(const Schedule& schedule);

// Elements [begin, begin + count) of block `block` when `count` elements are cut into nblocks: sizes differ
// by at most one, the larger ones come first, and a block may be empty.
struct Block {
  size_t begin;
  size_t count;
};
Block block_of(size_t count, int nblocks, int block);

}  // namespace ccore
