// NCCL's communicators whose ranks have a handle of collective_core too, and how a call finds its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "core_library.h"
#include "cuda_driver.h"
#include "nccl_abi.h"
#include "selection.h"

namespace ccore_nccl {

struct Communicator {
  Comm nccl = nullptr;
  int ranks = 0;
  uint64_t order = 0;  // equal on all ranks: groups run their communicators in this order
  Place place = Place::peers;
  cc_comm* comm = nullptr;
  cc_cuda* cuda = nullptr;
  bool competes = false;  // calls of it compete with those of NCCL
  Context context = nullptr;
  std::atomic<int> graphs{0};         // CUDA graphs that hold operations of it
  std::atomic<uint64_t> captured{0};  // the capture that was counted last
  std::atomic<bool> failed{false};    // and its text was kept
};

// Null for a communicator that NCCL serves alone. Any thread; a few nanoseconds.
Communicator* find_communicator(Comm nccl);
void add_communicator(std::unique_ptr<Communicator> communicator);
// The caller owns it from now on; null as find_communicator.
std::unique_ptr<Communicator> remove_communicator(Comm nccl);

// Frees it when all ranks are done with it. Memory that a CUDA graph or a rank that does not come may still use stays.
void retire(std::unique_ptr<Communicator> communicator);
// Ends what runs; its memory stays, because other ranks may be using it.
void abort_communicator(std::unique_ptr<Communicator> communicator);

}  // namespace ccore_nccl
