// The last kernel of a selection: finds the k-th largest magnitude among the candidates, and writes what is selected.
#pragma once

#include "topk/board.cuh"
#include "topk/mstopk_band.cuh"

namespace ccore_cuda::topk {
namespace {

constexpr uint64_t kDeadlineNs = 10000000000;

// Selects and writes. The blocks wait for each other, so all of them must be resident: a cooperative launch.
class Finish {
 public:
  __device__ Finish(const Input& in, const List& list, uint32_t sums, uint32_t kept, int samplings, Board* board,
                    const Output& out)
      : in_(in), list_(list), kept_(kept), samplings_(samplings), board_(board), out_(out), sums_(sums) {}

  __device__ void run() {
    const bool done = find_kth() && (samplings_ == 0 || find_band()) && find_last();
    if (done) write();
    if (blockIdx.x == 0 && threadIdx.x == 0) {
      // What could not be finished is not a selection; the receivers then reduce densely.
      out_.header[0] = !done || __ldcg(&board_->largest) >= kInfiniteMagnitude ? 1 : 0;
      out_.header[1] = kept_;
    }
  }

 private:
  // A barrier of the grid; false after the deadline.
  __device__ bool meet() {
    __shared__ bool met;
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      const uint32_t until = (atomicAdd(&board_->arrived, 1u) / gridDim.x + 1) * gridDim.x;
      uint64_t start = 0, now = 0;
      asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
      uint32_t arrived = 0;
      do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(arrived) : "l"(&board_->arrived) : "memory");
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
      } while (arrived < until && now - start < kDeadlineNs);
      met = arrived >= until;
    }
    __syncthreads();
    return met;
  }

  // Visits the candidates, or all elements: their value and index. Several are loaded before the first is visited.
  template <typename Visit>
  __device__ void for_each(Visit visit) const {
    for_each_from(blockIdx.x * kThreads + threadIdx.x, gridDim.x * kThreads, size(), visit);
  }
  template <typename Visit>
  __device__ void for_each_from(uint32_t first, uint32_t stride, uint32_t end, Visit visit) const {
    constexpr int kAhead = 8;
    for (uint64_t i = first; i < end; i += static_cast<uint64_t>(kAhead) * stride) {
      uint32_t values[kAhead], indices[kAhead];
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        const uint64_t at = i + static_cast<uint64_t>(j) * stride;
        if (at >= end) continue;
        values[j] = value_at(at);
        indices[j] = index_at(at);
      }
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        if (i + static_cast<uint64_t>(j) * stride < end) visit(values[j], indices[j]);
      }
    }
  }
  __device__ uint32_t value_at(uint64_t i) const {
    return listed_ ? list_.values[i] : __float_as_uint(load(in_, static_cast<uint32_t>(i)));
  }
  __device__ uint32_t index_at(uint64_t i) const { return listed_ ? list_.indices[i] : static_cast<uint32_t>(i); }
  __device__ uint32_t size() const { return listed_ ? candidates_ : in_.count; }

  // Sets kth_, wanted_ (how many of those equal to it are selected) and equal_ (how many there are).
  __device__ bool find_kth() {
    candidates_ = list_.capacity ? __ldcg(&board_->found) : 0;
    // MSTopK also asks for the next largest.
    const uint32_t least = samplings_ > 0 && kept_ < in_.count ? kept_ + 1 : kept_;
    listed_ = list_.capacity && candidates_ >= least && candidates_ <= list_.capacity;
    if (listed_) {
      const Bin bin = find<kCoarseBins, true>(board_->coarse, kept_);
      if (bin.number < kCoarseBins - 1) return find_kth_in(bin);
      listed_ = false;  // more than four octaves above the floor
    }
    return find_kth_in_all();
  }

  __device__ bool find_kth_in(const Bin& coarse) {
    const uint32_t floor = __ldcg(&board_->floor);
    for_each([&](uint32_t value, uint32_t) {
      const uint32_t distance = (value & kMagnitudeBits) - floor;
      if (distance >> kFineBits == coarse.number) count_one(&board_->fine[distance & (kBins - 1)]);
    });
    if (!meet()) return false;
    const Bin bin = find<kBins, true>(board_->fine, coarse.rank);
    kth_ = floor + (coarse.number << kFineBits) + bin.number;
    wanted_ = bin.rank;
    equal_ = bin.count;
    return true;
  }

  __device__ bool find_kth_in_all() {
    __shared__ uint32_t bins[kBins];
    __shared__ double totals[kWarps];
    for (uint32_t i = threadIdx.x; i < kBins; i += kThreads) bins[i] = 0;
    __syncthreads();
    uint32_t largest = 0;
    double total = 0;
    for_each([&](uint32_t value, uint32_t) {
      const uint32_t key = value & kMagnitudeBits;
      atomicAdd(&bins[key >> kFloorShift], 1u);
      largest = max(largest, key);
      total += static_cast<double>(__uint_as_float(key));
    });
    largest = max_of_warp(largest);
    for (int d = 16; d > 0; d >>= 1) total += __shfl_down_sync(~0u, total, d);
    if (threadIdx.x % 32 == 0) {
      atomicMax(&board_->largest, largest);
      totals[threadIdx.x / 32] = total;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int w = 1; w < kWarps; ++w) total += totals[w];
      board_->sums[blockIdx.x] = total;
    }
    for (uint32_t i = threadIdx.x; i < kBins; i += kThreads) {
      if (bins[i]) atomicAdd(&board_->high[i], bins[i]);
    }
    if (!meet()) return false;
    sums_ = gridDim.x;
    const Bin high = find<kBins, true>(board_->high, kept_);
    constexpr int kLowBits = kFloorShift - kFineBits;
    for_each([&](uint32_t value, uint32_t) {
      const uint32_t key = value & kMagnitudeBits;
      if (key >> kFloorShift == high.number) count_one(&board_->fine[key >> kLowBits & (kBins - 1)]);
    });
    if (!meet()) return false;
    const Bin fine = find<kBins, true>(board_->fine, high.rank);
    const uint32_t prefix = high.number << kFineBits | fine.number;
    for_each([&](uint32_t value, uint32_t) {
      const uint32_t key = value & kMagnitudeBits;
      if (key >> kLowBits == prefix) count_one(&board_->low[key & ((1u << kLowBits) - 1)]);
    });
    if (!meet()) return false;
    const Bin low = find<kThreads, true>(board_->low, fine.rank);
    kth_ = prefix << kLowBits | low.number;
    wanted_ = low.rank;
    equal_ = low.count;
    return true;
  }

  // MSTopK: sets band_ and wanted_.
  __device__ bool find_band() {
    uint32_t beneath = kth_ + 1;
    if (wanted_ == equal_) {
      uint32_t below = 0;
      for_each([&](uint32_t value, uint32_t) {
        const uint32_t key = value & kMagnitudeBits;
        if (key < kth_) below = max(below, key + 1);
      });
      below = max_of_warp(below);
      if (threadIdx.x % 32 == 0 && below > 0) atomicMax(&board_->beneath, below);
      if (!meet()) return false;
      beneath = __ldcg(&board_->beneath);
    }
    __shared__ double mean;
    if (threadIdx.x < 32) {
      double total = 0;
      for (uint32_t i = threadIdx.x; i < sums_; i += 32) total += __ldcg(&board_->sums[i]);
      for (int d = 16; d > 0; d >>= 1) total += __shfl_down_sync(~0u, total, d);
      if (threadIdx.x == 0) mean = static_cast<double>(static_cast<float>(total / static_cast<double>(in_.count)));
    }
    __syncthreads();
    band_ = search(mean, __ldcg(&board_->largest), kth_, beneath, samplings_);
    // Candidates are all elements from the floor up; a band that begins below it needs the others too.
    if (listed_ && band_.lower < __ldcg(&board_->floor)) listed_ = false;
    uint32_t above = 0;
    for_each([&](uint32_t value, uint32_t) { above += (value & kMagnitudeBits) >= band_.upper ? 1u : 0u; });
    above = sum_of_warp(above);
    if (threadIdx.x % 32 == 0 && above > 0) atomicAdd(&board_->above, above);
    if (!meet()) return false;
    wanted_ = kept_ - min(kept_, __ldcg(&board_->above));
    return true;
  }

  // Sets last_: of the band, the elements up to this index are selected.
  __device__ bool find_last() {
    if (samplings_ == 0) {
      band_ = Band{kth_, kth_ + 1};
      if (wanted_ == equal_) return true;
    }
    if (wanted_ == 0) {
      band_.lower = band_.upper;
      return true;
    }
    const int bits = 32 - __clz(static_cast<int>(in_.count - 1));
    const int shift = max(0, bits - kFineBits);
    for_each([&](uint32_t value, uint32_t index) {
      if (in_band(value)) count_one(&board_->places[index >> shift]);
    });
    if (!meet()) return false;
    const Bin place = find<kBins, false>(board_->places, wanted_);
    const uint32_t base = place.number << shift;
    for_each([&](uint32_t value, uint32_t index) {
      if (in_band(value) && index >> shift == place.number) {
        atomicOr(&board_->masks[(index - base) / 32], 1u << (index - base) % 32);
      }
    });
    if (!meet()) return false;
    const Bin word = find<kBins, false, true>(board_->masks, place.rank);
    uint32_t mask = __ldcg(&board_->masks[word.number]);
    for (uint32_t i = 1; i < word.rank; ++i) mask &= mask - 1;
    last_ = base + word.number * 32 + static_cast<uint32_t>(__ffs(static_cast<int>(mask)) - 1);
    return true;
  }

  __device__ bool in_band(uint32_t value) const {
    const uint32_t key = value & kMagnitudeBits;
    return key >= band_.lower && key < band_.upper;
  }
  __device__ bool is_selected(uint32_t value, uint32_t index) const {
    const uint32_t key = value & kMagnitudeBits;
    return key >= band_.upper || (key >= band_.lower && index <= last_);
  }

  // Each warp has a run of the elements: it counts what is selected, gets its place in the payload, and writes.
  __device__ void write() {
    __shared__ uint32_t counts[kWarps], start;
    const uint32_t warps = gridDim.x * kWarps, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint32_t share = (size() + warps - 1) / warps;
    const uint64_t begin = static_cast<uint64_t>(blockIdx.x * kWarps + warp) * share;
    const auto end = static_cast<uint32_t>(min(begin + share, static_cast<uint64_t>(size())));
    uint32_t count = 0;
    if (begin < end) {
      for_each_from(static_cast<uint32_t>(begin) + lane, 32, end,
                    [&](uint32_t value, uint32_t index) { count += is_selected(value, index) ? 1u : 0u; });
    }
    count = sum_of_warp(count);
    if (lane == 0) counts[warp] = count;
    __syncthreads();
    if (threadIdx.x < 32) {
      const uint32_t own = lane < kWarps ? counts[lane] : 0, inclusive = scan_of_warp(own);
      if (lane < kWarps) counts[lane] = inclusive - own;
      if (lane == 31) start = atomicAdd(&board_->emitted, inclusive);
    }
    __syncthreads();
    uint32_t at = start + counts[warp];
    constexpr int kAhead = 4;
    for (uint64_t i = begin + lane; i < end + lane; i += kAhead * 32) {
      uint32_t values[kAhead], indices[kAhead];
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        const uint64_t from = i + static_cast<uint64_t>(j) * 32;
        if (from >= end) continue;
        values[j] = value_at(from);
        indices[j] = index_at(from);
      }
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        const bool is_there = i + static_cast<uint64_t>(j) * 32 < end;
        at += write_one(is_there, __uint_as_float(values[j]), indices[j], at);
      }
    }
  }

  // Writes what is selected of a warp's 32 elements from `at` on; returns how many that are.
  __device__ uint32_t write_one(bool is_there, float value, uint32_t index, uint32_t at) {
    const bool selected = is_there && is_selected(__float_as_uint(value), index);
    const uint32_t taken = __ballot_sync(~0u, selected);
    const uint32_t place = at + static_cast<uint32_t>(__popc(taken & ((1u << threadIdx.x % 32) - 1)));
    if (selected && place < kept_) {
      out_.indices[place] = index;
      if (in_.half_values) {
        static_cast<__half*>(out_.values)[place] = as_half(value);
      } else {
        static_cast<float*>(out_.values)[place] = value;
      }
    }
    // collect() has written the rest of all candidates.
    if (in_.next && is_there && !(listed_ && selected)) {
      in_.next[index] = selected ? rest_of(value, in_.half_values) : value;
    }
    return static_cast<uint32_t>(__popc(taken));
  }

  const Input& in_;
  const List& list_;
  const uint32_t kept_;
  const int samplings_;
  Board* const board_;
  const Output& out_;
  bool listed_ = false;
  uint32_t candidates_ = 0;
  uint32_t sums_;  // on the board
  uint32_t kth_ = 0, wanted_ = 0, equal_ = 0;
  Band band_{0, 0};
  uint32_t last_ = ~0u;
};

__global__ void __launch_bounds__(kThreads, 2)
    finish(Input in, List list, uint32_t sums, uint32_t kept, int samplings, Board* board, Output out) {
  Finish(in, list, sums, kept, samplings, board, out).run();
}

}  // namespace
}  // namespace ccore_cuda::topk
