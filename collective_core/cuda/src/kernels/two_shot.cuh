// all_reduce in two shots without copies: each rank reduces its share of all inputs and writes it to all outputs. The
// first shot alone is reduce_scatter.
//
// Buffers that peers cannot use are staged by their own rank: it copies its input to memory that they map before it
// sends the header, and the result from there afterwards. Each rank decides that for itself; the header tells each peer
// where its share is. Block b of every rank has the same packs of 16 bytes of each share.
#pragma once

#include <type_traits>

#include "kernels/element.cuh"
#include "kernels/invalidate.cuh"
#include "kernels/meeting.cuh"

namespace ccore_cuda {

template <typename T>
__device__ __forceinline__ size_t share_elements(const TwoShot& a, int rank) {
  const size_t begin = min(a.count, a.share * static_cast<size_t>(rank));
  return min(a.count - begin, a.share);
}

// Copies what this block has of the peers' shares; either side may have any alignment.
template <typename T>
__device__ __forceinline__ void copy_shares(T* to, size_t to_stride, const T* from, size_t from_stride,
                                            const TwoShot& a, const Peers& peers) {
  constexpr size_t kPack = 16 / sizeof(T);
  const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (int rank = 0; rank < peers.size; ++rank) {
    if (rank == peers.rank) continue;
    T* const target = to + to_stride * static_cast<size_t>(rank);
    const T* const source = from + from_stride * static_cast<size_t>(rank);
    const bool aligned = (reinterpret_cast<uintptr_t>(target) | reinterpret_cast<uintptr_t>(source)) % 16 == 0;
    const size_t elements = share_elements<T>(a, rank);
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i * kPack < elements; i += step) {
      const size_t at = i * kPack;
      if (aligned && at + kPack <= elements) {
        *reinterpret_cast<uint4*>(target + at) = *reinterpret_cast<const uint4*>(source + at);
      } else {
        for (size_t k = at; k < min(at + kPack, elements); ++k) target[k] = source[k];
      }
    }
  }
}

// Packs that a thread loads from each rank before it stores the first. The links need several hundred KiB under way, and
// stores that may write what is loaded next keep the compiler from loading ahead. Eight ranks load eight packs each time.
template <int kRanks>
using PacksInFlight = std::integral_constant<int, kRanks <= 4 ? 4 : 1>;

// The output of this rank: with staging in streams, the staging memory.
template <typename T>
__device__ __noinline__ void invalidate_result(const TwoShot& a, const Peers& peers) {
  const size_t elements = a.scatters ? share_elements<T>(a, peers.rank) : a.count;
  invalidate(a.output, elements * sizeof(T), invalid_value(a.call));
}

