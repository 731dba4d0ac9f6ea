#include "path_choice.h"

#include <algorithm>

namespace ccore_cuda {
namespace {

constexpr const char* kLinkNames[kLinks] = {"of one process and GPU", "of processes on one GPU",
                                            "between slices of one GPU", "between GPUs"};

// Each answer that the rules need names the first ranks for which it holds, and is empty if it holds for none.
struct Survey {
  std::string unreachable;  // a pair of which one cannot use the memory of the other
  std::string shared;       // a pair of processes that share a GPU
  std::string crowded;      // the same without MPS
  std::string mute;         // a pair of which one has no streams that write memory of the other
  std::string across;       // a pair on two GPUs
  std::string unordered;    // a rank whose streams may see a word before what another GPU wrote before it
  std::string queueless;    // a rank whose driver cannot queue memory operations on streams
};

std::string number(size_t rank) { return std::to_string(rank); }

void note(std::string* first, const std::string& text) {
  if (first->empty()) *first = text;
}

bool on_one_device(Link link) { return link == Link::kThread || link == Link::kSameDevice; }

Survey survey_of(const RankTable& table) {
  Survey survey;
  for (size_t a = 0; a < table.ranks.size(); ++a) {
    if (!table.ranks[a].has_stream_operations) note(&survey.queueless, number(a));
    if (!table.ranks[a].orders_remote_writes) note(&survey.unordered, number(a));
    for (size_t b = a + 1; b < table.ranks.size(); ++b) {
      const std::string pair = number(a) + " and " + number(b);
      const Link link = link_of(table.ranks[a], table.ranks[b]);
      if (!table.reaches[a][b] || !table.reaches[b][a]) note(&survey.unreachable, pair);
      if (!table.signals[a][b] || !table.signals[b][a]) note(&survey.mute, pair);
      if (!on_one_device(link)) note(&survey.across, pair);
      if (link == Link::kSameDevice) note(&survey.shared, pair);
      if (link == Link::kSameDevice && !(table.ranks[a].has_mps && table.ranks[b].has_mps)) note(&survey.crowded, pair);
    }
  }
  return survey;
}

// Why the ranks cannot take a path; empty: they can.
std::string obstacle(cc_cuda_path path, const Survey& survey) {
  if (path != CC_CUDA_PATH_HOST && !survey.unreachable.empty()) {
    return "ranks " + survey.unreachable + " have no peer access";
  }
  if (path == CC_CUDA_PATH_KERNEL) return "";
  if (!survey.queueless.empty()) {
    return "rank " + survey.queueless +
           ": the driver cannot queue memory operations on streams; the path needs CUDA 11.7";
  }
  if (path == CC_CUDA_PATH_STREAM && !survey.mute.empty()) {
    return "streams of ranks " + survey.mute + " cannot write each other's memory";
  }
  if (path == CC_CUDA_PATH_STREAM && !survey.across.empty() && !survey.unordered.empty()) {
    return "ranks " + survey.across + " are on different GPUs, and the GPU of rank " + survey.unordered +
           " does not order the writes of other GPUs for its streams";
  }
  return "";
}

// In the order of preference; the first one without an obstacle is taken.
constexpr cc_cuda_path kOfCrowded[] = {CC_CUDA_PATH_STREAM, CC_CUDA_PATH_HOST, CC_CUDA_PATH_KERNEL};
constexpr cc_cuda_path kOfOthers[] = {CC_CUDA_PATH_KERNEL, CC_CUDA_PATH_HOST, CC_CUDA_PATH_STREAM};

void refuse(PathChoice* choice, cc_result result, const std::string& reason) {
  choice->result = result;
  choice->reason = reason;
}

// A kernel that waits for a peer keeps multiprocessors from the peer's program if that runs on the same GPU. Some kernels
// of cuDNN end only if all of their blocks run at the same time: the peer would not come.
void wait_in_streams_if_shared(const Survey& survey, PathChoice* choice) {
  if (choice->path != CC_CUDA_PATH_KERNEL || survey.shared.empty()) return;
  choice->waits_in_streams = obstacle(CC_CUDA_PATH_STREAM, survey).empty();
  if (choice->waits_in_streams) choice->reason += "; outside of CUDA graphs their streams wait";
}

void choose_automatically(const Survey& survey, PathChoice* choice) {
  std::string obstacles;
  for (const cc_cuda_path path : survey.crowded.empty() ? kOfOthers : kOfCrowded) {
    const std::string found = obstacle(path, survey);
    if (found.empty()) {
      choice->path = path;
      choice->reason = !obstacles.empty() ? obstacles
                       : survey.crowded.empty()
                           ? "every pair has peer access, and ranks of one GPU run at the same time"
                           : "ranks " + survey.crowded + " are processes that share a GPU without MPS";
      wait_in_streams_if_shared(survey, choice);
      return;
    }
    if (obstacles.find(found) == std::string::npos) obstacles += (obstacles.empty() ? "" : "; ") + found;
  }
  refuse(choice, CC_ERROR_SYSTEM, "the ranks have no path for device memory: " + obstacles);
}

void choose_as_wished(cc_cuda_path wished, const Survey& survey, PathChoice* choice) {
  if (wished == CC_CUDA_PATH_AUTO) {
    choose_automatically(survey, choice);
    return;
  }
  choice->path = wished;
  choice->reason = "as requested";
  const std::string found = obstacle(wished, survey);
  if (!found.empty()) {
    refuse(choice, CC_ERROR_INVALID_USAGE,
           std::string("the path '") + name_of(wished) + "' was requested (CCORE_CUDA_PATH), but " + found +
               "; set CCORE_CUDA_PATH=auto on all ranks");
  }
}

std::string text_of_pairs(const RankTable& table) {
  int unreachable = 0, reachable[kLinks] = {};
  for (size_t a = 0; a < table.ranks.size(); ++a) {
    for (size_t b = a + 1; b < table.ranks.size(); ++b) {
      const bool reaches = table.reaches[a][b] && table.reaches[b][a];
      ++(reaches ? reachable[static_cast<int>(link_of(table.ranks[a], table.ranks[b]))] : unreachable);
    }
  }
  std::string text;
  const auto add = [&](int pairs, const std::string& name) {
    if (pairs == 0) return;
    text += (text.empty() ? "" : ", ") + std::to_string(pairs) + (pairs == 1 ? " pair " : " pairs ") + name;
  };
  add(unreachable, "without peer access");
  for (int link = 0; link < kLinks; ++link) {
    const bool across = static_cast<Link>(link) == Link::kPeer;
    add(reachable[link], std::string(kLinkNames[link]) + (across ? " with peer access" : ""));
  }
  return text;
}

}  // namespace

const char* name_of(cc_cuda_path path) {
  constexpr const char* kNames[] = {"auto", "stream", "kernel", "host"};
  return path >= CC_CUDA_PATH_AUTO && path <= CC_CUDA_PATH_HOST ? kNames[path] : "unknown";
}

Link link_of(const RankFacts& a, const RankFacts& b) {
  if (a.uuid == b.uuid) return a.process == b.process ? Link::kThread : Link::kSameDevice;
  return a.bus == b.bus ? Link::kSlice : Link::kPeer;
}

int ranks_on_device(const std::vector<RankFacts>& ranks, size_t rank) {
  return static_cast<int>(std::count_if(ranks.begin(), ranks.end(),
                                        [&](const RankFacts& other) { return other.uuid == ranks[rank].uuid; }));
}

PathChoice choose_path(const RankTable& table, cc_cuda_path wished) {
  PathChoice choice{};
  const Survey survey = survey_of(table);
  choice.takes_turns = !survey.crowded.empty();
  if (wished != CC_CUDA_PATH_HOST) choice.pairs = text_of_pairs(table);
  const std::vector<RankFacts>& ranks = table.ranks;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto before = ranks.begin() + static_cast<std::ptrdiff_t>(rank);
    const auto same = [&](const RankFacts& other) { return other.uuid == ranks[rank].uuid; };
    choice.gpus += std::none_of(ranks.begin(), before, same) ? 1 : 0;
    const auto threads = std::count_if(ranks.begin(), ranks.end(),
                                       [&](const RankFacts& other) { return other.process == ranks[rank].process; });
    choice.most_threads = std::max(choice.most_threads, static_cast<int>(threads));
    if (ranks[rank].node == ranks[0].node || choice.result != CC_SUCCESS) continue;
    refuse(&choice, CC_ERROR_INVALID_USAGE,
           "ranks 0 and " + number(rank) + " are on different nodes; a handle serves the GPUs of one node");
  }
  if (choice.result == CC_SUCCESS) choose_as_wished(wished, survey, &choice);
  return choice;
}

}  // namespace ccore_cuda
