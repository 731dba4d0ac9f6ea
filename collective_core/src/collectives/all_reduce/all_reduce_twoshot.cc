#include "collectives/all_reduce/all_reduce.h"

#include "collectives/all_reduce/without_slots.h"
#include "collectives/shm/slot_fold.h"
#include "common/dtype.h"
#include "transport/shm/windows.h"

namespace ccore {

void all_reduce_twoshot(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                        cc_redop op) {
  const bool may_be_registered = context.windows && context.windows->any_direct();
  if (may_be_registered && count * dtype_size(dtype) >= kLeastRegisteredBytes &&
      all_reduce_registered(context, send, recv, count, dtype, op)) {
    return;
  }
  fold_in_slots(context, send, recv, count, dtype, op);
}

}  // namespace ccore
