// All-reduce over packed trees on real ranks: right everywhere, every link with the bytes of its trees' shares, and the
// matrix of rank 0 for all, parts of them included.
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "cases.h"
#include "expect.h"
#include "link_fixtures.h"
#include "oracle.h"
#include "ranks.h"
#include "schedule/packing.h"

namespace test {
namespace {

// A file that is gone afterwards, named by CCORE_LINK_MATRIX.
class MatrixFile {
 public:
  explicit MatrixFile(const std::string& text) {
    const int fd = mkstemp(path_.data());
    EXPECT(fd >= 0, "mkstemp");
    close(fd);
    std::ofstream(path_) << text;
    EXPECT(setenv("CCORE_LINK_MATRIX", path_.c_str(), 1) == 0, "setenv");
  }
  ~MatrixFile() {
    unsetenv("CCORE_LINK_MATRIX");
    unlink(path_.c_str());
  }
  MatrixFile(const MatrixFile&) = delete;
  MatrixFile& operator=(const MatrixFile&) = delete;

 private:
  std::string path_ = "/tmp/ccore-links-XXXXXX";
};

std::string last_algorithm(cc_comm* comm) {
  cc_trace_entry entry{};
  size_t count = 1;
  EXPECT(cc_comm_trace(comm, &entry, sizeof entry, &count) == CC_SUCCESS, last_error(comm));
  return entry.algorithm;
}

std::vector<uint64_t> sent_to(cc_comm* comm, int nranks) {
  std::vector<uint64_t> bytes;
  for (int peer = 0; peer < nranks; ++peer) {
    cc_peer_info info{};
    info.size = sizeof info;
    EXPECT(cc_comm_peer_info(comm, peer, &info) == CC_SUCCESS, cc_last_error(nullptr));
    bytes.push_back(info.payload_bytes_sent);
  }
  return bytes;
}

struct Round {
  cc_dtype dtype;
  cc_redop op;
  size_t count;
};

void reduce(int rank, cc_comm* comm, const Round& round, Meeting* meeting, std::vector<Data>* shared) {
  Data& out = (*shared)[static_cast<size_t>(rank)];
  out = random_input(round.dtype, round.count, rank, 3);
  EXPECT(cc_all_reduce(out.data(), out.data(), round.count, round.dtype, round.op, comm, nullptr) == CC_SUCCESS,
         "rank ", rank, ": ", last_error(comm));
  EXPECT(last_algorithm(comm) == "n_trees", last_algorithm(comm));
  if (rank == 0) {
    std::vector<Data> inputs;
    for (size_t peer = 0; peer < shared->size(); ++peer) {
      inputs.push_back(random_input(round.dtype, round.count, static_cast<int>(peer), 3));
    }
    expect_reduction(out, inputs, 0, round.dtype, round.op);
  }
  meeting->wait();
  EXPECT(out == (*shared)[0], "rank ", rank, " has other bits than rank 0");
  meeting->wait();
}

void right_on(const std::string& layout, const ccore::LinkMatrix& links) {
  const MatrixFile file(text_of(links));
  EXPECT(setenv("CCORE_ALGO", "all_reduce:n_trees", 1) == 0, "setenv");
  const int p = links.nranks;
  Meeting meeting(p);
  std::vector<Data> shared(static_cast<size_t>(p));
  const std::vector<ccore::Tree> trees = ccore::pack_trees(links);
  run_ranks(p, layout_named(layout), [&](int rank, cc_comm* comm) {
    try {
      const auto few = static_cast<size_t>(p) + 1;
      for (const Round& round : {Round{CC_FLOAT32, CC_SUM, 0}, Round{CC_INT8, CC_MAX, 1},
                                 Round{CC_FLOAT16, CC_AVG, few}, Round{CC_INT64, CC_PROD, 1009},
                                 Round{CC_BFLOAT16, CC_SUM, 36007}, Round{CC_FLOAT32, CC_AVG, (size_t{3} << 17) + 3}}) {
        reduce(rank, comm, round, &meeting, &shared);
      }
      // Divided by all blocks, so that every share is whole; one chunk each.
      int shares = 0;
      for (const ccore::Tree& tree : trees) shares += tree.share;
      const size_t count = static_cast<size_t>(shares) * 60;
      const std::vector<uint64_t> before = sent_to(comm, p);
      reduce(rank, comm, {CC_FLOAT32, CC_SUM, count}, &meeting, &shared);
      const std::vector<uint64_t> after = sent_to(comm, p);
      for (int peer = 0; peer < p; ++peer) {
        size_t expected = 0;
        for (const ccore::Tree& tree : trees) {
          const bool neighbours =
              tree.parent[static_cast<size_t>(rank)] == peer || tree.parent[static_cast<size_t>(peer)] == rank;
          if (neighbours) expected += static_cast<size_t>(tree.share) * 60 * sizeof(float);
        }
        const auto at = static_cast<size_t>(peer);
        EXPECT(after[at] - before[at] == expected, "rank ", rank, " sent ", after[at] - before[at], " bytes to ", peer,
               ", expected ", expected);
      }
    } catch (...) {
      cc_comm_abort(comm);  // the other ranks must not wait for this one
      throw;
    }
  });
  EXPECT(unsetenv("CCORE_ALGO") == 0, "unsetenv");
}

// Whom the user has told what the links carry gets the trees where bytes count, unasked; and so do parts.
void chosen_where_links_are_known() {
  const MatrixFile file(dgx1v_text());
  run_ranks(8, layout_named("shm"), [&](int rank, cc_comm* comm) {
    std::vector<float> data(1 << 16, 1.0F);
    const auto by = [&](cc_comm* on, size_t count) {
      EXPECT(cc_all_reduce(data.data(), data.data(), count, CC_FLOAT32, CC_MAX, on, nullptr) == CC_SUCCESS,
             last_error(on));
      return last_algorithm(on);
    };
    EXPECT(by(comm, data.size()) == "n_trees", by(comm, data.size()));
    EXPECT(by(comm, 16) != "n_trees", "for little data");
    // GPUs 0 to 3 are joined; 0 and 5, 1 and 4, ... are not, and are reduced as if nothing were known.
    cc_comm* half = nullptr;
    EXPECT(cc_comm_split(comm, rank / 4, rank, nullptr, &half) == CC_SUCCESS, last_error(comm));
    EXPECT(by(half, data.size()) == "n_trees", by(half, data.size()));
    EXPECT(cc_comm_destroy(half) == CC_SUCCESS, "destroy");
    cc_comm* pair = nullptr;
    EXPECT(cc_comm_split(comm, rank < 4 ? rank : (rank - 4) ^ 1, rank, nullptr, &pair) == CC_SUCCESS, last_error(comm));
    EXPECT(by(pair, data.size()) != "n_trees", "over links that are not there");
    EXPECT(cc_comm_destroy(pair) == CC_SUCCESS, "destroy");
  });
}

void a_matrix_that_does_not_fit_ends_all_ranks() {
  const MatrixFile file(dgx1v_text());
  cc_unique_id id;
  EXPECT(cc_get_unique_id(&id) == CC_SUCCESS, cc_last_error(nullptr));
  run_threads(3, [&](int rank) {
    cc_config config{};
    config.size = sizeof config;
    config.init_timeout_ms = 20000;
    cc_comm* comm = nullptr;
    EXPECT(cc_comm_init_rank(&comm, 3, &id, rank, &config) == CC_ERROR_INVALID_ARGUMENT, cc_last_error(nullptr));
    EXPECT(contains(cc_last_error(nullptr), "row 1 has 8 columns, expected 3, one for each rank"),
           cc_last_error(nullptr));
  });
}

}  // namespace

void n_trees() {
  for (int p = 2; p <= 8; ++p) right_on("shm", dgx1v(p));
  for (const int p : {3, 5}) right_on("tcp", dgx1v(p));
  right_on("mixed", dgx1v(4));
  right_on("cyclic", ccore::parse_link_matrix("triangle", "X 40 20\n40 X 40\n20 40 X", 3));
  chosen_where_links_are_known();
  a_matrix_that_does_not_fit_ends_all_ranks();
}

}  // namespace test
