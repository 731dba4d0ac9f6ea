#include "engine/recorder.h"

#include <algorithm>
#include <cstring>

#include "common/clock.h"
#include "common/dtype.h"
#include "common/error.h"

namespace ccore {
namespace {

static_assert(CC_OPERATION_ALL_GATHERV == static_cast<int>(Kind::all_gatherv) &&
                  CC_OPERATION_FINALIZE == static_cast<int>(Kind::finalize) &&
                  CC_OPERATION_MEETING == static_cast<int>(Kind::meeting) &&
                  CC_OPERATION_SEND == static_cast<int>(Kind::transfer),
              "cc_operation has the numbers of Kind, and one more for receives");

constexpr int kNobody = -1;

size_t place(uint64_t ticket) { return static_cast<size_t>(ticket % CC_TRACE_ENTRIES); }

void add(std::atomic<uint64_t>* sum, uint64_t value) {
  // One writer: no need for a locked instruction.
  sum->store(sum->load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
}

bool is_transfer(const cc_trace_entry& entry) {
  return entry.operation == CC_OPERATION_SEND || entry.operation == CC_OPERATION_RECV;
}

// The single algorithm of those that have no choice.
const char* only_algorithm(Kind kind) {
  const Algorithms all = algorithms_of(kind, Shape());
  return all.end() - all.begin() == 1 ? name_of(*all.begin()) : "";
}

}  // namespace

cc_trace_entry* Recorder::own(uint64_t ticket) {
  return ticket + CC_TRACE_ENTRIES > last_ticket_ ? &entries_[place(ticket)] : nullptr;
}

void Recorder::publish(uint64_t ticket) {
  Slot& slot = slots_[place(ticket)];
  std::array<uint64_t, kWords> words;
  std::memcpy(words.data(), &entries_[place(ticket)], sizeof words);
  const uint64_t version = slot.version.load(std::memory_order_relaxed);
  slot.version.store(version + 1, std::memory_order_relaxed);
  for (size_t i = 0; i < kWords; ++i) slot.words[i].store(words[i], std::memory_order_release);
  slot.version.store(version + 2, std::memory_order_release);
}

uint64_t Recorder::begin(const Operation& operation, bool sends, uint64_t elements, int64_t start_ns) {
  const uint64_t ticket = ++last_ticket_;
  cc_trace_entry& entry = entries_[place(ticket)];
  if (entry.result == CC_IN_PROGRESS) displaced_.emplace(ticket - CC_TRACE_ENTRIES, entry);
  entry = cc_trace_entry{};
  entry.size = sizeof entry;
  entry.sequence = operation.sequence;
  entry.start_ns = start_ns;
  entry.count = elements;
  entry.operation = static_cast<int32_t>(operation.kind);
  entry.dtype = operation.dtype;
  entry.redop = operation.redop;
  entry.root = operation.root;
  entry.tag = operation.tag;
  entry.result = CC_IN_PROGRESS;
  entry.waits_for = kNobody;
  if (operation.kind == Kind::transfer) {
    entry.operation = sends ? CC_OPERATION_SEND : CC_OPERATION_RECV;
    entry.root = sends ? operation.target : operation.root;
  }
  publish(ticket);
  return ticket;
}

void Recorder::update(uint64_t ticket, Algorithm algorithm, int waits_for) {
  cc_trace_entry* entry = own(ticket);
  if (!entry) return;
  if (waits_for >= 0) entry->waits_for = waits_for;
  note(entry, algorithm);
  publish(ticket);
}

void Recorder::note(cc_trace_entry* entry, Algorithm algorithm) {
  if (algorithm != Algorithm::none) std::strncpy(entry->algorithm, name_of(algorithm), sizeof entry->algorithm - 1);
}

void Recorder::set_source(uint64_t ticket, int rank) {
  if (cc_trace_entry* entry = own(ticket)) entry->root = rank;
}

void Recorder::end(uint64_t ticket, cc_result result, int64_t end_ns, Algorithm algorithm, const char* way) {
  cc_trace_entry* entry = own(ticket);
  if (!entry) {
    const auto found = displaced_.find(ticket);
    if (found == displaced_.end()) return;
    found->second.end_ns = end_ns;
    found->second.result = result;
    count(found->second);
    displaced_.erase(found);
    return;
  }
  note(entry, algorithm);
  if (way) std::strncpy(entry->algorithm, way, sizeof entry->algorithm - 1);
  entry->end_ns = end_ns;
  entry->result = result;
  if (entry->algorithm[0] == '\0' && !is_transfer(*entry)) {
    std::strncpy(entry->algorithm, only_algorithm(static_cast<Kind>(entry->operation)), sizeof entry->algorithm - 1);
  }
  publish(ticket);
  count(*entry);
}

void Recorder::count(const cc_trace_entry& ended) {
  const auto index = static_cast<size_t>(ended.operation);
  if (index >= kOperations) return;
  const uint64_t bytes = ended.count * dtype_size(static_cast<cc_dtype>(ended.dtype));
  add_to(&sums_[index], ended, bytes);
  if (CountRow* row = row_of(ended, bytes)) add_to(&row->sums, ended, bytes);
}

void Recorder::add_to(Sums* sums, const cc_trace_entry& ended, uint64_t bytes) {
  const auto took = static_cast<uint64_t>(ended.end_ns - ended.start_ns);
  add(&sums->calls, 1);
  add(&sums->errors, ended.result == CC_SUCCESS ? 0 : 1);
  add(&sums->bytes, bytes);
  add(&sums->total_ns, took);
  if (took > sums->longest_ns.load(std::memory_order_relaxed)) {
    sums->longest_ns.store(took, std::memory_order_relaxed);
  }
}

size_t Recorder::HashOfKey::operator()(const CountKey& key) const {
  uint64_t name = 0;
  std::memcpy(&name, key.algorithm.data(), sizeof name);
  const uint64_t mixed = (key.bytes ^ name << 7 ^ static_cast<uint64_t>(key.operation) << 56) * 0x9e3779b97f4a7c15u;
  return static_cast<size_t>(mixed ^ mixed >> 32);
}

Recorder::CountRow* Recorder::new_row(const CountKey& key) {
  const size_t place = used_rows_.load(std::memory_order_relaxed);
  if (place == kChunks * kChunkRows) return nullptr;
  std::unique_ptr<Chunk>& chunk = chunks_[place / kChunkRows];
  if (!chunk) chunk = std::make_unique<Chunk>();
  CountRow* row = &(*chunk)[place % kChunkRows];
  row->key = key;
  rows_.emplace(key, row);
  used_rows_.store(place + 1, std::memory_order_release);
  return row;
}

Recorder::CountRow* Recorder::row_of(const cc_trace_entry& ended, uint64_t bytes) {
  CountKey key;
  key.operation = ended.operation;
  key.bytes = bytes;
  std::copy(std::begin(ended.algorithm), std::end(ended.algorithm), key.algorithm.begin());
  if (last_row_ && last_row_->key == key) return last_row_;
  auto found = rows_.find(key);
  if (found == rows_.end() && used_rows_.load(std::memory_order_relaxed) >= CC_COUNT_SIZES) {
    key.rounded = 1;
    while ((key.bytes & (key.bytes - 1)) != 0) key.bytes &= key.bytes - 1;  // down to a power of two
    found = rows_.find(key);
  }
  last_row_ = found == rows_.end() ? new_row(key) : found->second;
  return last_row_;
}

std::vector<cc_trace_entry> Recorder::recent() const {
  std::vector<cc_trace_entry> found;
  for (const Slot& slot : slots_) {
    // A slot that changes under our eyes is new enough to be read again; it settles at once.
    for (int attempt = 0; attempt < 100; ++attempt) {
      const uint64_t before = slot.version.load(std::memory_order_acquire);
      if (before == 0) break;
      std::array<uint64_t, kWords> words;
      for (size_t i = 0; i < kWords; ++i) words[i] = slot.words[i].load(std::memory_order_acquire);
      if (before % 2 == 1 || slot.version.load(std::memory_order_relaxed) != before) continue;
      cc_trace_entry entry;
      std::memcpy(&entry, words.data(), sizeof entry);
      found.push_back(entry);
      break;
    }
  }
  std::sort(found.begin(), found.end(),
            [](const cc_trace_entry& a, const cc_trace_entry& b) { return a.start_ns < b.start_ns; });
  return found;
}

cc_op_stats Recorder::stats(cc_operation operation) const {
  cc_op_stats out{};
  out.size = sizeof out;
  const Sums& sums = sums_[static_cast<size_t>(operation)];
  out.calls = sums.calls.load(std::memory_order_relaxed);
  out.errors = sums.errors.load(std::memory_order_relaxed);
  out.bytes = sums.bytes.load(std::memory_order_relaxed);
  out.total_ns = sums.total_ns.load(std::memory_order_relaxed);
  out.longest_ns = sums.longest_ns.load(std::memory_order_relaxed);
  return out;
}

std::vector<cc_count> Recorder::counts() const {
  std::vector<cc_count> all(used_rows_.load(std::memory_order_acquire));
  for (size_t place = 0; place < all.size(); ++place) {
    const CountRow& row = (*chunks_[place / kChunkRows])[place % kChunkRows];
    cc_count& out = all[place];
    out = cc_count{};
    out.size = sizeof out;
    out.bytes = row.key.bytes;
    out.operation = row.key.operation;
    out.rounded = row.key.rounded;
    std::copy(row.key.algorithm.begin(), row.key.algorithm.end(), std::begin(out.algorithm));
    out.calls = row.sums.calls.load(std::memory_order_relaxed);
    out.errors = row.sums.errors.load(std::memory_order_relaxed);
    out.total_ns = row.sums.total_ns.load(std::memory_order_relaxed);
  }
  return all;
}

std::string describe(const cc_trace_entry& entry, int64_t now) {
  Operation operation;
  operation.kind = entry.operation == CC_OPERATION_RECV ? Kind::transfer : static_cast<Kind>(entry.operation);
  std::string text;
  if (operation.kind == Kind::transfer) {
    const bool sends = entry.operation == CC_OPERATION_SEND;
    const std::string peer = entry.root < 0 ? "any rank" : format("rank %d", entry.root);
    text = format("%s(count=%llu, %s, %s %s, tag=%d)", sends ? "send" : "recv",
                  static_cast<unsigned long long>(entry.count), dtype_name(static_cast<cc_dtype>(entry.dtype)),
                  sends ? "to" : "from", peer.c_str(), entry.tag);
  } else {
    text = format("operation %llu: %s(count=%llu, %s)", static_cast<unsigned long long>(entry.sequence),
                  name_of(operation.kind), static_cast<unsigned long long>(entry.count),
                  dtype_name(static_cast<cc_dtype>(entry.dtype)));
  }
  if (entry.algorithm[0] != '\0') text += std::string(" by ") + entry.algorithm;
  if (entry.waits_for >= 0) text += format(", waited for rank %d", entry.waits_for);
  const int64_t end = entry.end_ns != 0 ? entry.end_ns : now;
  text += format(", %.3f ms, %s", static_cast<double>(end - entry.start_ns) / 1e6,
                 cc_error_string(static_cast<cc_result>(entry.result)));
  if (entry.end_ns != 0) text += format(", ended %.3f s ago", static_cast<double>(now - entry.end_ns) / 1e9);
  return text;
}

}  // namespace ccore
