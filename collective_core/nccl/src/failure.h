// The text of this library's last failure, for ncclGetLastError.
#pragma once

#include <string>

#include "collective_core/collective_core.h"
#include "nccl_abi.h"

namespace ccore_nccl {

// Keeps the text and returns the code, for `return fail(...)`.
Result fail(Result code, const std::string& text);
// NCCL's code for a failure of collective_core.
Result code_of(cc_result result);
// Null if nothing has failed here. Valid for the life of the process.
const char* failure_text();

}  // namespace ccore_nccl
