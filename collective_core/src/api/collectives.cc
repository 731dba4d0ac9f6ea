// The C ABI of the operations that all ranks call: checks arguments and hands them to the algorithms.
#include <cstddef>
#include <cstring>
#include <vector>

#include "api/device.h"
#include "api/support.h"
#include "collective_core/collective_core.h"
#include "collectives/all_gather/all_gather.h"
#include "collectives/all_reduce/all_reduce.h"
#include "collectives/all_to_all/all_to_all.h"
#include "collectives/barrier/barrier.h"
#include "collectives/broadcast/broadcast.h"
#include "collectives/gather/gather.h"
#include "collectives/reduce/reduce.h"
#include "collectives/reduce_scatter/reduce_scatter.h"
#include "collectives/scatter/scatter.h"
#include "common/dtype.h"
#include "device/memory_kind.h"

namespace {

using ccore::Block;
using ccore::Context;
using ccore::guarded;
using ccore::Kind;
using ccore::Operation;
using ccore::require;

// Blocks of an array, in bytes; total: their elements.
std::vector<Block> blocks_of(const size_t* counts, const size_t* offsets, size_t nranks, size_t element,
                             size_t* total) {
  std::vector<Block> blocks;
  *total = 0;
  for (size_t rank = 0; rank < nranks; ++rank) {
    require(counts[rank] <= SIZE_MAX / element && offsets[rank] <= SIZE_MAX / element - counts[rank],
            "a count or an offset is too large");
    require(*total <= SIZE_MAX / element - counts[rank], "the counts are too large");
    *total += counts[rank];
    blocks.push_back(Block{offsets[rank] * element, counts[rank] * element});
  }
  return blocks;
}

std::vector<Block> even_blocks(size_t bytes, int nranks) {
  std::vector<Block> blocks;
  for (size_t rank = 0; rank < static_cast<size_t>(nranks); ++rank) blocks.push_back(Block{rank * bytes, bytes});
  return blocks;
}

// FNV-1a, folded to 32 bits: enough to notice a difference by accident.
uint64_t digest(const size_t* counts, size_t nranks) {
  uint64_t hash = 14695981039346656037u;
  for (size_t rank = 0; rank < nranks; ++rank) {
    for (int shift = 0; shift < 64; shift += 8) hash = (hash ^ (counts[rank] >> shift & 0xff)) * 1099511628211u;
  }
  return (hash >> 32) ^ (hash & 0xffffffffu);
}

// Of one rank, whose buffers are where its blocks begin.
constexpr size_t kNoOffset = 0;

struct Call {
  const void* send;
  void* recv;
  size_t count;
  cc_dtype dtype;
  cc_comm* comm;
  const cc_op_options* options;
  const size_t* send_counts = nullptr;   // of all_to_allv
  const size_t* send_offsets = nullptr;  // the same
  const size_t* recv_counts = nullptr;   // of all_to_allv and all_gatherv
  const size_t* recv_offsets = nullptr;  // the same
};

// `blocks`: how many times count the larger buffer holds.
void check(const Call& call, size_t blocks) {
  require(call.comm != nullptr, "comm is null");
  const size_t element = ccore::dtype_size(call.dtype);
  require(element != 0, "unknown dtype");
  require(call.count <= SIZE_MAX / element / (blocks == 0 ? 1 : blocks), "count is too large");
  require(call.count == 0 || (call.send && call.recv), "a buffer is null");
}

void check_redop(cc_redop op) { require(ccore::redop_known(op), "unknown reduction"); }

size_t size_of(cc_comm* comm) { return comm ? static_cast<size_t>(comm->communicator.size()) : 1; }

void copy_alone(const Call& call, size_t bytes) {
  if (call.send != call.recv && bytes > 0) std::memmove(call.recv, call.send, bytes);
}

template <typename Body>
void run(const Call& call, Kind kind, int redop, int root, Body body, uint64_t shape = 0, uint64_t elements = 0) {
  Operation operation;
  operation.kind = kind;
  operation.count = call.count;
  operation.dtype = call.dtype;
  operation.redop = redop;
  operation.root = root;
  operation.shape = shape;
  const cc_op_options options = ccore::options_of(call.options);
  if (ccore::memory_of(call.send, call.recv, options) == CC_MEMORY_DEVICE && kind != Kind::barrier) {
    const size_t count = kind == Kind::all_to_allv || kind == Kind::all_gatherv ? 0 : call.count;
    return call.comm->device->run(
        operation,
        {static_cast<cc_operation>(kind), call.send, call.recv, count, call.dtype, static_cast<cc_redop>(redop), root,
         call.send_counts, call.send_offsets, call.recv_counts, call.recv_offsets, options.stream, options.timeout_ms},
        elements);
  }
  call.comm->communicator.run(
      operation, options.timeout_ms,
      [&](const Context& context) {
        if (context.nranks == 1) return copy_alone(call, call.count * ccore::dtype_size(call.dtype));
        body(context);
      },
      elements);
}

}  // namespace