template <typename T, int kRanks, bool kSum>
__global__ void __launch_bounds__(kTwoShotThreads, kRanks == 8 ? 2 : 1)
    two_shot(const __grid_constant__ TwoShot a, const __grid_constant__ Peers peers) {
  constexpr size_t kPack = 16 / sizeof(T);
  __shared__ Met met;
  if (__builtin_expect(!begin_meeting(peers, a.in_stream, &met), 0)) return invalidate_result<T>(a, peers);
  const int ranks = kRanks ? kRanks : peers.size;
  DeviceWatch watch(peers, met.epoch, a.call);
  if (a.in_stream) {
    read_stream_words(peers, a.call, a.stream_epoch, &met, &watch);
  } else {
    if (a.placed.stages_input) {
      copy_shares(reinterpret_cast<T*>(a.placed.staging), a.staged_stride, static_cast<const T*>(a.input), a.stride, a,
                  peers);
    }
    meet_before(peers, a.placed, a.call, a.placed.stages_input, &met, &watch);
  }
  if (!met.broken) {
    const size_t elements = share_elements<T>(a, peers.rank), packs = elements / kPack;
    // Peers' memory is aligned to packs, this rank's own perhaps to an element only.
    const T* const own_input = static_cast<const T*>(a.input) + a.stride * static_cast<size_t>(peers.rank);
    T* const own_output = static_cast<T*>(a.output) + (a.scatters ? 0 : a.stride * static_cast<size_t>(peers.rank));
    const bool aligned = (reinterpret_cast<uintptr_t>(own_input) | reinterpret_cast<uintptr_t>(own_output)) % 16 == 0;
    const auto input_of = [&](int rank) {
      return rank == peers.rank ? own_input : reinterpret_cast<const T*>(met.words[kInput][rank]);
    };
    const auto output_of = [&](int rank) {
      return rank == peers.rank ? own_output : reinterpret_cast<T*>(met.words[kOutput][rank]);
    };
    const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
    size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if constexpr (kRanks != 0) {
      if (aligned) {
        const uint4* inputs[kRanks];
        uint4* outputs[kRanks];
#pragma unroll
        for (int rank = 0; rank < kRanks; ++rank) {
          inputs[rank] = reinterpret_cast<const uint4*>(input_of(rank));
          outputs[rank] = reinterpret_cast<uint4*>(output_of(rank));
        }
        const auto fold_some = [&](auto number, auto load, auto store) {
          constexpr int kPacks = decltype(number)::value;
          for (; i + (kPacks - 1) * step < packs; i += kPacks * step) {
            uint4 loaded[kPacks][kRanks];
#pragma unroll
            for (int pack = 0; pack < kPacks; ++pack) {
#pragma unroll
              for (int rank = 0; rank < kRanks; ++rank) loaded[pack][rank] = load(inputs[rank] + i + pack * step);
            }
#pragma unroll
            for (int pack = 0; pack < kPacks; ++pack) {
              Accumulator<T, uint4, kSum> sum;
              sum.start(loaded[pack][0]);
#pragma unroll
              for (int rank = 1; rank < kRanks; ++rank) sum.add(a.op, loaded[pack][rank]);
              const uint4 result = sum.result(a.op, ranks);
#pragma unroll
              for (int rank = 0; rank < kRanks; ++rank) {
                if (!a.scatters || rank == peers.rank) store(outputs[rank] + i + pack * step, result);
              }
            }
          }
        };
        const auto fold = [&](auto load, auto store) {
          fold_some(PacksInFlight<kRanks>(), load, store);
          fold_some(std::integral_constant<int, 1>(), load, store);
        };
        if (a.streams_through) {
          fold([](const uint4* from) { return __ldcs(from); }, [](uint4* to, uint4 pack) { __stcs(to, pack); });
        } else {
          fold([](const uint4* from) { return *from; }, [](uint4* to, uint4 pack) { *to = pack; });
        }
      }
    }
    // Any number of ranks, any alignment of the own buffers, and the end of a share. The order is the same.
    for (; i * kPack < elements; i += step) {
      const size_t at = i * kPack, some = min(kPack, elements - at);
      union Pack {
        uint4 bits;
        T values[kPack];
        __device__ Pack() {}
      };
      const auto is_whole = [&](int rank) { return some == kPack && (aligned || rank != peers.rank); };
      const auto load = [&](int rank) {
        Pack loaded;
        loaded.bits = uint4{0, 0, 0, 0};
        const T* const from = input_of(rank) + at;
        if (is_whole(rank)) {
          loaded.bits = *reinterpret_cast<const uint4*>(from);
        } else {
          for (size_t k = 0; k < some; ++k) loaded.values[k] = from[k];
        }
        return loaded.bits;
      };
      Accumulator<T, uint4, kSum> sum;
      sum.start(load(0));
      for (int rank = 1; rank < ranks; ++rank) sum.add(a.op, load(rank));
      Pack result;
      result.bits = sum.result(a.op, ranks);
      for (int rank = 0; rank < ranks; ++rank) {
        if (a.scatters && rank != peers.rank) continue;
        T* const to = output_of(rank) + at;
        if (is_whole(rank)) {
          *reinterpret_cast<uint4*>(to) = result.bits;
        } else {
          for (size_t k = 0; k < some; ++k) to[k] = result.values[k];
        }
      }
    }
  }
  if (!a.in_stream) meet_after(peers, &met, &watch);
  if (__builtin_expect(met.broken, 0)) invalidate_result<T>(a, peers);
  if (a.in_stream) return;
  if (a.placed.stages_output && !met.broken) {
    copy_shares(static_cast<T*>(a.output), a.stride, reinterpret_cast<const T*>(a.placed.staging), a.staged_stride, a,
                peers);
  }
  if (threadIdx.x == 0) end_block(peers, met.epoch);
}

}  // namespace ccore_cuda
