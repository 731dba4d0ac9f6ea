// Matrices of links of known machines.
#pragma once

#include <string>
#include <vector>

#include "schedule/trees.h"
#include "topology/link_matrix.h"

namespace test {

// Eight V100 of a DGX-1V, joined by one or two NVLinks of 25 * 10^9 bytes/s in each direction, as `nvidia-smi topo -m`
// shows them in PyTorch's benchmarks/distributed/ddp/README.md; the rate of a link is that of NVIDIA's DGX-1 whitepaper.
std::string dgx1v_text();
// Its first ranks.
ccore::LinkMatrix dgx1v(int nranks = 8);
// The known packing of that machine: six chains from GPU 0, both directions of the three rings that NCCL finds there
// (0 3 2 1 5 6 7 4 twice, over the double links, and 0 1 3 7 5 4 6 2).
std::vector<ccore::Tree> dgx1v_chains();
// The text of any matrix, as a file has it.
std::string text_of(const ccore::LinkMatrix& links);
// Ranks behind a switch: all links alike.
ccore::LinkMatrix switched(int nranks, float gbytes_per_s);

}  // namespace test
