// The NCCL behind this library, of whatever version the process has.
#pragma once

#include "nccl_abi.h"

namespace ccore_nccl {

// The address of a function of the real NCCL, or null if that version lacks it. Looks behind this library in the order
// of symbol search, then in the libnccl.so.2 that is loaded, then loads it (CCORE_NCCL_PATH, or by its name).
void* find_in_nccl(const char* name);

// The functions that this library calls or forwards. A null pointer: NCCL lacks it, or there is no NCCL.
struct RealNccl {
  Result (*all_reduce)(const void*, void*, size_t, int, int, Comm, Stream);
  Result (*all_gather)(const void*, void*, size_t, int, Comm, Stream);
  Result (*reduce_scatter)(const void*, void*, size_t, int, int, Comm, Stream);
  Result (*broadcast)(const void*, void*, size_t, int, int, Comm, Stream);
  Result (*send)(const void*, size_t, int, int, Comm, Stream);
  Result (*recv)(void*, size_t, int, int, Comm, Stream);
  Result (*group_start)();
  Result (*group_end)();
  Result (*group_simulate_end)(void*);
  Result (*comm_init_rank)(Comm*, int, UniqueId, int);
  Result (*comm_init_rank_config)(Comm*, int, UniqueId, int, Config*);
  Result (*comm_init_rank_scalable)(Comm*, int, int, int, UniqueId*, Config*);
  Result (*comm_split)(Comm, int, int, Comm*, Config*);
  Result (*comm_destroy)(Comm);
  Result (*comm_abort)(Comm);
  Result (*comm_count)(Comm, int*);
  Result (*comm_user_rank)(Comm, int*);
  Result (*comm_cu_device)(Comm, int*);
  Result (*comm_get_async_error)(Comm, Result*);
  const char* (*get_last_error)(Comm);
  Result (*get_version)(int*);
};

// Finds the functions at the first call.
const RealNccl& real();

// Calls a function of the real NCCL. One that it lacks fails as a system error.
template <class... Parameters, class... Arguments>
Result pass(Result (*function)(Parameters...), Arguments... arguments) {
  return function == nullptr ? kSystemError : function(arguments...);
}

}  // namespace ccore_nccl
