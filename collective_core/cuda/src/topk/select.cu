#include <algorithm>
#include <cmath>

#include "error.h"
#include "topk/numbers.cuh"
#include "topk/select.h"

namespace ccore_cuda::topk {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr uint32_t kBins = 8192;  // of a histogram of 13 bits

// The floor is a multiple of 2^18, five bits of the mantissa: the candidates' distance from it has 13 low bits for
// the exact histogram, and 12 above them for the coarse one, which covers four octaves.
constexpr int kFloorShift = 18;
constexpr int kFineBits = 13;
constexpr uint32_t kCoarseBins = 4096;

constexpr uint32_t kMostSamples = 65536;
constexpr uint32_t kLeastSampled = 1u << 18;  // shorter vectors cost little in several passes
constexpr uint32_t kLargestShare = 8;         // of the vector, 1/8 may be selected from a list
constexpr int kBeginBlocks = 64;
constexpr unsigned kMostBlocks = 1024;  // of a grid
constexpr uint64_t kDeadlineNs = 10000000000;

}  // namespace

struct Board {
  uint32_t floor;
  uint32_t found;     // candidates, those that the list had no room for included
  uint32_t largest;   // magnitude
  uint32_t begun;     // blocks of begin() that have ended
  uint32_t arrived;   // blocks at a barrier of finish(), over all of its barriers
  uint32_t emitted;
  uint32_t beneath;   // 1 + the largest magnitude below the k-th largest
  uint32_t above;     // elements at least as large as the upper end of MSTopK's band
  alignas(16) uint32_t sample[kBins];
  uint32_t coarse[kCoarseBins];
  uint32_t high[kBins];
  uint32_t fine[kBins];
  uint32_t low[kThreads];  // 32 bins, padded to a bin for each thread
  uint32_t places[kBins];  // elements of the band by the high bits of their indices
  uint32_t masks[kBins];   // those of one place, a bit each
  double sums[kMostBlocks];  // of magnitudes, by block
};

size_t board_bytes() { return sizeof(Board); }

