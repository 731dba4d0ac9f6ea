// The functions of collective_core.h on device, managed, pinned and other host memory: all collectives, each result compared
// with that of host memory on the same communicator. CCORE_INTRA_SIZE cuts the machine into nodes.
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench.h"

namespace cuda_perf {
namespace {

using Numbers = std::vector<float>;

enum class Where { device, managed, pinned };

// Memory of one kind.
class Memory {
 public:
  Memory(Where where, size_t count) : where_(where), bytes_(count * sizeof(float)) {
    void** const to = reinterpret_cast<void**>(&data);
    if (where == Where::device) check_cuda(cudaMalloc(to, bytes_ + 16), "allocating device memory");
    if (where == Where::managed) check_cuda(cudaMallocManaged(to, bytes_ + 16), "allocating managed memory");
    if (where == Where::pinned) check_cuda(cudaMallocHost(to, bytes_ + 16), "allocating pinned memory");
  }
  ~Memory() { where_ == Where::pinned ? cudaFreeHost(data) : cudaFree(data); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void put(const Numbers& numbers, cudaStream_t stream) {
    check_cuda(cudaMemcpyAsync(data, numbers.data(), bytes_, cudaMemcpyDefault, stream), "filling");
    check_cuda(cudaStreamSynchronize(stream), "filling");
  }
  Numbers get(cudaStream_t stream) const {
    Numbers numbers(bytes_ / sizeof(float));
    check_cuda(cudaMemcpyAsync(numbers.data(), data, bytes_, cudaMemcpyDefault, stream), "reading");
    check_cuda(cudaStreamSynchronize(stream), "reading");
    return numbers;
  }

  float* data = nullptr;

 private:
  const Where where_;
  const size_t bytes_;
};

// A collective, with buffers of `size` times `count` elements.
using Body = std::function<cc_result(const float* send, float* recv, size_t count, const cc_op_options* options)>;

std::map<std::string, Body> collectives_of(const Rank& rank, cc_comm* comm) {
  const int root = rank.size - 1;
  const auto ranks = static_cast<size_t>(rank.size);
  const auto self = static_cast<size_t>(rank.rank);
  const auto blocks = [ranks, self](size_t count, bool own) {
    // Blocks of different sizes with a gap in front of each: rank r gives and gets r elements fewer.
    std::pair<std::vector<size_t>, std::vector<size_t>> found;
    for (size_t r = 0; r < ranks; ++r) {
      const size_t less = own ? self : r;
      found.first.push_back(count > less + 1 ? count - less - 1 : 0);
      found.second.push_back(r * count + 1);
    }
    return found;
  };
  return {
      {"all_reduce", [comm](const float* s, float* r, size_t n,
                            const cc_op_options* o) { return cc_all_reduce(s, r, n, CC_FLOAT32, CC_AVG, comm, o); }},
      {"reduce",
       [comm, root](const float* s, float* r, size_t n, const cc_op_options* o) {
         return cc_reduce(s, r, n, CC_FLOAT32, CC_SUM, root, comm, o);
       }},
      {"broadcast", [comm, root](const float* s, float* r, size_t n,
                                 const cc_op_options* o) { return cc_broadcast(s, r, n, CC_FLOAT32, root, comm, o); }},
      {"all_gather", [comm](const float* s, float* r, size_t n,
                            const cc_op_options* o) { return cc_all_gather(s, r, n, CC_FLOAT32, comm, o); }},
      {"reduce_scatter",
       [comm](const float* s, float* r, size_t n, const cc_op_options* o) {
         return cc_reduce_scatter(s, r, n, CC_FLOAT32, CC_MAX, comm, o);
       }},
      {"gather", [comm, root](const float* s, float* r, size_t n,
                              const cc_op_options* o) { return cc_gather(s, r, n, CC_FLOAT32, root, comm, o); }},
      {"scatter", [comm, root](const float* s, float* r, size_t n,
                               const cc_op_options* o) { return cc_scatter(s, r, n, CC_FLOAT32, root, comm, o); }},
      {"all_to_all", [comm](const float* s, float* r, size_t n,
                            const cc_op_options* o) { return cc_all_to_all(s, r, n, CC_FLOAT32, comm, o); }},
      {"all_to_allv",
       [comm, blocks](const float* s, float* r, size_t n, const cc_op_options* o) {
         const auto [counts, offsets] = blocks(n, true);
         const auto [coming, to] = blocks(n, false);
         return cc_all_to_allv(s, counts.data(), offsets.data(), r, coming.data(), to.data(), CC_FLOAT32, comm, o);
       }},
      {"all_gatherv",
       [comm, blocks](const float* s, float* r, size_t n, const cc_op_options* o) {
         const auto [counts, offsets] = blocks(n, false);
         return cc_all_gatherv(s, r, counts.data(), offsets.data(), CC_FLOAT32, comm, o);
       }},
  };
}

std::string ways_of(cc_comm* comm) {
  size_t count = 0;
  require(cc_comm_counts(comm, nullptr, sizeof(cc_count), &count), "cc_comm_counts");
  std::vector<cc_count> rows(count);
  require(cc_comm_counts(comm, rows.data(), sizeof(cc_count), &count), "cc_comm_counts");
  std::map<std::string, uint64_t> ways;
  for (const cc_count& row : rows) {
    const std::string name = row.algorithm;
    if (name == "gpu" || name == "2d_gpu" || name == "staged") ways[name] += row.calls;
  }
  std::string text;
  for (const auto& [name, calls] : ways) text += " " + name + " " + std::to_string(calls);
  return text;
}

}  // namespace

void run_entry(Rank& rank, const Options& options) {
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  cc_comm* const comm = rank.make_comm(0, options.timeout_ms);
  cc_op_options on_stream{};
  on_stream.size = sizeof on_stream;
  on_stream.stream = stream;
  size_t wrong = 0, checked = 0;
  for (const size_t count : options.sizes) {
    const size_t all = count * static_cast<size_t>(rank.size);
    Numbers values(all);
    for (size_t i = 0; i < all; ++i) values[i] = static_cast<float>((i * 7 + static_cast<size_t>(rank.rank) * 3) % 64);
    for (const auto& [name, body] : collectives_of(rank, comm)) {
      Numbers expected(all, -1);
      require(body(values.data(), expected.data(), count, nullptr), (name + " on host memory").c_str());
      for (const Where where : {Where::device, Where::managed, Where::pinned}) {
        Memory send(where, all), recv(where, all);
        send.put(values, stream);
        recv.put(Numbers(all, -1), stream);
        require(body(send.data, recv.data, count, &on_stream), name.c_str());
        const Numbers got = recv.get(stream);
        const bool right = std::memcmp(got.data(), expected.data(), all * sizeof(float)) == 0;
        if (!right && wrong++ < 5) {
          std::fprintf(stderr, "rank %d: %s of %zu elements, memory %d: wrong\n", rank.rank, name.c_str(), count,
                       static_cast<int>(where));
        }
        ++checked;
      }
      // In place, where that is in place for every rank.
      if (name != "all_reduce") continue;
      Memory both(Where::device, all);
      both.put(values, stream);
      require(body(both.data, both.data, count, &on_stream), "all_reduce in place");
      const Numbers got = both.get(stream);
      if (std::memcmp(got.data(), expected.data(), count * sizeof(float)) != 0) ++wrong;
      ++checked;
    }
  }
  cc_result state = CC_SUCCESS;
  require(cc_comm_get_async_error(comm, &state), "cc_comm_get_async_error");
  require(state, "an operation that was queued");
  const auto total_wrong = static_cast<size_t>(rank.total(static_cast<double>(wrong)));
  if (rank.rank == 0) {
    std::printf("# ways:%s\n", ways_of(comm).c_str());
    std::printf("results %zu wrong %zu\n", checked, total_wrong);
  }
  require(cc_comm_finalize(comm, nullptr), "cc_comm_finalize");
  require(cc_comm_destroy(comm), "cc_comm_destroy");
  cudaStreamDestroy(stream);
  if (total_wrong > 0) throw Failed("wrong results");
}

}  // namespace cuda_perf
