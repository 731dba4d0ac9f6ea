// The C ABI of the tuner.
#include "api_support.h"
#include "collective_core/collective_core.h"
#include "common/dtype.h"

using ccore::guarded;
using ccore::require;

extern "C" {

cc_result cc_tuner_dump(cc_comm* comm, char* text, size_t size, size_t* needed) {
  return guarded([&] {
    require(comm && needed, "an argument is null");
    require(text || size == 0, "text is null");
    ccore::copy_text(comm->communicator.tuner_text(), text, size, needed);
  });
}

cc_result cc_tuner_retune(cc_comm* comm) {
  return guarded([&] {
    require(comm != nullptr, "comm is null");
    comm->communicator.retune();
  });
}

cc_result cc_tuner_set(cc_comm* comm, const char* collective, size_t bytes, cc_dtype dtype,
                       const char* algorithm) {
  return guarded([&] {
    require(comm && collective && algorithm, "an argument is null");
    require(ccore::dtype_size(dtype) != 0, "unknown dtype");
    require(bytes > 0, "bytes is 0");
    comm->communicator.set_algorithm(comm->communicator.choice_of(collective, bytes, dtype, algorithm));
  });
}

}  // extern "C"