namespace {

// Where the counters that every selection starts with at zero begin; the sample is cleared by its last reader.
constexpr uint32_t kCleared = kCoarseBins + 2 * kBins + kThreads + 2 * kBins;

__device__ __forceinline__ float load(const Input& in, uint32_t i) {
  float value;
  switch (in.dtype) {
    case CC_FLOAT16:
      value = widen(static_cast<const __half*>(in.gradient)[i]);
      break;
    case CC_BFLOAT16:
      value = widen(static_cast<const __nv_bfloat16*>(in.gradient)[i]);
      break;
    default:
      value = static_cast<const float*>(in.gradient)[i];
  }
  return in.residual ? value + in.residual[i] : value;
}

// Neighbouring elements often share a bin: one addition for all threads of a warp that are here with it.
__device__ __forceinline__ void count_one(uint32_t* bin) {
  const unsigned peers = __match_any_sync(__activemask(), reinterpret_cast<unsigned long long>(bin));
  if ((threadIdx.x & 31) == static_cast<unsigned>(__ffs(static_cast<int>(peers)) - 1)) {
    atomicAdd(bin, static_cast<uint32_t>(__popc(peers)));
  }
}

__device__ __forceinline__ uint32_t scan_of_warp(uint32_t value) {
  const int lane = threadIdx.x & 31;
  for (int d = 1; d < 32; d <<= 1) {
    const uint32_t other = __shfl_up_sync(~0u, value, d);
    if (lane >= d) value += other;
  }
  return value;
}

struct Bin {
  uint32_t number;
  uint32_t rank;   // of the element that is looked for, among those in the bin
  uint32_t count;  // elements in the bin
};

// The bin that holds the rank-th element, counted from the top or from the bottom; a bin counts its elements, or has a
// bit for each. All threads of the block call it.
template <uint32_t kCount, bool kFromTop, bool kMasks = false>
__device__ Bin find(const uint32_t* bins, uint32_t rank) {
  constexpr uint32_t kPer = kCount / kThreads;
  static_assert(kPer == 1 || kPer % 4 == 0, "bins are read by fours");
  __shared__ uint32_t warp_sums[kWarps];
  __shared__ Bin found;
  const uint32_t first = threadIdx.x * kPer;
  // In the order of the bins, of which the last is the first from the top.
  const uint32_t* const own = bins + (kFromTop ? kCount - kPer - first : first);
  uint32_t words[kPer], counts[kPer], sum = 0;
  if constexpr (kPer == 1) {
    words[0] = __ldcg(own);
  } else {
#pragma unroll
    for (uint32_t i = 0; i < kPer; i += 4) {
      const uint4 four = __ldcg(reinterpret_cast<const uint4*>(own + i));
      words[i] = four.x;
      words[i + 1] = four.y;
      words[i + 2] = four.z;
      words[i + 3] = four.w;
    }
  }
#pragma unroll
  for (uint32_t i = 0; i < kPer; ++i) {
    const uint32_t word = words[kFromTop ? kPer - 1 - i : i];
    counts[i] = kMasks ? static_cast<uint32_t>(__popc(word)) : word;
    sum += counts[i];
  }
  const uint32_t inclusive = scan_of_warp(sum);
  if ((threadIdx.x & 31) == 31) warp_sums[threadIdx.x / 32] = inclusive;
  if (threadIdx.x == 0) found = Bin{0, 0, 0};
  __syncthreads();
  uint32_t before = inclusive - sum;
  for (uint32_t w = 0; w < threadIdx.x / 32; ++w) before += warp_sums[w];
  if (before < rank && before + sum >= rank) {
    bool open = true;
#pragma unroll
    for (uint32_t i = 0; i < kPer; ++i) {
      if (open && before + counts[i] >= rank) {
        found = Bin{kFromTop ? kCount - 1 - (first + i) : first + i, rank - before, counts[i]};
        open = false;
      }
      before += counts[i];
    }
  }
  __syncthreads();
  const Bin result = found;
  __syncthreads();
  return result;
}

// Clears the board and guesses the floor from samples of the vector, one in each of `samples` equal parts.
__global__ void __launch_bounds__(kThreads) begin(Input in, uint32_t samples, uint32_t rank, Board* board) {
  // Counted in the block first: most samples fall into few bins, whose counters would be waited for.
  __shared__ uint32_t bins[kBins];
  for (uint32_t i = threadIdx.x; i < kBins; i += kThreads) bins[i] = 0;
  __syncthreads();
  const uint32_t self = blockIdx.x * kThreads + threadIdx.x, stride = gridDim.x * kThreads;
  for (uint32_t sample = self; sample < samples; sample += stride) {
    const uint32_t part = in.count / samples;
    // Not at the same place of each part: rows of a matrix may be as long as a part.
    uint32_t mixed = sample * 2654435761u;
    mixed ^= mixed >> 15;
    mixed *= 2246822519u;
    mixed ^= mixed >> 13;
    atomicAdd(&bins[magnitude(load(in, sample * part + mixed % part)) >> kFloorShift], 1u);
  }
  uint32_t* const cleared = board->coarse;
  for (uint32_t i = self; i < kCleared; i += stride) cleared[i] = 0;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < kBins; i += kThreads) {
    if (bins[i]) atomicAdd(&board->sample[i], bins[i]);
  }
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(&board->begun, 1u) == gridDim.x - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  if (samples > 0) {
    const Bin bin = find<kBins, true>(board->sample, rank);
    for (uint32_t i = threadIdx.x; i < kBins; i += kThreads) board->sample[i] = 0;
    // Every infinity and NaN is a candidate, so that the pass sees them.
    if (threadIdx.x == 0) board->floor = min(bin.number << kFloorShift, kInfiniteMagnitude);
  }
  if (threadIdx.x == 0) {
    board->found = board->largest = board->begun = board->arrived = board->emitted = 0;
    board->beneath = board->above = 0;
  }
}

template <typename T>
__device__ __forceinline__ float4 load_four(const T* from, uint32_t group, bool wide);
template <>
__device__ __forceinline__ float4 load_four<float>(const float* from, uint32_t group, bool wide) {
  if (wide) return __ldcs(reinterpret_cast<const float4*>(from) + group);
  const float* p = from + static_cast<size_t>(group) * 4;
  return float4{__ldcs(p), __ldcs(p + 1), __ldcs(p + 2), __ldcs(p + 3)};
}
template <typename T>
__device__ __forceinline__ float4 load_four(const T* from, uint32_t group, bool wide) {
  union {
    uint2 bits;
    T values[4];
  } pack;
  const T* p = from + static_cast<size_t>(group) * 4;
  if (wide) {
    pack.bits = __ldcs(reinterpret_cast<const uint2*>(from) + group);
  } else {
    for (int i = 0; i < 4; ++i) pack.values[i] = p[i];
  }
  return float4{widen(pack.values[0]), widen(pack.values[1]), widen(pack.values[2]), widen(pack.values[3])};
}

