#include "pipeline/chunk_pass.h"

#include <algorithm>

#include "collectives/all_reduce/all_reduce.h"
#include "common/dtype.h"
#include "common/error.h"
#include "schedule/schedule.h"

namespace ccore {
namespace {

constexpr const char* kToHost = "to the host";
constexpr const char* kToDevice = "to the device";
// The end of a copy rings no doorbell.
constexpr int kCopySleepMs = 1;
constexpr int kLongestSleepMs = 1000;

}  // namespace

ChunkPass::ChunkPass(const Context& context, CopyEngine* engine, std::vector<StagingSlot>* slots,
                     const ChunkedData& data)
    : context_(context),
      engine_(engine),
      slots_(slots),
      data_(data),
      element_(dtype_size(data.dtype)),
      // One at least: ranks that differ must notice it.
      chunks_(data.count == 0 ? 1 : (data.count - 1) / data.chunk_elements + 1) {}

void ChunkPass::run() {
  for (size_t chunk = 0; chunk < chunks_; ++chunk) {
    // Before it is fetched, its slot belongs to an earlier chunk.
    wait_for_copy(chunk, kToHost, [&] { return fetched_ > chunk && copy_ended(chunk, kToHost); });
    reduce(chunk);
    start_to_device(chunk);
    ++reduced_;
  }
  while (returned_ < chunks_) {
    const size_t chunk = returned_;
    wait_for_copy(chunk, kToDevice, [&] { return returned_ > chunk; });
  }
}

size_t ChunkPass::elements(size_t chunk) const {
  return std::min(data_.chunk_elements, data_.count - chunk * data_.chunk_elements);
}

void ChunkPass::advance() {
  while (returned_ < reduced_ && copy_ended(returned_, kToDevice)) ++returned_;
  while (fetched_ < chunks_ && fetched_ < returned_ + slots_->size()) start_to_host(fetched_++);
}

template <typename Ready>
void ChunkPass::wait_for_copy(size_t chunk, const char* where, Ready ready) {
  *context_.waiting_to_send_to = kNone;
  *context_.waiting_to_receive_from = kNone;
  try {
    context_.wait->check();
    advance();
    if (ready()) return;
    context_.wait->sleep_at_most(kCopySleepMs);
    do {
      context_.wait->idle(nullptr, nullptr);
      advance();
    } while (!ready());
  } catch (const Error& error) {
    if (error.code() != CC_ERROR_TIMEOUT) throw;
    throw Error(CC_ERROR_TIMEOUT,
                format("%s for the copy of chunk %zu of %zu %s", error.what(), chunk, chunks_, where));
  }
  context_.wait->moved();
  context_.wait->sleep_at_most(kLongestSleepMs);
}

bool ChunkPass::copy_ended(size_t chunk, const char* where) {
  StagingSlot& own = slot(chunk);
  if (!own.copying) return true;
  try {
    own.copying = !engine_->poll(own.copy);
  } catch (const Error& error) {
    own.copying = false;
    throw_failed(error, chunk, where);
  }
  return !own.copying;
}

void ChunkPass::start_to_host(size_t chunk) {
  const size_t bytes = elements(chunk) * element_;
  if (bytes == 0) return;
  StagingSlot& own = slot(chunk);
  try {
    own.copy = engine_->start_to_host(own.memory, data_.send + offset(chunk), bytes);
    own.copying = true;
  } catch (const Error& error) {
    throw_failed(error, chunk, kToHost);
  }
}

void ChunkPass::start_to_device(size_t chunk) {
  const size_t bytes = elements(chunk) * element_;
  if (bytes == 0) return;
  StagingSlot& own = slot(chunk);
  try {
    own.copy = engine_->start_to_device(data_.recv + offset(chunk), own.memory, bytes);
    own.copying = true;
  } catch (const Error& error) {
    throw_failed(error, chunk, kToDevice);
  }
}

void ChunkPass::reduce(size_t chunk) {
  if (context_.nranks == 1) return;
  const size_t count = elements(chunk);
  std::byte* memory = slot(chunk).memory;
  const Algorithm algorithm = context_.chooser->choose(Kind::all_reduce, count * element_);
  all_reduce_by(algorithm, context_, memory, memory, count, data_.dtype, data_.op);
}

void ChunkPass::throw_failed(const Error& error, size_t chunk, const char* where) const {
  throw Error(error.code(), format("on rank %d the copy of chunk %zu of %zu %s failed: %s", context_.rank, chunk,
                                   chunks_, where, error.what()));
}

}  // namespace ccore
