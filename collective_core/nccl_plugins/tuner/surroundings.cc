#include "tuner/surroundings.h"

#include <dlfcn.h>

namespace ccore::nccl {
namespace {

// Of a library that is loaded already; never loads one.
template <typename Function>
Function symbol_of(const char* library, const char* name) {
  void* handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  if (!handle) return nullptr;
  void* found = dlsym(handle, name);
  dlclose(handle);
  return reinterpret_cast<Function>(found);
}

}  // namespace

std::string gpu_name() {
  const char* driver = "libcuda.so.1";
  const auto current = symbol_of<int (*)(int*)>(driver, "cuCtxGetDevice");
  const auto name = symbol_of<int (*)(char*, int, int)>(driver, "cuDeviceGetName");
  int device = 0;
  char text[128] = "";
  if (!current || !name || current(&device) != 0 || name(text, sizeof text - 1, device) != 0) return "unknown";
  return text;
}

int nccl_version(void* address_in_nccl) {
  Dl_info where{};
  int version = 0;
  if (dladdr(address_in_nccl, &where) == 0 || !where.dli_fname) return 0;
  const auto get = symbol_of<int (*)(int*)>(where.dli_fname, "ncclGetVersion");
  return get && get(&version) == 0 ? version : 0;
}

}  // namespace ccore::nccl
