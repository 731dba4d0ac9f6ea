// libcollective_core.so and libcollective_core_cuda.so, which lie beside this library.
#pragma once

#include <string>

#include "collective_core/collective_core.h"
#include "collective_core/collective_core_cuda.h"
#include "collective_core/collective_core_cuda_tuning.h"

namespace ccore_nccl {

struct CoreLibrary {
  decltype(&cc_get_unique_id) get_unique_id;
  decltype(&cc_comm_init_rank) comm_init_rank;
  decltype(&cc_comm_finalize) comm_finalize;
  decltype(&cc_comm_abort) comm_abort;
  decltype(&cc_comm_destroy) comm_destroy;
  decltype(&cc_last_error) last_error;
  decltype(&cc_cuda_device_identity) device_identity;
  decltype(&cc_cuda_create) create;
  decltype(&cc_cuda_get_path) get_path;
  decltype(&cc_cuda_describe) describe;
  decltype(&cc_cuda_all_reduce) all_reduce;
  decltype(&cc_cuda_reduce_scatter) reduce_scatter;
  decltype(&cc_cuda_all_gather) all_gather;
  decltype(&cc_cuda_broadcast) broadcast;
  decltype(&cc_cuda_exchange) exchange;
  decltype(&cc_cuda_add_rival) add_rival;
  decltype(&cc_cuda_compete) compete;
  decltype(&cc_cuda_consult) consult;
  decltype(&cc_cuda_poll) poll;
  decltype(&cc_cuda_wait) wait;
  decltype(&cc_cuda_abort) abort;
  decltype(&cc_cuda_destroy) destroy;
  decltype(&cc_cuda_last_error) cuda_last_error;
};

// Loads both at the first call. Null: they cannot be used, and *why has the reason.
const CoreLibrary* core_library(std::string* why);
// After core_library() has returned a library.
const CoreLibrary& core();

}  // namespace ccore_nccl
