#include "group.h"

#include <algorithm>
#include <vector>

#include "attach.h"
#include "failure.h"
#include "graphs.h"
#include "real_nccl.h"
#include "rival.h"

namespace ccore_nccl {
namespace {

// Of a thread. NCCL writes a communicator's address into *made only when the group ends.
struct Group {
  int depth = 0;
  std::vector<Call> calls;
  std::vector<Comm*> made;
};

Group& group() {
  static thread_local Group own;
  return own;
}

// Whether the table takes a call that no measurement has decided.
bool within_table(const Call& call) {
  const bool has_shares = call.function == Function::all_gather || call.function == Function::reduce_scatter;
  const size_t bytes = call.bytes * static_cast<size_t>(has_shares ? call.communicator->ranks : 1);
  return bytes <= most_bytes(call.function, call.communicator->place);
}

bool is_transfer(const Call& call) { return call.function == Function::send || call.function == Function::recv; }

cc_result start(const Call& call) {
  cc_cuda* handle = call.communicator->cuda;
  const CoreLibrary& with = core();
  switch (call.function) {
    case Function::all_reduce:
      return with.all_reduce(handle, call.send, call.recv, call.count, call.dtype, call.op, call.stream);
    case Function::all_gather:
      return with.all_gather(handle, call.send, call.recv, call.count, call.dtype, call.stream);
    case Function::reduce_scatter:
      return with.reduce_scatter(handle, call.send, call.recv, call.count, call.dtype, call.op, call.stream);
    case Function::broadcast:
      return with.broadcast(handle, call.send, call.recv, call.count, call.dtype, call.root, call.stream);
    case Function::send:
    case Function::recv: {
      const cc_cuda_transfer transfer{call.send, call.recv, call.bytes, call.root};
      return with.exchange(handle, &transfer, 1, call.stream);
    }
  }
  return CC_ERROR_INTERNAL;
}

Result outcome_of(cc_result result) {
  return result == CC_SUCCESS ? kSuccess : fail(code_of(result), core().cuda_last_error());
}

Result run(const Call& call) {
  const ContextScope current(call.communicator->context);
  note_capture(call.communicator, call.stream);
  const Result result = outcome_of(start(call));
  if (result == kSuccess) count_taken(call.function, call.bytes);
  return result;
}

Result pass_collective(const Call& call) {
  count_passed(call.function, call.bytes);
  return pass_on(call);
}

// A call that is not in a group and may be measured.
Result compete(const Call& call) {
  const ContextScope current(call.communicator->context);
  note_capture(call.communicator, call.stream);
  bool passed = false;
  const Result result = run_in_competition(call, &passed);
  if (passed) {
    count_passed(call.function, call.bytes);
  } else if (result == kSuccess) {
    count_taken(call.function, call.bytes);
  }
  return result;
}

// Sends and receives of one communicator and stream, which may need each other to end.
Result run_together(const std::vector<Call>& calls) {
  const Call& first = calls.front();
  const ContextScope current(first.communicator->context);
  note_capture(first.communicator, first.stream);
  std::vector<cc_cuda_transfer> transfers;
  for (const Call& call : calls) transfers.push_back({call.send, call.recv, call.bytes, call.root});
  const Result result =
      outcome_of(core().exchange(first.communicator->cuda, transfers.data(), transfers.size(), first.stream));
  for (const Call& call : calls) {
    if (result == kSuccess) count_taken(call.function, call.bytes);
  }
  return result;
}

// A group may name communicators in another order on another rank; here all ranks run them in the same one. Of each, the
// collectives come first.
Result run_all(std::vector<Call> calls) {
  std::stable_sort(calls.begin(), calls.end(), [](const Call& left, const Call& right) {
    if (left.communicator->order != right.communicator->order) {
      return left.communicator->order < right.communicator->order;
    }
    return !is_transfer(left) && is_transfer(right);
  });
  Result first = kSuccess;
  for (size_t at = 0; at < calls.size();) {
    size_t end = at + 1;
    while (is_transfer(calls[at]) && end < calls.size() && calls[end].communicator == calls[at].communicator &&
           calls[end].stream == calls[at].stream) {
      end++;
    }
    const auto begin = calls.begin() + static_cast<std::ptrdiff_t>(at);
    const Result result =
        is_transfer(calls[at]) ? run_together({begin, begin + static_cast<std::ptrdiff_t>(end - at)}) : run(calls[at]);
    if (first == kSuccess) first = result;
    at = end;
  }
  return first;
}

}  // namespace

Result take(const Call& call) {
  Group& own = group();
  if (call.communicator->competes && !is_transfer(call)) {
    const Choice choice = choice_for(call);
    if (choice == Choice::nccl) return pass_collective(call);
    if (choice == Choice::undecided && own.depth == 0) return compete(call);
    // NCCL runs its calls of a group when the group ends, so that their time cannot be measured.
    if (choice == Choice::undecided && !within_table(call)) return pass_collective(call);
  }
  if (own.depth == 0) return run(call);
  own.calls.push_back(call);
  return kSuccess;
}

Result group_start() {
  const Result result = pass(real().group_start);
  if (result == kSuccess) group().depth++;
  return result;
}

Result group_end() {
  Group& own = group();
  if (own.depth > 0) own.depth--;
  if (own.depth > 0) return pass(real().group_end);
  Result taken = kSuccess;
  if (!own.calls.empty()) {
    std::vector<Call> calls;
    calls.swap(own.calls);
    taken = run_all(std::move(calls));
  }
  const Result passed = pass(real().group_end);
  std::vector<Comm*> places;
  places.swap(own.made);
  if (taken != kSuccess || passed != kSuccess || places.empty()) return taken != kSuccess ? taken : passed;
  std::vector<Comm> made;
  for (const Comm* place : places) {
    if (*place != nullptr) made.push_back(*place);
  }
  return attach(made);
}

void forget_group() {
  Group& own = group();
  if (own.depth > 0) own.depth--;
  if (own.depth > 0) return;
  own.calls.clear();
  own.made.clear();
}

Result after_init(Result code, Comm* made, bool blocking) {
  if (code != kSuccess || made == nullptr || !blocking) return code;
  Group& own = group();
  if (own.depth > 0) {
    own.made.push_back(made);
    return code;
  }
  return *made == nullptr ? code : attach({*made});
}

}  // namespace ccore_nccl
