#include "attach.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "communicator.h"
#include "failure.h"
#include "meeting.h"
#include "report.h"
#include "rival.h"

namespace ccore_nccl {
namespace {

constexpr uint32_t kMagic = 0x4343434e;  // "NCCC"
constexpr int kMostRanks = 16;           // that a handle of the CUDA library serves

struct Text {
  std::array<char, 120> bytes{};
  void operator=(const std::string& from) { std::snprintf(bytes.data(), bytes.size(), "%s", from.c_str()); }
  std::string text() const { return std::string(bytes.data(), strnlen(bytes.data(), bytes.size())); }
};

// What each rank shows the others first.
struct Card {
  uint32_t magic = kMagic;
  uint32_t version = CC_VERSION_NUMBER;
  uint32_t willing = 0;
  uint32_t takes_all = 0;
  uint32_t tunes = 0;  // rank 0's holds for all
  uint64_t boot = 0;  // equal on ranks of one machine
  int64_t pid = 0;
  std::array<unsigned char, 16> device{};
  cc_unique_id id{};  // of rank 0
  Text problem;       // if it is not willing
};

// And then, whether its handle was made.
struct Outcome {
  uint32_t ready = 0;
  int32_t path = 0;
  Text problem;
};

uint64_t hash_of(const void* data, size_t size) {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < size; i++) hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3;
  return hash;
}

uint64_t boot_hash() {
  std::array<char, 64> text{};
  const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  const ssize_t size = fd < 0 ? 0 : read(fd, text.data(), text.size());
  if (fd >= 0) close(fd);
  return hash_of(text.data(), size > 0 ? static_cast<size_t>(size) : 0);
}

template <class Record>
std::vector<Record> records_of(const std::vector<char>& block) {
  std::vector<Record> records(block.size() / sizeof(Record));
  std::memcpy(records.data(), block.data(), records.size() * sizeof(Record));
  return records;
}

template <class Record>
std::vector<std::vector<Record>> exchange(const std::vector<Newcomer>& newcomers, const std::vector<Record>& own) {
  std::vector<std::vector<char>> blocks;
  for (size_t i = 0; i < newcomers.size(); i++) {
    blocks.emplace_back(static_cast<size_t>(newcomers[i].ranks) * sizeof(Record));
    std::memcpy(blocks[i].data() + static_cast<size_t>(newcomers[i].rank) * sizeof(Record), &own[i], sizeof(Record));
  }
  gather_records(newcomers, &blocks, sizeof(Record));
  std::vector<std::vector<Record>> all;
  for (const auto& block : blocks) all.push_back(records_of<Record>(block));
  return all;
}

Card card_of(const Newcomer& newcomer, bool alone) {
  Card card;
  card.takes_all = takes_all() ? 1 : 0;
  card.tunes = tunes() ? 1 : 0;
  std::string why;
  const CoreLibrary* with = core_library(&why);
  if (!alone) {
    card.problem = "one thread makes several communicators together";
  } else if (with == nullptr) {
    card.problem = why;
  } else {
    const ContextScope current(newcomer.context);
    card.boot = boot_hash();
    card.pid = getpid();
    if (with->device_identity(card.device.data()) != CC_SUCCESS) {
      card.problem = with->cuda_last_error();
    } else if (newcomer.rank == 0 && with->get_unique_id(&card.id) != CC_SUCCESS) {
      card.problem = with->last_error(nullptr);
    } else {
      card.willing = 1;
    }
  }
  return card;
}

// Why these ranks cannot be served; empty if they can.
std::string obstacle(const std::vector<Card>& cards) {
  for (size_t rank = 0; rank < cards.size(); rank++) {
    const Card& card = cards[rank];
    const std::string name = "rank " + std::to_string(rank) + ": ";
    if (card.magic != kMagic || card.version != cards[0].version) return name + "another version of this library";
    if (card.takes_all != cards[0].takes_all) return name + "CCORE_NCCL differs from that of rank 0";
    if (card.willing == 0) return name + card.problem.text();
    if (card.boot != cards[0].boot) return "the ranks are on several nodes";
    for (size_t other = 0; other < rank; other++) {
      if (card.pid == cards[other].pid && card.takes_all == 0)
        return name + "rank " + std::to_string(other) + " is in the same process";
    }
  }
  return "";
}

int64_t operation_timeout_ms() {
  // NCCL waits without a deadline; what ends a wait is the program's watchdog, by ncclCommAbort.
  constexpr int64_t kDayMs = 24 * 3600 * 1000;
  return std::getenv("CCORE_TIMEOUT_S") == nullptr ? kDayMs : 0;
}

std::string make_handles(const Newcomer& newcomer, const std::vector<Card>& cards, Communicator* made) {
  const ContextScope current(newcomer.context);
  cc_config config{};
  config.size = sizeof config;
  config.timeout_ms = operation_timeout_ms();
  if (core().comm_init_rank(&made->comm, newcomer.ranks, &cards[0].id, newcomer.rank, &config) != CC_SUCCESS) {
    return core().last_error(nullptr);
  }
  cc_cuda_options options{};
  options.size = sizeof options;
  options.timeout_ms = config.timeout_ms;
  if (core().create(made->comm, &options, &made->cuda) != CC_SUCCESS) return core().cuda_last_error();
  return "";
}

Place place_of(int path, const std::vector<Card>& cards) {
  const bool one_gpu =
      std::all_of(cards.begin(), cards.end(), [&](const Card& card) { return card.device == cards[0].device; });
  if (!one_gpu) return Place::peers;
  return path == CC_CUDA_PATH_STREAM ? Place::shared_gpu_streams : Place::shared_gpu_kernels;
}

void destroy_handles(const Communicator& made) {
  const ContextScope current(made.context);
  core().destroy(made.cuda);
  core().comm_destroy(made.comm);
}

// Returns why the ranks stay with NCCL, or "".
std::string attach_one(const Newcomer& newcomer, const std::vector<Card>& cards) {
  auto made = std::make_unique<Communicator>();
  made->nccl = newcomer.nccl;
  made->ranks = newcomer.ranks;
  made->order = hash_of(&cards[0].id, sizeof cards[0].id);
  made->context = newcomer.context;
  Outcome own;
  own.problem = make_handles(newcomer, cards, made.get());
  if (made->cuda != nullptr) {
    core().get_path(made->cuda, &own.path);
    own.ready = own.path == CC_CUDA_PATH_STREAM || own.path == CC_CUDA_PATH_KERNEL;
    if (own.ready == 0) own.problem = "without peer access NCCL is as fast";
  }
  const std::vector<Outcome> outcomes = exchange<Outcome>({newcomer}, {own})[0];
  for (size_t rank = 0; rank < outcomes.size(); rank++) {
    if (outcomes[rank].ready == 1 && outcomes[rank].path == outcomes[0].path) continue;
    destroy_handles(*made);
    return "rank " + std::to_string(rank) + ": " + outcomes[rank].problem.text();
  }
  made->place = place_of(own.path, cards);
  if (cards[0].tunes == 1) {
    // Without the tuner the table decides.
    const std::string why = compete_with_nccl(made.get());
    if (!why.empty()) report_without_tuner(why);
  }
  std::array<char, 512> description{};
  core().describe(made->cuda, description.data(), description.size());
  report_communicator(newcomer.ranks, newcomer.rank, description.data(), "");
  add_communicator(std::move(made));
  return "";
}

void attach_all(const std::vector<Comm>& made) {
  std::vector<Newcomer> newcomers;
  for (const Comm comm : made) {
    const Newcomer newcomer = newcomer_of(comm);
    if (newcomer.ranks > 1 && newcomer.ranks <= kMostRanks) newcomers.push_back(newcomer);
  }
  if (newcomers.empty()) return;
  std::vector<Card> own;
  for (const Newcomer& newcomer : newcomers) own.push_back(card_of(newcomer, newcomers.size() == 1));
  const auto cards = exchange<Card>(newcomers, own);
  for (size_t i = 0; i < newcomers.size(); i++) {
    std::string why = obstacle(cards[i]);
    if (why.empty()) why = attach_one(newcomers[i], cards[i]);
    if (!why.empty()) report_communicator(newcomers[i].ranks, newcomers[i].rank, "", why);
  }
}

}  // namespace

bool enabled() {
  static const bool on = [] {
    const char* text = std::getenv("CCORE_NCCL");
    return text == nullptr || std::strcmp(text, "0") != 0;
  }();
  return on;
}

Result attach(const std::vector<Comm>& made) {
  if (!enabled() || made.empty() || cuda_driver() == nullptr) return kSuccess;
  try {
    attach_all(made);
  } catch (const std::exception& error) {
    return fail(kSystemError, error.what());
  }
  return kSuccess;
}

}  // namespace ccore_nccl
