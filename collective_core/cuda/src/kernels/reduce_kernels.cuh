// The kernels of one data type. Sums of the usual types have code for 2, 4 and 8 ranks; everything else shares a kernel
// that takes the operator and the number of ranks as arguments, since each kernel costs seconds to compile.
#pragma once

#include "kernels/fold_slots.cuh"
#include "kernels/launch.cuh"
#include "kernels/packet_reduce.cuh"
#include "kernels/two_shot.cuh"

namespace ccore_cuda {

template <typename T, bool kUsual>
struct KernelsOf {
  template <typename Arguments>
  using Kernel = void (*)(const Arguments, const Peers);

  static Kernel<PacketReduce> packet_kernel(cc_redop op, int ranks) {
    if constexpr (kUsual) {
      if (op == CC_SUM || op == CC_AVG) {
        if (ranks == 2) return packet_reduce<T, 2, true>;
        if (ranks == 4) return packet_reduce<T, 4, true>;
        if (ranks == 8) return packet_reduce<T, 8, true>;
      }
    }
    return packet_reduce<T, 0, false>;
  }
  static Kernel<TwoShot> two_shot_kernel(cc_redop op, int ranks) {
    if constexpr (kUsual) {
      if (op == CC_SUM || op == CC_AVG) {
        if (ranks == 2) return two_shot<T, 2, true>;
        if (ranks == 4) return two_shot<T, 4, true>;
        if (ranks == 8) return two_shot<T, 8, true>;
      }
    }
    return two_shot<T, 0, false>;
  }

  static void packets(const PacketReduce& call, const Peers& peers, cudaStream_t stream) {
    launch(packet_kernel(call.op, peers.size), call.spread.blocks, threads_of(call.spread), call, peers, stream);
  }
  static void two_shots(const TwoShot& call, const Peers& peers, cudaStream_t stream) {
    launch(two_shot_kernel(call.op, peers.size), call.blocks, kTwoShotThreads, call, peers, stream);
  }
  static void folds(const FoldSlots& call, const Peers& peers, cudaStream_t stream) {
    launch(fold_slots<T>, call.blocks, kFoldThreads, call, peers, stream);
  }
  static std::vector<const void*> functions(int ranks) {
    std::vector<const void*> all;
    for (const cc_redop op : {CC_SUM, CC_MAX}) {
      all.push_back(reinterpret_cast<const void*>(packet_kernel(op, ranks)));
      all.push_back(reinterpret_cast<const void*>(two_shot_kernel(op, ranks)));
    }
    return all;
  }
};

template <typename T, bool kUsual>
constexpr ReduceKernels kernels_of() {
  return {KernelsOf<T, kUsual>::packets, KernelsOf<T, kUsual>::two_shots, KernelsOf<T, kUsual>::folds,
          KernelsOf<T, kUsual>::functions};
}

}  // namespace ccore_cuda
