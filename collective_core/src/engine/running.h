// What every operation of a communicator runs in, collective or group of transfers.
#pragma once

#include <exception>
#include <new>

#include "common/error.h"

namespace ccore {

// What else ends an operation on this rank must reach the others as well, or they would wait for their deadline.
template <typename Body>
void told_to_all(Body body) {
  try {
    body();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw Error(CC_ERROR_SYSTEM, "out of memory");
  } catch (const std::exception& error) {
    throw Error(CC_ERROR_INTERNAL, error.what());
  }
}

}  // namespace ccore
