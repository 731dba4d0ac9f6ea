// The C ABI of what needs no communicator: versions, texts of errors, unique ids.
#include <optional>
#include <string>

#include "api/support.h"
#include "collective_core/collective_core.h"
#include "common/dtype.h"
#include "common/error.h"
#include "topology/describe_gpu.h"

namespace {

using ccore::guarded;
using ccore::require;

thread_local std::string last_comm_error;

}  // namespace

extern "C" {

int cc_version(void) { return CC_VERSION_NUMBER; }

const char* cc_version_string(void) { return CCORE_VERSION_TEXT; }

const char* cc_error_string(cc_result code) {
  switch (code) {
    case CC_SUCCESS:
      return "success";
    case CC_ERROR_INVALID_ARGUMENT:
      return "invalid argument";
    case CC_ERROR_INVALID_USAGE:
      return "invalid usage";
    case CC_ERROR_SYSTEM:
      return "system error";
    case CC_ERROR_REMOTE:
      return "remote error";
    case CC_ERROR_TIMEOUT:
      return "timeout";
    case CC_ERROR_ABORTED:
      return "aborted";
    case CC_ERROR_DESYNC:
      return "desync";
    case CC_ERROR_INTERNAL:
      return "internal error";
    case CC_IN_PROGRESS:
      return "in progress";
  }
  return "unknown code";
}

const char* cc_last_error(const cc_comm* comm) {
  if (!comm) return ccore::thread_error().c_str();
  last_comm_error = comm->communicator.failure().text();
  return last_comm_error.c_str();
}

size_t cc_dtype_size(cc_dtype dtype) { return ccore::dtype_size(dtype); }

cc_result cc_get_unique_id(cc_unique_id* id) {
  return guarded([&] {
    require(id != nullptr, "id is null");
    *id = ccore::encode(ccore::make_unique_id());
  });
}

cc_result cc_describe_gpu(const char* pci_address, char* text, size_t size, size_t* needed) {
  return guarded([&] {
    require(pci_address && needed, "an argument is null");
    require(text || size == 0, "text is null");
    const std::optional<ccore::PciPlace> place = ccore::pci_place(ccore::kSysfs, pci_address);
    if (!place) {
      throw ccore::Error(
          CC_ERROR_INVALID_ARGUMENT,
          ccore::format("this host has no PCI device '%s'; expected an address as in 0000:18:00.0", pci_address));
    }
    ccore::copy_text(ccore::describe(*place, ccore::nvlinks(place->address), ccore::nics(ccore::kSysfs)), text, size,
                     needed);
  });
}

cc_result cc_unique_id_from_address(cc_unique_id* id, const char* address, int port, const char* secret, int is_root) {
  return guarded([&] {
    require(id && address && secret, "an argument is null");
    *id = ccore::encode(ccore::unique_id_at(address, port, secret, is_root != 0));
  });
}

}  // extern "C"
