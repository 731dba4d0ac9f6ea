// collective_core in C++17: objects that own what they hold, types of elements instead of codes, exceptions instead of
// results. A thin layer over collective_core.h, whose rules hold here, too.
//
//   collective_core::Communicator world;  // as Open MPI, MPICH, torchrun or Slurm started this process
//   std::vector<float> gradient(1000, 1.0f);
//   world.all_reduce(gradient);
//
// Buffers are containers with contiguous elements: std::vector, std::array, std::span, a Span of a pointer and a number.
#ifndef COLLECTIVE_CORE_COLLECTIVE_CORE_HPP_
#define COLLECTIVE_CORE_COLLECTIVE_CORE_HPP_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "collective_core/collective_core.h"

namespace collective_core {

// A call failed. code() says how, the text says why and where, and names the rank if another one failed.
class Error : public std::runtime_error {
 public:
  // Takes the code and the text of a failed call.
  Error(cc_result code, const std::string& text)
      : std::runtime_error(std::string(cc_error_string(code)) + ": " + text), code_(code) {}
  // What kind of failure it was.
  cc_result code() const noexcept { return code_; }

 private:
  cc_result code_;
};

namespace detail {

inline void check(cc_result code, const cc_comm* comm = nullptr) {
  if (code == CC_SUCCESS) return;
  const std::string shared = comm ? cc_last_error(comm) : "";
  throw Error(code, shared.empty() ? cc_last_error(nullptr) : shared);
}

inline void expect(bool condition, const char* text) {
  if (!condition) throw Error(CC_ERROR_INVALID_ARGUMENT, text);
}

}  // namespace detail

// The code of an element type. Specialise it for a 16-bit or 8-bit float of your own, such as CUDA's __half:
//   template <> struct collective_core::dtype_of<__half> : std::integral_constant<cc_dtype, CC_FLOAT16> {};
template <typename T, typename = void>
struct dtype_of;
template <>
struct dtype_of<double> : std::integral_constant<cc_dtype, CC_FLOAT64> {};
template <>
struct dtype_of<float> : std::integral_constant<cc_dtype, CC_FLOAT32> {};
template <typename T>
struct dtype_of<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool> &&
                                    (sizeof(T) == 1 || sizeof(T) == 4 || sizeof(T) == 8)>>
    : std::integral_constant<cc_dtype, sizeof(T) == 1   ? (std::is_signed_v<T> ? CC_INT8 : CC_UINT8)
                                       : sizeof(T) == 4 ? (std::is_signed_v<T> ? CC_INT32 : CC_UINT32)
                                                        : (std::is_signed_v<T> ? CC_INT64 : CC_UINT64)> {};

// Elements in memory that another object owns. C++20's std::span does as well.
template <typename T>
class Span {
 public:
  // size elements from data on, which must outlive this object.
  Span(T* data, std::size_t size) : data_(data), size_(size) {}
  // The first element.
  T* data() const noexcept { return data_; }
  // How many elements there are.
  std::size_t size() const noexcept { return size_; }