extern "C" {

cc_result cc_all_reduce(const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op, cc_comm* comm,
                        const cc_op_options* options) {
  return guarded([&] {
    const Call call{send, recv, count, dtype, comm, options};
    check(call, 1);
    check_redop(op);
    const size_t bytes = count * ccore::dtype_size(dtype);
    run(call, Kind::all_reduce, op, 0, [&](const Context& context) {
      const auto algorithm = context.chooser->choose(Kind::all_reduce, bytes);
      ccore::all_reduce_by(algorithm, context, send, recv, count, dtype, op);
    });
  });
}

cc_result cc_broadcast(const void* send, void* recv, size_t count, cc_dtype dtype, int root, cc_comm* comm,
                       const cc_op_options* options) {
  return guarded([&] {
    const bool is_root = comm && comm->communicator.rank() == root;
    const Call call{is_root ? send : recv, recv, count, dtype, comm, options};
    check(call, 1);
    require(root >= 0 && root < comm->communicator.size(), "root is not a rank");
    const size_t bytes = count * ccore::dtype_size(dtype);
    run(call, Kind::broadcast, 0, root, [&](const Context& context) {
      ccore::broadcast_by(context.chooser->choose(Kind::broadcast, bytes), context, send, recv, bytes, root);
    });
  });
}

cc_result cc_all_gather(const void* send, void* recv, size_t count, cc_dtype dtype, cc_comm* comm,
                        const cc_op_options* options) {
  return guarded([&] {
    const Call call{send, recv, count, dtype, comm, options};
    check(call, size_of(comm));
    run(call, Kind::all_gather, 0, 0, [&](const Context& context) {
      const size_t bytes = count * ccore::dtype_size(dtype);
      const auto algorithm = context.chooser->choose(Kind::all_gather, bytes * static_cast<size_t>(context.nranks));
      ccore::all_gather_by(algorithm, context, send, recv, even_blocks(bytes, context.nranks));
    });
  });
}

cc_result cc_all_gatherv(const void* send, void* recv, const size_t* counts, const size_t* offsets, cc_dtype dtype,
                         cc_comm* comm, const cc_op_options* options) {
  return guarded([&] {
    check(Call{send, recv, 0, dtype, comm, options}, 1);
    require(counts && offsets, "the counts or the offsets are null");
    const size_t nranks = size_of(comm);
    const size_t element = ccore::dtype_size(dtype);
    const auto rank = static_cast<size_t>(comm->communicator.rank());
    size_t total = 0;
    const std::vector<Block> blocks = blocks_of(counts, offsets, nranks, element, &total);
    require(total == 0 || recv, "recv is null");
    require(counts[rank] == 0 || send, "send is null");
    Call call{send, recv, total, dtype, comm, options, nullptr, nullptr, counts, offsets};
    if (nranks == 1 && total > 0) {
      call.recv = static_cast<std::byte*>(recv) + blocks[0].begin;
      call.recv_offsets = &kNoOffset;
    }
    run(
        call, Kind::all_gatherv, 0, 0,
        [&](const Context& context) {
          const auto algorithm = context.chooser->choose(Kind::all_gatherv, total * element);
          ccore::all_gather_by(algorithm, context, send, recv, blocks);
        },
        digest(counts, nranks));
  });
}

cc_result cc_reduce(const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op, int root, cc_comm* comm,
                    const cc_op_options* options) {
  return guarded([&] {
    const bool is_root = comm && comm->communicator.rank() == root;
    const Call call{send, is_root ? recv : const_cast<void*>(send), count, dtype, comm, options};
    check(call, 1);
    check_redop(op);
    require(root >= 0 && root < comm->communicator.size(), "root is not a rank");
    const size_t bytes = count * ccore::dtype_size(dtype);
    run(call, Kind::reduce, op, root, [&](const Context& context) {
      const auto algorithm = context.chooser->choose(Kind::reduce, bytes);
      ccore::reduce_by(algorithm, context, send, recv, count, dtype, op, root);
    });
  });
}

cc_result cc_gather(const void* send, void* recv, size_t count, cc_dtype dtype, int root, cc_comm* comm,
                    const cc_op_options* options) {
  return guarded([&] {
    const bool is_root = comm && comm->communicator.rank() == root;
    const Call call{send, is_root ? recv : const_cast<void*>(send), count, dtype, comm, options};
    check(call, size_of(comm));
    require(root >= 0 && root < comm->communicator.size(), "root is not a rank");
    run(call, Kind::gather, 0, root, [&](const Context& context) {
      const size_t bytes = count * ccore::dtype_size(dtype);
      const auto algorithm = context.chooser->choose(Kind::gather, bytes * static_cast<size_t>(context.nranks));
      ccore::gather_by(algorithm, context, send, recv, bytes, root);
    });
  });
}

cc_result cc_scatter(const void* send, void* recv, size_t count, cc_dtype dtype, int root, cc_comm* comm,
                     const cc_op_options* options) {
  return guarded([&] {
    const bool is_root = comm && comm->communicator.rank() == root;
    const Call call{is_root ? send : recv, recv, count, dtype, comm, options};
    check(call, size_of(comm));
    require(root >= 0 && root < comm->communicator.size(), "root is not a rank");
    run(call, Kind::scatter, 0, root, [&](const Context& context) {
      const size_t bytes = count * ccore::dtype_size(dtype);
      const auto algorithm = context.chooser->choose(Kind::scatter, bytes * static_cast<size_t>(context.nranks));
      ccore::scatter_by(algorithm, context, send, recv, bytes, root);
    });
  });
}

cc_result cc_all_to_all(const void* send, void* recv, size_t count, cc_dtype dtype, cc_comm* comm,
                        const cc_op_options* options) {
  return guarded([&] {
    const Call call{send, recv, count, dtype, comm, options};
    check(call, size_of(comm));
    require(count == 0 || size_of(comm) == 1 || send != recv, "all_to_all does not work in place");
    run(call, Kind::all_to_all, 0, 0, [&](const Context& context) {
      const size_t bytes = count * ccore::dtype_size(dtype);
      const auto ranks = static_cast<size_t>(context.nranks);
      const auto algorithm = context.chooser->choose(Kind::all_to_all, bytes * ranks * ranks);
      ccore::all_to_all_by(algorithm, context, send, recv, bytes);
    });
  });
}

cc_result cc_all_to_allv(const void* send, const size_t* send_counts, const size_t* send_offsets, void* recv,
                         const size_t* recv_counts, const size_t* recv_offsets, cc_dtype dtype, cc_comm* comm,
                         const cc_op_options* options) {
  return guarded([&] {
    check(Call{send, recv, 0, dtype, comm, options}, 1);
    require(send_counts && send_offsets && recv_counts && recv_offsets, "the counts or the offsets are null");
    const size_t nranks = size_of(comm);
    const size_t element = ccore::dtype_size(dtype);
    const auto rank = static_cast<size_t>(comm->communicator.rank());
    size_t leaving = 0;
    size_t coming = 0;
    const std::vector<Block> out = blocks_of(send_counts, send_offsets, nranks, element, &leaving);
    const std::vector<Block> in = blocks_of(recv_counts, recv_offsets, nranks, element, &coming);
    require((leaving == 0 || send) && (coming == 0 || recv), "a buffer is null");
    require(leaving == 0 || coming == 0 || send != recv, "all_to_allv does not work in place");
    require(send_counts[rank] == recv_counts[rank], "this rank sends itself another count than it expects");
    Call call{send, recv, 0, dtype, comm, options, send_counts, send_offsets, recv_counts, recv_offsets};
    if (nranks == 1 && leaving > 0) {
      call.count = leaving;
      call.send = static_cast<const std::byte*>(send) + out[0].begin;
      call.recv = static_cast<std::byte*>(recv) + in[0].begin;
      call.send_offsets = call.recv_offsets = &kNoOffset;
    }
    // The header's count is that of each pair; the recorder's is all that this rank gives.
    run(
        call, Kind::all_to_allv, 0, 0,
        [&](const Context& context) { ccore::all_to_all_pairwise(context, send, out, recv, in); }, 0, leaving);
  });
}

cc_result cc_reduce_scatter(const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op, cc_comm* comm,
                            const cc_op_options* options) {
  return guarded([&] {
    const Call call{send, recv, count, dtype, comm, options};
    check(call, size_of(comm));
    check_redop(op);
    run(call, Kind::reduce_scatter, op, 0, [&](const Context& context) {
      const size_t bytes = count * ccore::dtype_size(dtype) * static_cast<size_t>(context.nranks);
      const auto algorithm = context.chooser->choose(Kind::reduce_scatter, bytes);
      ccore::reduce_scatter_by(algorithm, context, send, recv, count, dtype, op);
    });
  });
}

cc_result cc_barrier(cc_comm* comm, const cc_op_options* options) {
  return guarded([&] {
    const Call call{nullptr, nullptr, 0, CC_UINT8, comm, options};
    check(call, 1);
    run(call, Kind::barrier, 0, 0, [](const Context& context) { ccore::barrier_dissemination(context); });
  });
}

}  // extern "C"
