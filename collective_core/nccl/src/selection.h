// Which calls collective_core takes. Every rank must decide alike, so only what NCCL requires to be equal on all ranks
// may count: the function, its type, its operator, its size, and what the ranks agreed on at the start.
#pragma once

#include <cstddef>
#include <optional>

#include "collective_core/collective_core.h"
#include "counters.h"

namespace ccore_nccl {

// Where the ranks of a communicator are, and how they reach each other.
enum class Place {
  shared_gpu_streams,  // one GPU, processes without MPS: streams wait
  shared_gpu_kernels,  // one GPU with MPS, or threads of one process: kernels wait
  peers,               // several GPUs with peer access: kernels wait
};

// Bytes of an element of NCCL's type; 0 for a type that this library does not know.
size_t size_of(int nccl_type);
// None for a type that this library does not know.
std::optional<cc_dtype> type_of(int nccl_type);
// None for operators that the program made.
std::optional<cc_redop> operator_of(int nccl_operator);

// And back.
int nccl_type(cc_dtype dtype);
int nccl_operator(cc_redop op);

// Whether CCORE_NCCL=all also takes functions that runs on a GPU have not proven.
bool takes_all();

// The bytes up to which collective_core takes a function without a measurement: of the larger of the two buffers of a
// rank. 0: it does not take the function there.
size_t most_bytes(Function function, Place place);

}  // namespace ccore_nccl
