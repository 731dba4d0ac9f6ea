// The tuner of a communicator: a machine for each kind of operation, and how the ranks stay of one mind.
//
// Every rank calls begin() and end() around the same operations in the same order; that is what a
// communicator demands anyway. When a machine needs a decision, all ranks notice it before the same
// operation, and the figures and the decision travel as a part of that operation, in front of it. No message
// of the tuner is ever on its way between operations, so none can be early, late or lost, and whatever goes
// wrong is an error of that operation.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tuner/machine.h"
#include "tuner/settings.h"

namespace ccore {

// What the choice is made for. Where the ranks are is the same for a communicator's whole life.
struct TunerKey {
  uint8_t kind;         // of the collective
  uint8_t size_class;   // log2 of the bytes, downwards
  uint8_t dtype_class;  // see dtype_class()

  bool operator<(const TunerKey& other) const;
};
uint8_t size_class(uint64_t bytes);

// How the ranks talk in front of an operation. Both calls throw what an operation throws.
class Council {
 public:
  virtual ~Council() = default;
  virtual bool leads() const = 0;  // rank 0
  // Afterwards the leader has the largest over all ranks of each figure.
  virtual void collect_worst(std::vector<double>* figures) = 0;
  // Afterwards all have the leader's.
  virtual void follow(Decision* decision) = 0;
};

// One row of what is known; `us`: 0 where nothing is.
struct TunerRow {
  TunerKey key;
  Phase phase;
  uint32_t choice;
  double us;
};

class Tuner {
 public:
  // Nanoseconds, never running backwards.
  using Clock = std::function<int64_t()>;

  Tuner(const TunerSettings& settings, Clock clock);

  // The candidate that the operation takes. `candidates` is called once for each key. Throws CC_ERROR_DESYNC
  // if the leader's decision cannot be this rank's.
  uint32_t begin(const TunerKey& key, uint64_t sequence, Council* council,
                 const std::function<std::vector<Candidate>()>& candidates);
  // The operation that began last has ended well.
  void end();

  // Has every key search, those that are not known yet too. The same call before the same operation on all
  // ranks, else a later operation ends in CC_ERROR_DESYNC.
  void retune();
  // A choice for a key that may not have been seen yet; false if it is known and the candidate does not belong to it.
  bool fix(const TunerKey& key, uint32_t candidate, double us);

  std::vector<TunerRow> rows() const;
  // Stores the candidate that the next operation with this key takes; false if nothing is known of the key yet.
  bool find(const TunerKey& key, uint32_t* candidate) const;
  // Goes up whenever a choice is made, and when it is first known what it takes: there is something to save.
  uint64_t choices_made() const { return choices_made_; }
  // Of the time since the first operation, the part that this rank spent in operations; 0 to 1.
  double share() const;
  const TunerSettings& settings() const { return settings_; }

 private:
  struct Entry {
    Machine machine;
    int64_t began_ns = -1;  // the last operation
  };
  struct Preset {
    uint32_t candidate;
    double us;
  };

  void let_search(Entry* entry);
  Entry* entry_of(const TunerKey& key, const std::function<std::vector<Candidate>()>& candidates);
  void decide(Machine* machine, uint64_t sequence, Council* council);

  TunerSettings settings_;
  Clock clock_;
  std::map<TunerKey, Entry> entries_;
  std::map<TunerKey, Preset> presets_;  // of keys without an entry
  Entry* running_ = nullptr;
  Entry* searcher_ = nullptr;  // who searches, or did last
  uint64_t operations_ = 0;
  uint64_t searched_at_ = 0;  // of operations_, the last of the searcher
  bool search_new_ = false;   // a key that comes up searches, although the settings do not say so
  uint64_t choices_made_ = 0;
  int64_t first_ns_ = -1;
  int64_t last_ns_ = -1;
  int64_t inside_ns_ = 0;
};

}  // namespace ccore