__device__ __forceinline__ void store_four(float* to, uint32_t group, bool wide, float4 value) {
  if (wide) return __stcs(reinterpret_cast<float4*>(to) + group, value);
  float* p = to + static_cast<size_t>(group) * 4;
  __stcs(p, value.x);
  __stcs(p + 1, value.y);
  __stcs(p + 2, value.z);
  __stcs(p + 3, value.w);
}

struct List {
  uint32_t* values;
  uint32_t* indices;
  uint32_t capacity;
};

// Blocks on a multiprocessor: as many as the registers allow.
constexpr int blocks_of_collect(bool adds) { return adds ? 2 : 3; }

constexpr int kGroups = 4;              // of four elements, by a thread at a time
constexpr uint32_t kBuffered = 192;     // candidates that a warp holds before it writes them to the list

// By selections: registers have no addresses.
__device__ __forceinline__ float element_of(const float4 (&groups)[kGroups], uint32_t i) {
  static_assert(kGroups == 4, "two bits choose a group");
  const float4 low = i & 4 ? groups[1] : groups[0], high = i & 4 ? groups[3] : groups[2];
  const float4 group = i & 8 ? high : low;
  const float first = i & 1 ? group.y : group.x, second = i & 1 ? group.w : group.z;
  return i & 2 ? second : first;
}

