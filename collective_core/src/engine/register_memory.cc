#include "engine/register_memory.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/all_gather/all_gather.h"
#include "collectives/barrier/barrier.h"
#include "common/log.h"
#include "transport/rdma/device.h"

namespace ccore {
namespace {

using Ranges = std::vector<std::optional<MappedRange>>;

// Why the memory of these ranks cannot be reached, or nothing.
std::string obstacle(const Context& context, const std::vector<MemoryName>& names) {
  if (context.nranks == 1) return "there is one rank";
  if (!context.arena) return "the ranks do not all share memory";
  for (size_t rank = 0; rank < names.size(); ++rank) {
    if (names[rank].bytes == 0) return format("what rank %zu registers is not from cc_mem_alloc", rank);
  }
  return "";
}

Ranges map_others(const Context& context, const std::vector<MemoryName>& names, std::string* why) {
  Ranges ranges(names.size());
  try {
    for (int rank = 0; rank < context.nranks; ++rank) {
      const auto place = static_cast<size_t>(rank);
      if (rank != context.rank) ranges[place].emplace(names[place]);
    }
  } catch (const Error& error) {
    *why = error.what();
  }
  return ranges;
}

// Only memory that cannot be freed before it is deregistered, and that a fork does not copy: a device would go on to send
// what the old pages held. Without it, the bytes are copied.
std::shared_ptr<RegisteredSource> source_of(const RdmaRails& rails, const SharedMemoryUse& use, void* memory,
                                            size_t bytes) {
  if (rails.empty() || use.name().bytes == 0) return nullptr;
  try {
    return std::make_shared<RegisteredSource>(rails, memory, bytes);
  } catch (const Error& error) {
    log(LogLevel::warn, "registered memory is copied before it is sent by RDMA: %s", error.what());
    return nullptr;
  }
}

}  // namespace

uint64_t register_memory(Communicator* communicator, void* memory, size_t bytes, int64_t timeout_ms, bool* direct) {
  uint64_t number = 0;
  Operation operation;
  operation.kind = Kind::register_memory;
  operation.dtype = CC_UINT8;
  communicator->run(
      operation, timeout_ms,
      [&](const Context& context) {
        number = context.operation.sequence;
        SharedMemoryUse use(memory, bytes);
        const std::vector<MemoryName> names = gather_all(context, use.name());
        std::string why = obstacle(context, names);  // the same on all ranks
        Ranges ranges;
        if (why.empty()) {
          ranges = map_others(context, names, &why);
          if (!why.empty()) log(LogLevel::warn, "memory of other ranks cannot be mapped: %s", why.c_str());
          const std::vector<uint8_t> mapped = gather_all(context, static_cast<uint8_t>(why.empty()));
          const auto failed = std::find(mapped.begin(), mapped.end(), uint8_t{0});
          if (failed != mapped.end())
            why = format("rank %d could not map it", static_cast<int>(failed - mapped.begin()));
        }
        *direct = why.empty();
        if (!*direct) {
          ranges.clear();
          log(LogLevel::info, "registered memory is copied like any other: %s", why.c_str());
        }
        std::shared_ptr<RegisteredSource> source = source_of(communicator->rdma_rails(), use, memory, bytes);
        communicator->windows().add(number,
                                    Window(memory, bytes, std::move(use), std::move(source), std::move(ranges)));
      },
      bytes);
  return number;
}

void deregister_memory(Communicator* communicator, uint64_t number, int64_t timeout_ms) {
  const Turns::Stay stay = communicator->stay();
  if (!communicator->registered(number)) {
    throw Error(CC_ERROR_INVALID_ARGUMENT,
                format("nothing is registered by the handle %llu", static_cast<unsigned long long>(number)));
  }
  Operation operation;
  operation.kind = Kind::deregister_memory;
  operation.shape = number;
  communicator->run(operation, timeout_ms, [&](const Context& context) {
    communicator->windows().remove(number);
    if (context.nranks > 1) barrier_dissemination(context);
  });
}

}  // namespace ccore