 private:
  T* data_;
  std::size_t size_;
};

// Settings of a communicator; what is empty follows the environment, then the default.
struct Config {
  std::optional<std::chrono::milliseconds> timeout;  // of every operation
  std::optional<std::chrono::milliseconds> init_timeout;  // of the initialisation
  cc_transport transport = CC_TRANSPORT_AUTO;  // between ranks
  std::string node_id;  // ranks with equal text are one node
  std::string interface_name;  // for TCP
  std::string address;  // numeric, to bind and announce
};

// The ranks of a job and this rank's place among them. Moves, and is not copied; the end of its life destroys it, without
// waiting for other ranks. Calls throw Error; buffers and counts are in elements.
class Communicator {
 public:
  // Joins the ranks that Open MPI, MPICH, torchrun or Slurm started; one rank without any of them.
  explicit Communicator(const Config& config = {}) {
    const cc_config plain = plain_of(config);
    detail::check(cc_comm_init(&comm_, &plain));
  }
  // Joins as rank of nranks those that have the same id.
  Communicator(const cc_unique_id& id, int rank, int nranks, const Config& config = {}) {
    const cc_config plain = plain_of(config);
    detail::check(cc_comm_init_rank(&comm_, nranks, &id, rank, &plain));
  }
  // Owns a communicator of the C ABI.
  explicit Communicator(cc_comm* comm) noexcept : comm_(comm) {}
  // Leaves other without a communicator.
  Communicator(Communicator&& other) noexcept : comm_(std::exchange(other.comm_, nullptr)) {}
  // Exchanges the communicators of both.
  Communicator& operator=(Communicator&& other) noexcept {
    std::swap(comm_, other.comm_);
    return *this;
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator() { cc_comm_destroy(comm_); }

  // For calls of collective_core.h.
  cc_comm* get() const noexcept { return comm_; }

  // The number of this rank, from 0.
  int rank() const {
    int rank = 0;
    detail::check(cc_comm_rank(comm_, &rank));
    return rank;
  }
  // How many ranks there are.
  int size() const {
    int size = 0;
    detail::check(cc_comm_size(comm_, &size));
    return size;
  }

  // In place.
  template <typename Buffer>
  void all_reduce(Buffer&& values, cc_redop op = CC_SUM) {
    all_reduce(values, values, op);
  }
  // Equal sizes.
  template <typename Send, typename Recv>
  void all_reduce(const Send& send, Recv&& recv, cc_redop op = CC_SUM) {
    detail::expect(std::size(send) == std::size(recv), "all_reduce: send and recv differ in size");
    run(cc_all_reduce, std::data(send), writable(recv), std::size(send), type<Send, Recv>(), op);
  }
  // values of every rank = values of root.
  template <typename Buffer>
  void broadcast(Buffer&& values, int root) {
    run(cc_broadcast, std::data(values), writable(values), std::size(values), type<Buffer, Buffer>(), root);
  }
  // recv has size() times the elements of send.
  template <typename Send, typename Recv>
  void all_gather(const Send& send, Recv&& recv) {
    detail::expect(std::size(recv) == std::size(send) * ranks(), "all_gather: recv must have size() * send elements");
    run(cc_all_gather, std::data(send), writable(recv), std::size(send), type<Send, Recv>());
  }
  // send has size() times the elements of recv.
  template <typename Send, typename Recv>
  void reduce_scatter(const Send& send, Recv&& recv, cc_redop op = CC_SUM) {
    detail::expect(std::size(send) == std::size(recv) * ranks(),
                   "reduce_scatter: send must have size() * recv elements");
    run(cc_reduce_scatter, std::data(send), writable(recv), std::size(recv), type<Send, Recv>(), op);
  }
  // recv may be empty on all ranks but root, where it has the size of send.
  template <typename Send, typename Recv>
  void reduce(const Send& send, Recv&& recv, int root, cc_redop op = CC_SUM) {
    detail::expect(rank() != root || std::size(send) == std::size(recv), "reduce: send and recv differ in size");
    run(cc_reduce, std::data(send), writable(recv), std::size(send), type<Send, Recv>(), op, root);
  }
  // recv may be empty on all ranks but root, where it has size() times the elements of send.
  template <typename Send, typename Recv>
  void gather(const Send& send, Recv&& recv, int root) {
    detail::expect(rank() != root || std::size(recv) == std::size(send) * ranks(),
                   "gather: recv of root must have size() * send elements");
    run(cc_gather, std::data(send), writable(recv), std::size(send), type<Send, Recv>(), root);
  }
  // send may be empty on all ranks but root, where it has size() times the elements of recv.
  template <typename Send, typename Recv>
  void scatter(const Send& send, Recv&& recv, int root) {
    detail::expect(rank() != root || std::size(send) == std::size(recv) * ranks(),
                   "scatter: send of root must have size() * recv elements");
    run(cc_scatter, std::data(send), writable(recv), std::size(recv), type<Send, Recv>(), root);
  }
  // Block r of recv = block `rank` of send of rank r.
  template <typename Send, typename Recv>
  void all_to_all(const Send& send, Recv&& recv) {
    detail::expect(std::size(send) == std::size(recv) && std::size(send) % ranks() == 0,
                   "all_to_all: send and recv must be of equal size, a multiple of size()");
    run(cc_all_to_all, std::data(send), writable(recv), std::size(send) / ranks(), type<Send, Recv>());
  }
  // One message to peer, which calls recv with as many elements of this type.
  template <typename Buffer>
  void send(const Buffer& values, int peer) {
    run(cc_send, std::data(values), std::size(values), type<Buffer, Buffer>(), peer);
  }
  // One message from peer.
  template <typename Buffer>
  void recv(Buffer&& values, int peer) {
    run(cc_recv, writable(values), std::size(values), type<Buffer, Buffer>(), peer);
  }
  // Returns when all ranks have called it.
  void barrier() { run(cc_barrier); }

  // The ranks that call it with one color become a communicator, in the order of key, then of rank. All ranks call it;
  // with CC_SPLIT_NOCOLOR this rank joins none.
  std::optional<Communicator> split(int color, int key = 0) {
    cc_comm* part = nullptr;
    detail::check(cc_comm_split(comm_, color, key, nullptr, &part), comm_);
    if (!part) return std::nullopt;
    return Communicator(part);
  }
  // Returns when all ranks have called it, and so are done with all they called before.
  void finalize() { detail::check(cc_comm_finalize(comm_, nullptr), comm_); }
  // Ends the running operation on every rank with an error; callable from any thread.
  void abort() { detail::check(cc_comm_abort(comm_)); }

 private:
  template <typename Buffer>
  using element = std::remove_cv_t<std::remove_pointer_t<decltype(std::data(std::declval<Buffer&>()))>>;

  template <typename Send, typename Recv>
  static constexpr cc_dtype type() {
    static_assert(std::is_same_v<element<Send>, element<Recv>>, "send and recv hold elements of different types");
    return dtype_of<element<Send>>::value;
  }
  template <typename Buffer>
  static void* writable(Buffer&& buffer) {
    static_assert(!std::is_const_v<std::remove_pointer_t<decltype(std::data(buffer))>>, "this buffer is written to");
    return std::data(buffer);
  }
  std::size_t ranks() const { return static_cast<std::size_t>(size()); }

  template <typename Function, typename... Arguments>
  void run(Function function, Arguments... arguments) {
    detail::check(function(arguments..., comm_, nullptr), comm_);
  }

  static cc_config plain_of(const Config& config) {
    const auto text = [](const std::string& value) { return value.empty() ? nullptr : value.c_str(); };
    cc_config plain{};
    plain.size = sizeof plain;
    if (config.timeout) plain.timeout_ms = config.timeout->count();
    if (config.init_timeout) plain.init_timeout_ms = config.init_timeout->count();
    plain.transport = config.transport;
    plain.node_id = text(config.node_id);
    plain.interface_name = text(config.interface_name);
    plain.address = text(config.address);
    return plain;
  }

  cc_comm* comm_ = nullptr;
};

}  // namespace collective_core

#endif  // COLLECTIVE_CORE_COLLECTIVE_CORE_HPP_
