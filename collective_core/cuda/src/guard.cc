#include "guard.h"

namespace ccore_cuda {

std::string& last_error() {
  thread_local std::string text;
  return text;
}

}  // namespace ccore_cuda