// One pass over the vector. Candidates go to the list and into the coarse histogram. The next residual is written as if all
// candidates were sent: those that are not are few, and finish() writes them again. kAdds: there is a residual.
template <typename T, bool kAdds>
__global__ void __launch_bounds__(kThreads, blocks_of_collect(kAdds))
    collect(Input in, bool wide, bool sum, Board* board, List list) {
  __shared__ uint32_t values[kWarps][kBuffered], indices[kWarps][kBuffered], coarse[kCoarseBins];
  for (uint32_t i = threadIdx.x; i < kCoarseBins; i += kThreads) coarse[i] = 0;
  __syncthreads();
  const T* gradient = static_cast<const T*>(in.gradient);
  const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x & 31, floor = board->floor;
  const float least = __uint_as_float(floor);
  uint32_t have = 0, largest = 0;
  double total = 0;

  const auto note = [&](uint32_t at, uint32_t value, uint32_t index) {
    const uint32_t key = value & kMagnitudeBits;
    largest = max(largest, key);
    if (at >= list.capacity) return;
    list.values[at] = value;
    list.indices[at] = index;
    atomicAdd(&coarse[min((key - floor) >> kFineBits, kCoarseBins - 1)], 1u);
  };
  const auto flush = [&] {
    uint32_t at = 0;
    if (lane == 0) at = atomicAdd(&board->found, have);
    at = __shfl_sync(~0u, at, 0);
    for (uint32_t i = lane; i < have; i += 32) note(at + i, values[warp][i], indices[warp][i]);
    have = 0;
    __syncwarp();
  };

  const uint32_t groups = in.count / 4, stride = gridDim.x * kThreads * kGroups;
  for (uint32_t b = blockIdx.x * kThreads * kGroups; b < groups; b += stride) {
    float4 v[kGroups];
    uint32_t hits = 0;
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
      const uint32_t i = b + static_cast<uint32_t>(j) * kThreads + threadIdx.x;
      v[j] = i < groups ? load_four<T>(gradient, i, wide) : float4{0, 0, 0, 0};
    }
    if (kAdds && in.residual) {
      float4 r[kGroups];
#pragma unroll
      for (int j = 0; j < kGroups; ++j) {
        const uint32_t i = b + static_cast<uint32_t>(j) * kThreads + threadIdx.x;
        r[j] = i < groups ? load_four<float>(in.residual, i, wide) : float4{0, 0, 0, 0};
      }
#pragma unroll
      for (int j = 0; j < kGroups; ++j) {
        v[j].x += r[j].x;
        v[j].y += r[j].y;
        v[j].z += r[j].z;
        v[j].w += r[j].w;
      }
    }
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
      const uint32_t i = b + static_cast<uint32_t>(j) * kThreads + threadIdx.x;
      // Not less, instead of at least: so is NaN.
      uint32_t four = 0;
      if (!(fabsf(v[j].x) < least)) four |= 1;
      if (!(fabsf(v[j].y) < least)) four |= 2;
      if (!(fabsf(v[j].z) < least)) four |= 4;
      if (!(fabsf(v[j].w) < least)) four |= 8;
      if (i >= groups) four = 0;
      hits |= four << 4 * j;
      if (kAdds && in.next && i < groups) {
        float4 rest = v[j];
        if (four & 1) rest.x = rest_of(rest.x, in.half_values);
        if (four & 2) rest.y = rest_of(rest.y, in.half_values);
        if (four & 4) rest.z = rest_of(rest.z, in.half_values);
        if (four & 8) rest.w = rest_of(rest.w, in.half_values);
        store_four(in.next, i, wide, rest);
      }
      if (sum) {
        total += static_cast<double>(fabsf(v[j].x)) + static_cast<double>(fabsf(v[j].y));
        total += static_cast<double>(fabsf(v[j].z)) + static_cast<double>(fabsf(v[j].w));
      }
    }
    const uint32_t count = static_cast<uint32_t>(__popc(hits));
    if (!__any_sync(~0u, count)) continue;
    const uint32_t inclusive = scan_of_warp(count), all = __shfl_sync(~0u, inclusive, 31);
    if (have + all > kBuffered) flush();
    const bool direct = all > kBuffered;  // far more than the sample promised
    uint32_t at = inclusive - count + have;
    if (direct) {
      uint32_t start = 0;
      if (lane == 0) start = atomicAdd(&board->found, all);
      at += __shfl_sync(~0u, start, 0);
    }
    for (; hits != 0; hits &= hits - 1) {
      const auto j = static_cast<uint32_t>(__ffs(static_cast<int>(hits)) - 1);
      const uint32_t value = __float_as_uint(element_of(v, j));
      const uint32_t index = (b + j / 4 * kThreads + threadIdx.x) * 4 + j % 4;
      if (direct) {
        note(at, value, index);
      } else {
        values[warp][at] = value;
        indices[warp][at] = index;
      }
      ++at;
    }
    if (!direct) have += all;
    __syncwarp();
  }
  if (have) flush();
  if (blockIdx.x == 0 && threadIdx.x < in.count % 4) {
    const uint32_t i = groups * 4 + threadIdx.x;
    const float value = load(in, i);
    const bool hit = magnitude(value) >= floor;
    if (hit) note(atomicAdd(&board->found, 1u), __float_as_uint(value), i);
    if (kAdds && in.next) in.next[i] = hit ? rest_of(value, in.half_values) : value;
    if (sum) total += static_cast<double>(fabsf(value));
  }
  largest = __reduce_max_sync(~0u, largest);
  if (lane == 0 && largest > 0) atomicMax(&board->largest, largest);
  if (sum) {
    __shared__ double totals[kWarps];
    for (int d = 16; d > 0; d >>= 1) total += __shfl_down_sync(~0u, total, d);
    if (lane == 0) totals[warp] = total;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int w = 1; w < kWarps; ++w) total += totals[w];
      board->sums[blockIdx.x] = total;
    }
  }
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < kCoarseBins; i += kThreads) {
    if (coarse[i]) atomicAdd(&board->coarse[i], coarse[i]);
  }
}

// Magnitudes [lower, upper) of the elements of which only the first ones are taken.
struct Band {
  uint32_t lower;
  uint32_t upper;
};

