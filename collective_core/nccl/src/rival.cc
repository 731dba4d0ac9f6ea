#include "rival.h"

#include <cstdlib>
#include <cstring>

#include "failure.h"
#include "real_nccl.h"
#include "report.h"

namespace ccore_nccl {
namespace {

// What NCCL returned for the call of this thread that it carried out last.
struct Passed {
  bool happened = false;
  Result result = kSuccess;
};
thread_local Passed passed_now;

constexpr Function kFunctionOf[] = {Function::all_reduce, Function::reduce_scatter, Function::all_gather,
                                    Function::broadcast};  // by cc_cuda_collective

int collective_of(Function function) {
  switch (function) {
    case Function::all_reduce:
      return CC_CUDA_ALL_REDUCE;
    case Function::reduce_scatter:
      return CC_CUDA_REDUCE_SCATTER;
    case Function::all_gather:
      return CC_CUDA_ALL_GATHER;
    case Function::broadcast:
      return CC_CUDA_BROADCAST;
    case Function::send:
    case Function::recv:
      break;
  }
  return -1;
}

Result call_nccl(const cc_cuda_call& call, Comm comm) {
  const int type = nccl_type(call.dtype), op = nccl_operator(call.op);
  switch (call.collective) {
    case CC_CUDA_ALL_REDUCE:
      return pass(real().all_reduce, call.send, call.recv, call.count, type, op, comm, call.stream);
    case CC_CUDA_REDUCE_SCATTER:
      return pass(real().reduce_scatter, call.send, call.recv, call.count, type, op, comm, call.stream);
    case CC_CUDA_ALL_GATHER:
      return pass(real().all_gather, call.send, call.recv, call.count, type, comm, call.stream);
    case CC_CUDA_BROADCAST:
      return pass(real().broadcast, call.send, call.recv, call.count, type, call.root, comm, call.stream);
  }
  return kInternalError;
}

cc_cuda_call call_of(const Call& call) {
  return {
      collective_of(call.function), call.send, call.recv, call.count, call.dtype, call.op, call.root, call.stream, 0};
}

cc_result run_by_nccl(void* context, const cc_cuda_call* call) {
  const Result result = call_nccl(*call, static_cast<Communicator*>(context)->nccl);
  if (call->checks == 0) passed_now = {true, result};
  return result == kSuccess ? CC_SUCCESS : CC_ERROR_INTERNAL;
}

void report_choice_of(void*, const cc_cuda_choice* choice) { report_choice(*choice); }

}  // namespace

bool tunes() {
  const char* text = std::getenv("CCORE_AUTOTUNE");
  return text != nullptr && std::strcmp(text, "1") == 0;
}

std::string compete_with_nccl(Communicator* communicator) {
  int number = 0;
  pass(real().get_version, &number);
  const std::string version = std::to_string(number);
  cc_cuda_rival rival{};
  rival.size = sizeof rival;
  rival.name = "nccl";
  rival.version = version.c_str();
  rival.run = &run_by_nccl;
  rival.chosen = &report_choice_of;
  rival.context = communicator;
  bool takes = false;
  for (int collective = CC_CUDA_ALL_REDUCE; collective <= CC_CUDA_BROADCAST; collective++) {
    rival.until_bytes[collective] = most_bytes(kFunctionOf[collective], communicator->place);
    takes = takes || rival.until_bytes[collective] > 0;
  }
  if (!takes) return "";
  const ContextScope current(communicator->context);
  communicator->competes = core().add_rival(communicator->cuda, &rival) == CC_SUCCESS;
  return communicator->competes ? "" : core().cuda_last_error();
}

Choice choice_for(const Call& call) {
  int by = 0;
  core().consult(call.communicator->cuda, collective_of(call.function), call.count, call.dtype, &by);
  return by == 2 ? Choice::nccl : by == 1 ? Choice::collective_core : Choice::undecided;
}

Result run_in_competition(const Call& call, bool* passed) {
  const cc_cuda_call one = call_of(call);
  passed_now = {};
  const cc_result result = core().compete(call.communicator->cuda, &one);
  *passed = passed_now.happened;
  if (result == CC_SUCCESS) return kSuccess;
  // NCCL has the text of its own failures.
  return *passed && passed_now.result != kSuccess ? passed_now.result : fail(code_of(result), core().cuda_last_error());
}

Result pass_on(const Call& call) { return call_nccl(call_of(call), call.communicator->nccl); }

}  // namespace ccore_nccl
