// What every file of the C ABI needs: the handle, and how exceptions become codes.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <string>

#include "collective_core/collective_core.h"
#include "common/error.h"
#include "engine/communicator.h"

namespace ccore {
class DeviceSide;
}

struct cc_comm {
  cc_comm(const ccore::UniqueId& id, int rank, int nranks, const ccore::Settings& settings);
  // Ends what other threads have called, on device memory first.
  ~cc_comm();
  cc_comm(const cc_comm&) = delete;
  cc_comm& operator=(const cc_comm&) = delete;

  ccore::Communicator communicator;
  std::unique_ptr<ccore::DeviceSide> device;
};

namespace ccore {

// The error of the last call of this thread that failed.
std::string& thread_error();
// Remembers the text for cc_last_error and returns the code.
cc_result fail(cc_result code, const char* text);
// Throws CC_ERROR_INVALID_ARGUMENT with the text.
void require(bool condition, const char* text);
// Copies the text and a zero byte, as much as fits; *needed: the bytes of all of it.
void copy_text(const std::string& all, char* text, size_t size, size_t* needed);
// Milliseconds; 0: the communicator's.
int64_t timeout_of(const cc_op_options* options);
// The fields that not every version of cc_op_options has; without options or in older ones they are zero.
cc_op_options options_of(const cc_op_options* options);

template <typename Body>
cc_result guarded(Body body) {
  try {
    body();
    return CC_SUCCESS;
  } catch (const Error& error) {
    return fail(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(CC_ERROR_SYSTEM, "out of memory");
  } catch (const std::exception& error) {
    return fail(CC_ERROR_INTERNAL, error.what());
  }
}

}  // namespace ccore
