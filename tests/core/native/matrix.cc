// Every collective x type x operator x awkward size, in place and out of place, against the oracle.
#include <cstring>
#include <vector>

#include "cases.h"
#include "expect.h"
#include "oracle.h"
#include "ranks.h"

namespace test {
namespace {

constexpr unsigned char kUntouched = 0xa5;

struct Combination {
  cc_dtype dtype;
  cc_redop op;
  size_t count;
};

class Rank {
 public:
  Rank(int rank, int nranks, cc_comm* comm, Meeting* meeting, std::vector<Data>* shared)
      : rank_(rank), n_(static_cast<size_t>(nranks)), comm_(comm), meeting_(meeting), shared_(shared) {}

  void reductions(const Combination& c) {
    const size_t bytes = c.count * cc_dtype_size(c.dtype);
    std::vector<Data> inputs = all_inputs(c, c.count);
    Data out(bytes, kUntouched);
    call(cc_all_reduce(mine(inputs), out.data(), c.count, c.dtype, c.op, comm_, nullptr));
    expect_reduction(out, inputs, 0, c.dtype, c.op);
    expect_identical(out);
    Data in_place = inputs[own()];
    call(cc_all_reduce(in_place.data(), in_place.data(), c.count, c.dtype, c.op, comm_, nullptr));
    EXPECT(in_place == out, "in place differs from out of place");
    EXPECT(inputs[own()] == random_input(c.dtype, c.count, rank_, seed(c)), "the input was written to");

    inputs = all_inputs(c, c.count * n_);
    Data block(bytes, kUntouched);
    call(cc_reduce_scatter(mine(inputs), block.data(), c.count, c.dtype, c.op, comm_, nullptr));
    expect_reduction(block, inputs, own() * c.count, c.dtype, c.op);
    Data all = inputs[own()];
    unsigned char* own_block = all.data() + own() * bytes;
    call(cc_reduce_scatter(all.data(), own_block, c.count, c.dtype, c.op, comm_, nullptr));
    EXPECT(Data(own_block, own_block + bytes) == block, "in place differs from out of place");
  }

  void copies(const Combination& c) {
    const size_t bytes = c.count * cc_dtype_size(c.dtype);
    const std::vector<Data> inputs = all_inputs(c, c.count);
    Data joined;
    for (const Data& input : inputs) joined.insert(joined.end(), input.begin(), input.end());
    Data out(bytes * n_, kUntouched);
    call(cc_all_gather(mine(inputs), out.data(), c.count, c.dtype, comm_, nullptr));
    EXPECT(out == joined, "all_gather");
    Data in_place(bytes * n_, kUntouched);
    if (bytes > 0) std::memcpy(in_place.data() + own() * bytes, mine(inputs), bytes);
    call(cc_all_gather(in_place.data() + own() * bytes, in_place.data(), c.count, c.dtype, comm_, nullptr));
    EXPECT(in_place == joined, "all_gather in place");
    for (size_t root = 0; root < n_; ++root) {
      Data received(bytes, kUntouched);
      call(cc_broadcast(mine(inputs), received.data(), c.count, c.dtype, static_cast<int>(root), comm_,
                        nullptr));
      EXPECT(received == inputs[root], "broadcast from ", root);
      Data data = inputs[own()];
      call(cc_broadcast(data.data(), data.data(), c.count, c.dtype, static_cast<int>(root), comm_, nullptr));
      EXPECT(data == inputs[root], "broadcast in place from ", root);
    }
    call(cc_barrier(comm_, nullptr));
  }

 private:
  size_t own() const { return static_cast<size_t>(rank_); }
  static unsigned seed(const Combination& c) {
    return static_cast<unsigned>(c.dtype * 100 + c.op * 10) + static_cast<unsigned>(c.count % 7);
  }
  const void* mine(const std::vector<Data>& inputs) const { return inputs[own()].data(); }

  std::vector<Data> all_inputs(const Combination& c, size_t count) const {
    std::vector<Data> inputs;
    for (size_t rank = 0; rank < n_; ++rank) {
      inputs.push_back(random_input(c.dtype, count, static_cast<int>(rank), seed(c)));
    }
    return inputs;
  }

  void call(cc_result result) const {
    EXPECT(result == CC_SUCCESS, "rank ", rank_, ": ", cc_last_error(nullptr));
  }

  // Bit for bit, which the oracle's error bound does not say.
  void expect_identical(const Data& result) {
    (*shared_)[own()] = result;
    meeting_->wait();
    EXPECT((*shared_)[0] == result, "rank ", rank_, " has other bits than rank 0");
    meeting_->wait();
  }

  int rank_;
  size_t n_;
  cc_comm* comm_;
  Meeting* meeting_;
  std::vector<Data>* shared_;
};

}  // namespace

void matrix(const std::string& layout, int nranks) {
  const auto p = static_cast<size_t>(nranks);
  Meeting meeting(nranks);
  std::vector<Data> shared(p);
  run_ranks(nranks, layout_named(layout), [&](int number, cc_comm* comm) {
    Rank rank(number, nranks, comm, &meeting, &shared);
    try {
      for (const cc_dtype dtype : kDtypes) {
        for (const size_t count : {size_t{0}, size_t{1}, p - 1, p, p + 1, size_t{1009}}) {
          for (const cc_redop op : kRedops) rank.reductions({dtype, op, count});
          rank.copies({dtype, CC_SUM, count});
        }
      }
      // Larger than a ring of shared memory and than a turn of the stream, and odd.
      for (const cc_dtype dtype : {CC_INT8, CC_BFLOAT16, CC_FLOAT64}) {
        rank.reductions({dtype, CC_AVG, ((size_t{1} << 20) + 3) / cc_dtype_size(dtype)});
        rank.copies({dtype, CC_SUM, ((size_t{1} << 20) + 3) / cc_dtype_size(dtype)});
      }
    } catch (...) {
      cc_comm_abort(comm);  // the other ranks must not wait for this one
      throw;
    }
  });
}

}  // namespace test