// MSTopK's search, as src/compress/mstopk.cc makes it. Its counts only matter as less, equal or more than k, which
// follows from the k-th and the next largest magnitude (1 + it; 0: there is none).
__device__ Band search(double mean, uint32_t largest, uint32_t kth, uint32_t beneath, int samplings) {
  Band band{0, largest + 1};
  double low = 0, high = static_cast<double>(__uint_as_float(largest)), middle = mean;
  for (int i = 0; i <= samplings; ++i, middle = low + (high - low) / 2) {
    const uint32_t threshold = __float_as_uint(static_cast<float>(middle));
    const bool enough = threshold <= kth, few = threshold >= beneath;
    if (few) {
      band.upper = min(band.upper, threshold);
      high = middle;
    }
    if (enough) {
      band.lower = max(band.lower, threshold);
      low = middle;
    }
    if (few && enough) break;
  }
  return band;
}

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
    largest = __reduce_max_sync(~0u, largest);
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
      below = __reduce_max_sync(~0u, below);
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
    above = __reduce_add_sync(~0u, above);
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
    count = __reduce_add_sync(~0u, count);
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

unsigned multiprocessors() {
  int device = 0, count = 0;
  check(cudaGetDevice(&device), "asking for the current device");
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "asking for the multiprocessors");
  return static_cast<unsigned>(count);
}

unsigned grid_of(int blocks_per_multiprocessor) {
  return std::min(multiprocessors() * static_cast<unsigned>(blocks_per_multiprocessor), kMostBlocks);
}

template <typename T>
unsigned launch_collect(const Input& in, bool sum, const Scratch& scratch, const List& list, cudaStream_t stream) {
  const auto is_aligned = [](const void* p, size_t bytes) { return reinterpret_cast<uintptr_t>(p) % bytes == 0; };
  const bool wide = is_aligned(in.gradient, 4 * sizeof(T)) && is_aligned(in.residual, 16) && is_aligned(in.next, 16);
  const bool adds = in.next || in.residual;
  const unsigned blocks = grid_of(blocks_of_collect(adds));
  const auto kernel = adds ? collect<T, true> : collect<T, false>;
  kernel<<<blocks, kThreads, 0, stream>>>(in, wide, sum, scratch.board, list);
  return blocks;
}

}  // namespace

Plan plan_of(size_t count, size_t kept, int samplings) {
  Plan plan{static_cast<uint32_t>(kept), 0, 0, 0, samplings};
  if (count < kLeastSampled || kept > count / kLargestShare) return plan;
  plan.samples = static_cast<uint32_t>(std::min<size_t>(kMostSamples, count / 64 / kThreads * kThreads));
  const double hits = static_cast<double>(plan.samples) * static_cast<double>(kept) / static_cast<double>(count);
  // The hits of the sample vary by their square root.
  plan.rank = static_cast<uint32_t>(hits + 3.5 * std::sqrt(hits) + 5);
  const double expected = static_cast<double>(plan.rank) * static_cast<double>(count) / plan.samples;
  plan.capacity = static_cast<uint32_t>(std::min(static_cast<double>(count), 2 * expected + 65536));
  return plan;
}

void select(const Input& in, const Plan& plan, const Scratch& scratch, const Output& out, cudaStream_t stream) {
  begin<<<kBeginBlocks, kThreads, 0, stream>>>(in, plan.samples, plan.rank, scratch.board);
  const List list{scratch.values, scratch.indices, plan.capacity};
  unsigned blocks = 0;  // that have summed magnitudes
  if (plan.capacity > 0) {
    const bool sum = plan.samplings > 0;
    switch (in.dtype) {
      case CC_FLOAT16:
        blocks = launch_collect<__half>(in, sum, scratch, list, stream);
        break;
      case CC_BFLOAT16:
        blocks = launch_collect<__nv_bfloat16>(in, sum, scratch, list, stream);
        break;
      default:
        blocks = launch_collect<float>(in, sum, scratch, list, stream);
    }
  }
  // Blocks that have nothing to do only lengthen the barriers; a pass over the whole vector needs many loads under way.
  const uint32_t work = (in.count + 8 * kThreads - 1) / (8 * kThreads);
  cudaLaunchConfig_t config{};
  config.gridDim = std::min(work, grid_of(plan.capacity > 0 ? 1 : 2));
  config.blockDim = kThreads;
  config.stream = stream;
  cudaLaunchAttribute cooperative{};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  config.attrs = &cooperative;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, finish, in, list, blocks, plan.kept, plan.samplings, scratch.board, out),
        "starting a top-k selection");
  check(cudaGetLastError(), "starting a top-k selection");
}

}  // namespace ccore_cuda::topk
