// The path that ranks on GPUs take, for tables of ranks: shared GPUs with and without MPS, several GPUs, hidden GPUs, MIG
// slices, mixed layouts, missing peer access, requested paths.
#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "cases.h"
#include "expect.h"
#include "path_choice.h"

namespace test {
namespace {

using namespace ccore_cuda;

constexpr auto kAuto = CC_CUDA_PATH_AUTO, kStream = CC_CUDA_PATH_STREAM, kKernel = CC_CUDA_PATH_KERNEL,
               kHost = CC_CUDA_PATH_HOST;
constexpr auto kRefused = CC_CUDA_PATH_AUTO;

struct Case {
  const char* about;
  // A word for each rank: a capital letter is its GPU, and after it a digit its MIG slice, a small letter its process
  // (one of its own without it), '+' MPS, '!' a GPU that does not order remote writes, '~' no memory operations on
  // streams, '@' another node.
  const char* ranks;
  // "01 10": rank 0 cannot use memory of rank 1, and rank 1 not that of rank 0; "01s": streams of rank 0 cannot write it.
  const char* blind;
  cc_cuda_path wished;
  cc_cuda_path path;
  const char* reason;  // a part of it
};

RankFacts facts_of(const std::string& word, size_t rank) {
  RankFacts facts{};
  facts.process = rank;
  facts.has_stream_operations = facts.orders_remote_writes = 1;
  for (const char sign : word) {
    if (sign >= 'A' && sign <= 'Z') {
      facts.uuid[0] = static_cast<unsigned char>(sign);
      facts.bus = static_cast<uint64_t>(sign) << 8;
    }
    if (sign >= '0' && sign <= '9') facts.uuid[15] = static_cast<unsigned char>(sign);
    if (sign >= 'a' && sign <= 'z') facts.process = static_cast<uint64_t>(sign);
    if (sign == '+') facts.has_mps = 1;
    if (sign == '!') facts.orders_remote_writes = 0;
    if (sign == '~') facts.has_stream_operations = 0;
    if (sign == '@') facts.node = 1;
  }
  return facts;
}

RankTable table_of(const char* ranks, const char* blind) {
  std::istringstream words(ranks), pairs(blind);
  std::vector<RankFacts> facts;
  for (std::string word; words >> word;) facts.push_back(facts_of(word, facts.size()));
  RankTable table(facts);
  table.reaches.assign(facts.size(), std::vector<bool>(facts.size(), true));
  table.signals = table.reaches;
  for (std::string pair; pairs >> pair;) {
    const auto from = static_cast<size_t>(pair[0] - '0'), to = static_cast<size_t>(pair[1] - '0');
    table.signals[from][to] = false;
    if (pair.size() == 2) table.reaches[from][to] = false;
  }
  return table;
}

constexpr Case kCases[] = {
    {"a rank alone", "A", "", kAuto, kKernel, "every pair"},
    {"processes on one GPU", "A A", "", kAuto, kStream, "ranks 0 and 1 are processes that share"},
    {"with MPS", "A+ A+ A+ A+", "", kAuto, kKernel, "at the same time; outside of CUDA graphs their streams wait"},
    {"MPS of one only", "A+ A", "", kAuto, kStream, "without MPS"},
    {"threads on one GPU", "Ap Ap Ap", "", kAuto, kKernel, "every pair"},
    {"two threads and a process on one GPU", "Ap Ap Aq", "", kAuto, kStream, "ranks 0 and 2"},
    {"one GPU without IPC, as in separate containers", "A A", "01 10", kAuto, kHost, "no peer access"},
    {"a GPU each", "A B", "", kAuto, kKernel, "every pair"},
    {"a GPU each, remote writes unordered: kernels have fences", "A! B!", "", kAuto, kKernel, "every pair"},
    {"eight GPUs", "A B C D E F G H", "", kAuto, kKernel, "every pair"},
    {"threads of one process with a GPU each", "Ap Bp", "", kAuto, kKernel, "every pair"},
    {"a GPU each without P2P", "A B", "01 10", kAuto, kHost, "ranks 0 and 1 have no peer access"},
    {"P2P in one direction only", "A B", "10", kAuto, kHost, "no peer access"},
    {"one pair of four without P2P: all take the host", "A B C D", "13", kAuto, kHost, "ranks 1 and 3"},
    {"2 ranks on a GPU and 1 on another", "A A B", "", kAuto, kStream, "ranks 0 and 1 are processes"},
    {"the same, remote writes unordered", "A A B!", "", kAuto, kHost, "does not order"},
    {"the same, streams cannot write to the other GPU", "A A B", "12s", kAuto, kHost, "streams of ranks 1 and 2"},
    {"a GPU each, streams cannot write to the other: kernels can", "A B", "01s 10s", kAuto, kKernel, "every pair"},
    {"the same with MPS, remote writes unordered", "A+ A+ B+!", "", kAuto, kKernel, "every pair"},
    {"2 threads on a GPU and 1 on another", "Ap Ap Bp", "", kAuto, kKernel, "every pair"},
    {"mixed and without P2P", "A A B", "20 21", kAuto, kHost, "ranks 0 and 2"},
    {"slices of one GPU", "A1 A2", "01 10", kAuto, kHost, "no peer access"},
    {"two ranks of one slice", "A1 A1", "", kAuto, kStream, "without MPS"},
    {"a slice for two ranks and another for one", "A1 A1 A2", "02 12 20 21", kAuto, kHost, "ranks 0 and 2"},
    {"a slice beside a whole GPU", "A1 B", "01 10", kAuto, kHost, "no peer access"},
    {"no operations on streams: kernels, slowly", "A~ A", "", kAuto, kKernel, "needs CUDA 11.7"},
    {"neither P2P nor operations on streams", "A~ B~", "01", kAuto, kRefused, "no path"},
    {"kernels are requested without P2P", "A B", "01", kKernel, kRefused, "'kernel' was requested"},
    {"streams are requested without order", "A! B", "", kStream, kRefused, "does not order"},
    {"streams are requested between GPUs", "A B", "", kStream, kStream, "as requested"},
    {"streams are requested on one GPU, remote writes unordered", "A! A!", "", kStream, kStream, "as requested"},
    {"the host is requested", "A A", "", kHost, kHost, "as requested"},
    {"kernels are requested without MPS", "A A", "", kKernel, kKernel, "as requested"},
    {"two nodes", "A B@", "", kAuto, kRefused, "ranks 0 and 1 are on different nodes"},
    {"two nodes, the host is requested", "A A@", "", kHost, kRefused, "different nodes"},
};

void check_case(const Case& given) {
  const PathChoice choice = choose_path(table_of(given.ranks, given.blind), given.wished);
  const bool refused = choice.result != CC_SUCCESS;
  EXPECT(refused == (given.path == kRefused), given.about, ": ", choice.reason);
  EXPECT(refused || choice.path == given.path, given.about, ": path ", name_of(choice.path));
  EXPECT(contains(choice.reason, given.reason), given.about, ": ", choice.reason);
}

// The order in which ranks are numbered has no part in the path.
void check_renumbered(const Case& given) {
  RankTable table = table_of(given.ranks, given.blind);
  const PathChoice before = choose_path(table, given.wished);
  std::reverse(table.ranks.begin(), table.ranks.end());
  for (auto* matrix : {&table.reaches, &table.signals}) {
    std::reverse(matrix->begin(), matrix->end());
    for (auto& row : *matrix) std::reverse(row.begin(), row.end());
  }
  const PathChoice after = choose_path(table, given.wished);
  EXPECT(before.path == after.path && before.result == after.result && before.gpus == after.gpus &&
             before.takes_turns == after.takes_turns && before.most_threads == after.most_threads &&
             before.pairs == after.pairs && before.waits_in_streams == after.waits_in_streams,
         given.about, ": ", before.pairs, " / ", after.pairs);
}

void check_counts() {
  const RankTable mixed = table_of("Ap Ap Bq", "");
  const PathChoice choice = choose_path(mixed, kAuto);
  EXPECT(choice.gpus == 2 && choice.most_threads == 2 && !choice.takes_turns, choice.gpus, " ", choice.most_threads);
  EXPECT(ranks_on_device(mixed.ranks, 0) == 2 && ranks_on_device(mixed.ranks, 2) == 1, "ranks on a GPU");
  EXPECT(choice.pairs == "1 pair of one process and GPU, 2 pairs between GPUs with peer access", choice.pairs);
  // Without a probe of the peers.
  const PathChoice host = choose_path(RankTable(mixed.ranks), kHost);
  EXPECT(host.result == CC_SUCCESS && host.path == kHost && host.pairs.empty(), host.reason, " ", host.pairs);
  const PathChoice sliced = choose_path(table_of("A1 A1 A2", "02 21"), kAuto);
  EXPECT(sliced.gpus == 2 && sliced.takes_turns, sliced.gpus);
  EXPECT(sliced.pairs == "2 pairs without peer access, 1 pair of processes on one GPU", sliced.pairs);
}

// A kernel that waits must not keep multiprocessors from another process whose kernels the peer needs first.
void check_waits_in_streams() {
  const auto waits = [](const char* ranks, const char* blind, cc_cuda_path wished) {
    return choose_path(table_of(ranks, blind), wished).waits_in_streams;
  };
  EXPECT(waits("A+ A+", "", kAuto) && waits("A+ A+ B+", "", kAuto), "processes on one GPU with MPS");
  EXPECT(!waits("A B", "", kAuto) && !waits("Ap Ap", "", kAuto), "GPUs of one process each");
  EXPECT(!waits("A~+ A+", "", kAuto), "no operations on streams");
  EXPECT(!waits("A+ A+ B+!", "", kAuto) && !waits("A+ A+ B+", "12s", kAuto), "streams cannot take the operations");
  EXPECT(!waits("A+ A+", "", kKernel) && !waits("A A", "", kAuto), "kernels are requested; the path is stream");
}

}  // namespace

void cuda_choice() {
  for (const Case& given : kCases) {
    check_case(given);
    check_renumbered(given);
  }
  check_counts();
  check_waits_in_streams();
}

}  // namespace test
