// Whether the ranks of a node may have the kernel copy from and to each other's memory: tried when they meet, by every
// rank with every other one, and used by all or by none.
//
// What forbids it is seccomp (the profile of a container), Yama (kernel.yama.ptrace_scope), different users, or a
// process that is not dumpable; none of this can be read off a setting. In another pid namespace the number of a rank
// is another process, or none. So a rank first reads a random number of its peer where that says it is, and writes only
// if it is there; what it writes is seen by its owner.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rendezvous/client.h"
#include "transport/shm/cross_memory.h"

namespace ccore {

struct CrossMemoryProbe {
  std::unique_ptr<CrossMemory> memory;  // null: it may not be used
  std::string obstacle;  // then why, the same text on all ranks
};

// Collective over all ranks of the communicator, which are on one host. names: of them, for texts. wanted: by this rank.
CrossMemoryProbe probe_cross_memory(RendezvousClient* client, int rank, const std::vector<std::string>& names,
                                    bool wanted);

}  // namespace ccore
