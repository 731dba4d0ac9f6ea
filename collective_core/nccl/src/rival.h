// NCCL as a rival of collective_core: the tuner of a handle measures both on the program's calls.
#pragma once

#include "communicator.h"
#include "group.h"

namespace ccore_nccl {

// Whether CCORE_AUTOTUNE leaves the tuner on. Rank 0's holds for all.
bool tunes();

// Collective. Lets the calls of the communicator compete. Returns why they do not, or "".
std::string compete_with_nccl(Communicator* communicator);

// Whether a choice was made that leaves such calls to NCCL, or to collective_core; neither: not decided.
enum class Choice { undecided, collective_core, nccl };
Choice choice_for(const Call& call);

// Carries out a call by the one that is chosen, or measured now. Not inside a group. *passed: NCCL did it.
Result run_in_competition(const Call& call, bool* passed);

// A collective that was taken after all goes to NCCL.
Result pass_on(const Call& call);

}  // namespace ccore_nccl
