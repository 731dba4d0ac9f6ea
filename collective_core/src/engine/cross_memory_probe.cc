#include "engine/cross_memory_probe.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <utility>

#include "common/sha256.h"

namespace ccore {
namespace {

using Nonce = std::array<unsigned char, 32>;

// What a rank tells the others; travels as bytes.
struct Card {
  int64_t pid = 0;
  uint64_t nonce_address = 0;  // of its own nonce, in its own memory
  uint64_t words_address = 0;  // of a word for each rank to write
  Nonce nonce{};
  uint64_t word = 0;  // that it writes
  int32_t wanted = 0;
  int32_t reserved = 0;
};

struct Report {
  char why[240] = {};  // empty: all went well
};

// Mapped by itself and for as long as the others may look: freed memory could soon belong to other data.
class Board {
 public:
  explicit Board(size_t ranks) : bytes_(sizeof(Nonce) + ranks * sizeof(uint64_t)) {
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw_errno("mmap");
  }
  ~Board() { munmap(memory_, bytes_); }
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;
  std::byte* nonce() const { return static_cast<std::byte*>(memory_); }
  std::byte* word(size_t rank) const { return nonce() + sizeof(Nonce) + rank * sizeof(uint64_t); }

 private:
  size_t bytes_;
  void* memory_;
};

// Yama is what most often forbids it outside containers, and its error does not say so.
std::string yama_text() {
  std::ifstream file("/proc/sys/kernel/yama/ptrace_scope");
  std::string scope;
  file >> scope;
  return scope.empty() || scope == "0" ? "" : " (kernel.yama.ptrace_scope is " + scope + ")";
}

// Reads the peer's nonce and, if that is right, writes this rank's word.
void try_peer(const CrossMemory& memory, int rank, int peer, const Card& own, const Card& card) {
  Nonce nonce{};
  memory.read(peer, reinterpret_cast<std::byte*>(nonce.data()), card.nonce_address, nonce.size());
  if (nonce != card.nonce) {
    throw Error(CC_ERROR_SYSTEM, format("the process %lld is not rank %d (another process namespace?)",
                                        static_cast<long long>(card.pid), peer));
  }
  const uint64_t place = card.words_address + static_cast<uint64_t>(rank) * sizeof(uint64_t);
  memory.write(peer, place, reinterpret_cast<const std::byte*>(&own.word), sizeof own.word);
}

// The first one's by rank.
std::string obstacle_in(const std::vector<Report>& reports) {
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    const Report& report = reports[rank];
    const std::string why(report.why, strnlen(report.why, sizeof report.why));
    if (!why.empty()) return format("rank %zu: ", rank) + why;
  }
  return "";
}

Report report_of(const std::string& why) {
  Report report;
  std::strncpy(report.why, why.c_str(), sizeof report.why - 1);
  return report;
}

class Prober {
 public:
  Prober(RendezvousClient* client, int rank, const std::vector<std::string>& names)
      : client_(client), rank_(rank), names_(names), board_(names.size()) {}

  CrossMemoryProbe run(bool wanted) {
    cards_ = client_->all_gather(own_card(wanted));
    for (size_t peer = 0; peer < cards_.size(); ++peer) {
      if (cards_[peer].wanted == 0) return {nullptr, format("rank %zu has CCORE_CMA=0", peer)};
    }
    CrossMemoryProbe result;
    result.obstacle = obstacle_in(client_->all_gather(report_of(reach_all(&result.memory))));
    if (result.obstacle.empty()) result.obstacle = obstacle_in(client_->all_gather(report_of(missing_word())));
    if (!result.obstacle.empty()) result.memory.reset();
    return result;
  }

 private:
  Card own_card(bool wanted) const {
    Card card;
    card.pid = getpid();
    card.nonce_address = reinterpret_cast<uint64_t>(board_.nonce());
    card.words_address = reinterpret_cast<uint64_t>(board_.word(0));
    random_bytes(card.nonce.data(), card.nonce.size());
    random_bytes(&card.word, sizeof card.word);
    std::memcpy(board_.nonce(), card.nonce.data(), card.nonce.size());
    card.wanted = wanted ? 1 : 0;
    return card;
  }

  // Returns why it cannot reach one of the others, or nothing.
  std::string reach_all(std::unique_ptr<CrossMemory>* memory) const {
    try {
      std::vector<CrossMemory::Peer> peers(cards_.size());
      for (size_t peer = 0; peer < cards_.size(); ++peer) {
        if (peer == own()) continue;
        const auto pid = static_cast<pid_t>(cards_[peer].pid);
        peers[peer] = CrossMemory::Peer{pid, open_process(pid), names_[peer]};
      }
      *memory = std::make_unique<CrossMemory>(std::move(peers));
      for (size_t peer = 0; peer < cards_.size(); ++peer) {
        if (peer != own()) try_peer(**memory, rank_, static_cast<int>(peer), cards_[own()], cards_[peer]);
      }
      return "";
    } catch (const Error& error) {
      return error.what() + yama_text();
    }
  }

  std::string missing_word() const {
    for (size_t peer = 0; peer < cards_.size(); ++peer) {
      uint64_t word = 0;
      std::memcpy(&word, board_.word(peer), sizeof word);
      if (peer != own() && word != cards_[peer].word) return "what " + names_[peer] + " wrote did not arrive";
    }
    return "";
  }

  size_t own() const { return static_cast<size_t>(rank_); }

  RendezvousClient* client_;
  int rank_;
  const std::vector<std::string>& names_;
  Board board_;
  std::vector<Card> cards_;
};

}  // namespace

CrossMemoryProbe probe_cross_memory(RendezvousClient* client, int rank, const std::vector<std::string>& names,
                                    bool wanted) {
  return Prober(client, rank, names).run(wanted);
}

}  // namespace ccore
