// The C ABI of memory that other ranks of the node can reach.
#include "api/support.h"
#include "engine/register_memory.h"
#include "transport/shm/shared_memory.h"

extern "C" {

cc_result cc_mem_alloc(void** memory, size_t bytes) {
  if (memory) *memory = nullptr;
  return ccore::guarded([&] {
    ccore::require(memory != nullptr, "memory is null");
    ccore::require(bytes > 0, "bytes is 0");
    *memory = ccore::allocate_shared(bytes);
  });
}

cc_result cc_mem_free(void* memory) {
  return ccore::guarded([&] {
    if (memory) ccore::free_shared(memory);
  });
}

cc_result cc_mem_register(cc_comm* comm, void* memory, size_t bytes, cc_mem_handle* handle, int* direct,
                          const cc_op_options* options) {
  if (handle) *handle = 0;
  return ccore::guarded([&] {
    ccore::require(comm && memory && handle, "an argument is null");
    ccore::require(bytes > 0, "bytes is 0");
    bool reached = false;
    *handle = ccore::register_memory(&comm->communicator, memory, bytes, ccore::timeout_of(options), &reached);
    if (direct) *direct = reached ? 1 : 0;
  });
}

cc_result cc_mem_deregister(cc_comm* comm, cc_mem_handle handle, const cc_op_options* options) {
  return ccore::guarded([&] {
    ccore::require(comm != nullptr, "comm is null");
    ccore::deregister_memory(&comm->communicator, handle, ccore::timeout_of(options));
  });
}

}  // extern "C"
