// The tuner in a communicator: which candidates an operation has, how the ranks talk about them, and what of
// it is kept on the disk.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "collectives/choose.h"
#include "collectives/context.h"
#include "tuner/cache.h"
#include "tuner/tuner.h"

namespace ccore {

// A choice from outside; travels as bytes.
struct Choice {
  uint32_t kind;
  uint8_t size_class;
  uint8_t dtype_class;
  uint8_t reserved[2];
  uint32_t algorithm;
  uint32_t reserved_too;
  double us;  // 0: not known
};

class Tuning {
 public:
  // chooser: of the communicator, and outlives this.
  Tuning(const TunerSettings& settings, const Chooser* chooser);

  // Whether operations have to be recorded at all; the same on all ranks.
  bool active() const { return active_; }
  bool keeps() const { return settings_.cache_disabled == 0; }

  // Before an operation: may talk to the other ranks, and sets what *chooser will choose for it, which goes
  // into its header too, so that ranks that take different algorithms notice.
  void begin(Context* context, Chooser* chooser);
  // After it.
  void end();

  // On rank 0: the choices that the file for this identity has for this model.
  std::vector<Choice> load(const CacheIdentity& identity, const std::string& model);
  // On all ranks, the same. One that cannot be made here is passed over.
  void use(const std::vector<Choice>& choices);

  // Searches, now or for the first time.
  void retune();
  // What the next operation of this kind takes; none: the tuner has no say in it so far.
  Algorithm taken_by(Kind kind, uint64_t bytes, cc_dtype dtype) const;
  // Throws CC_ERROR_INVALID_ARGUMENT with what there is.
  Choice choice_of(const std::string& collective, uint64_t bytes, cc_dtype dtype, const std::string& algorithm) const;
  // For people: a line for each kind of operation.
  std::string dump() const;

 private:
  bool tunable(Kind kind) const;
  Algorithm find_algorithm(Kind kind, const std::string& name) const;  // none: it has no such
  std::vector<Candidate> candidates(const TunerKey& key) const;
  void save();

  TunerSettings settings_;
  const Chooser* chooser_;
  bool active_;
  Tuner tuner_;
  KeptLines kept_;  // nowhere, unless choices are kept, on rank 0
  std::string model_;
  uint64_t saved_choices_ = 0;
};

// Bytes of the whole data of an operation, M of docs/algorithms.md; 0 where ranks know different ones.
uint64_t data_bytes(const Operation& operation, int nranks);

}  // namespace ccore
