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
    // One rank holds the result against the oracle, and every other has the very same bits.
    if (own() == 0) expect_reduction(out, inputs, 0, c.dtype, c.op);
    expect_identical(out);
    Data in_place = inputs[own()];
    call(cc_all_reduce(in_place.data(), in_place.data(), c.count, c.dtype, c.op, comm_, nullptr));
    EXPECT(in_place == out, "in place differs from out of place");
    EXPECT(inputs[own()] == random_input(c.dtype, c.count, rank_, seed(c)), "the input was written to");

    // Each combination has another root; the many combinations have them all.
    const size_t root = (c.count + static_cast<size_t>(c.dtype) + static_cast<size_t>(c.op)) % n_;
    Data reduced(own() == root ? bytes : 0, kUntouched);
    const int root_number = static_cast<int>(root);
    call(cc_reduce(mine(inputs), reduced.data(), c.count, c.dtype, c.op, root_number, comm_, nullptr));
    if (own() == root) expect_reduction(reduced, inputs, 0, c.dtype, c.op);
    in_place = inputs[own()];
    call(cc_reduce(in_place.data(), in_place.data(), c.count, c.dtype, c.op, root_number, comm_, nullptr));
    EXPECT(in_place == (own() == root ? reduced : inputs[own()]), "reduce in place");

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
      call(cc_broadcast(mine(inputs), received.data(), c.count, c.dtype, static_cast<int>(root), comm_, nullptr));
      EXPECT(received == inputs[root], "broadcast from ", root);
      Data data = inputs[own()];
      call(cc_broadcast(data.data(), data.data(), c.count, c.dtype, static_cast<int>(root), comm_, nullptr));
      EXPECT(data == inputs[root], "broadcast in place from ", root);
    }
    // As with reduce: another root each time.
    gather_and_scatter(c, joined, static_cast<int>((c.count + static_cast<size_t>(c.dtype)) % n_));
    exchanges(c);
    uneven(c);
    call(cc_barrier(comm_, nullptr));
  }

 private:
  void gather_and_scatter(const Combination& c, const Data& joined, int root) {
    const size_t bytes = c.count * cc_dtype_size(c.dtype);
    const bool is_root = rank_ == root;
    const Data mine = part(joined, own() * bytes, bytes);
    Data all(is_root ? joined.size() : 0, kUntouched);
    call(cc_gather(mine.data(), all.data(), c.count, c.dtype, root, comm_, nullptr));
    EXPECT(!is_root || all == joined, "gather to ", root);
    Data one(bytes, kUntouched);
    call(cc_scatter(all.data(), one.data(), c.count, c.dtype, root, comm_, nullptr));
    EXPECT(one == mine, "scatter from ", root);
    // In place on the root.
    if (is_root) all = Data(joined.size(), kUntouched);
    if (is_root && bytes > 0) std::memcpy(all.data() + own() * bytes, mine.data(), bytes);
    unsigned char* own_part = is_root ? all.data() + own() * bytes : one.data();
    call(cc_gather(own_part, all.data(), c.count, c.dtype, root, comm_, nullptr));
    EXPECT(!is_root || all == joined, "gather in place to ", root);
    if (!is_root) one.assign(bytes, kUntouched);
    call(cc_scatter(all.data(), own_part, c.count, c.dtype, root, comm_, nullptr));
    EXPECT(is_root ? all == joined : one == mine, "scatter in place from ", root);
  }

  void exchanges(const Combination& c) {
    const size_t bytes = c.count * cc_dtype_size(c.dtype);
    const std::vector<Data> inputs = all_inputs(c, c.count * n_);
    Data expected;
    for (const Data& input : inputs) append(&expected, part(input, own() * bytes, bytes));
    Data out(bytes * n_, kUntouched);
    call(cc_all_to_all(inputs[own()].data(), out.data(), c.count, c.dtype, comm_, nullptr));
    EXPECT(out == expected, "all_to_all");
  }

  // Blocks of different sizes, some of them empty.
  void uneven(const Combination& c) {
    const size_t element = cc_dtype_size(c.dtype);
    const auto amount = [&](size_t from, size_t to) { return c.count * ((from + 3 * to) % 4) / 3; };
    std::vector<size_t> counts;
    std::vector<size_t> offsets;
    size_t end = 1;  // a gap of one element before each block
    Data expected;
    for (size_t rank = 0; rank < n_; ++rank) {
      counts.push_back(rank == 1 ? 0 : c.count + rank);
      offsets.push_back(end);
      end += counts.back() + 1;
      expected.resize(offsets.back() * element, kUntouched);
      append(&expected, random_input(c.dtype, counts.back(), static_cast<int>(rank), seed(c)));
    }
    expected.resize(end * element, kUntouched);
    const Data mine = random_input(c.dtype, counts[own()], rank_, seed(c));
    Data got(end * element, kUntouched);
    call(cc_all_gatherv(mine.data(), got.data(), counts.data(), offsets.data(), c.dtype, comm_, nullptr));
    EXPECT(got == expected, "all_gatherv");
    got.assign(end * element, kUntouched);
    unsigned char* own_block = got.data() + offsets[own()] * element;
    if (!mine.empty()) std::memcpy(own_block, mine.data(), mine.size());
    call(cc_all_gatherv(own_block, got.data(), counts.data(), offsets.data(), c.dtype, comm_, nullptr));
    EXPECT(got == expected, "all_gatherv in place");

    std::vector<size_t> out_counts;
    std::vector<size_t> out_offsets;
    std::vector<size_t> in_counts;
    std::vector<size_t> in_offsets;
    Data out;
    expected.clear();
    for (size_t peer = 0; peer < n_; ++peer) {
      out_counts.push_back(amount(own(), peer));
      out_offsets.push_back(out.size() / element);
      append(&out, pair_data(c, own(), peer, amount(own(), peer)));
      in_counts.push_back(amount(peer, own()));
      in_offsets.push_back(expected.size() / element);
      append(&expected, pair_data(c, peer, own(), amount(peer, own())));
    }
    got.assign(expected.size(), kUntouched);
    call(cc_all_to_allv(out.data(), out_counts.data(), out_offsets.data(), got.data(), in_counts.data(),
                        in_offsets.data(), c.dtype, comm_, nullptr));
    EXPECT(got == expected, "all_to_allv");
  }

  static Data pair_data(const Combination& c, size_t from, size_t to, size_t count) {
    return random_input(c.dtype, count, static_cast<int>(from), seed(c) + 1000 * static_cast<unsigned>(to));
  }
  static Data part(const Data& data, size_t begin, size_t size) {
    const auto first = data.begin() + static_cast<std::ptrdiff_t>(begin);
    return Data(first, first + static_cast<std::ptrdiff_t>(size));
  }
  static void append(Data* to, const Data& more) { to->insert(to->end(), more.begin(), more.end()); }

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

  void call(cc_result result) const { EXPECT(result == CC_SUCCESS, "rank ", rank_, ": ", cc_last_error(nullptr)); }

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
        // Few bytes go one way (doubling, tree), more go another (ring, chain).
        const size_t more = 36007 / cc_dtype_size(dtype) + 1;
        for (const size_t count : {size_t{0}, size_t{1}, p - 1, p, p + 1, size_t{1009}, more}) {
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
