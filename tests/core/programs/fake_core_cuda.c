/* libcollective_core_cuda.so without a GPU: writes each call to FAKE_LOG as a line. FAKE_FAILS: create fails here.
 * FAKE_CHOICE: what its tuner has chosen for every call; unset: calls that compete are carried out by it and by the rival in
 * turns, and the first one reports a choice. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collective_core/collective_core_cuda.h"
#include "collective_core/collective_core_cuda_tuning.h"

struct cc_cuda {
  int number;
  int competed;
  uint64_t failed;
  cc_cuda_rival rival;
};

static void say(const char* form, ...) {
  FILE* file = fopen(getenv("FAKE_LOG"), "a");
  va_list values;
  va_start(values, form);
  vfprintf(file, form, values);
  va_end(values);
  fclose(file);
}

cc_result cc_cuda_device_identity(unsigned char identity[16]) { return memset(identity, 7, 16), CC_SUCCESS; }

cc_result cc_cuda_create(cc_comm* comm, const cc_cuda_options* options, cc_cuda** handle) {
  static int made;
  (void)comm, (void)options;
  if (getenv("FAKE_FAILS")) return CC_ERROR_SYSTEM;
  *handle = calloc(1, sizeof **handle);
  (*handle)->number = made++;
  return CC_SUCCESS;
}

cc_result cc_cuda_get_path(cc_cuda* handle, int* path) { return *path = CC_CUDA_PATH_KERNEL, handle ? 0 : 1; }
cc_result cc_cuda_describe(cc_cuda* handle, char* text, size_t size) {
  return snprintf(text, size, "the fake's path"), handle ? CC_SUCCESS : CC_ERROR_INTERNAL;
}

cc_result cc_cuda_notice(cc_cuda* handle, char* text, size_t size) {
  return snprintf(text, size, "%s", ""), handle ? CC_SUCCESS : CC_ERROR_INTERNAL;
}

cc_result cc_cuda_all_reduce(cc_cuda* handle, const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op,
                             void* stream) {
  (void)send, (void)recv, (void)stream;
  say("%d all_reduce %zu %d %d\n", handle->number, count, dtype, op);
  return CC_SUCCESS;
}

cc_result cc_cuda_reduce_scatter(cc_cuda* handle, const void* send, void* recv, size_t count, cc_dtype dtype,
                                 cc_redop op, void* stream) {
  return cc_cuda_all_reduce(handle, send, recv, count, dtype, op, stream);
}

cc_result cc_cuda_all_gather(cc_cuda* handle, const void* send, void* recv, size_t count, cc_dtype dtype,
                             void* stream) {
  (void)send, (void)recv, (void)stream;
  say("%d all_gather %zu %d\n", handle->number, count, dtype);
  return CC_SUCCESS;
}

cc_result cc_cuda_broadcast(cc_cuda* handle, const void* send, void* recv, size_t count, cc_dtype dtype, int root,
                            void* stream) {
  (void)send, (void)recv, (void)dtype, (void)stream;
  say("%d broadcast %zu %d\n", handle->number, count, root);
  return CC_SUCCESS;
}

cc_result cc_cuda_exchange(cc_cuda* handle, const cc_cuda_transfer* transfers, size_t count, void* stream) {
  (void)stream;
  say("%d exchange", handle->number);
  for (size_t i = 0; i < count; i++)
    say(" %s%d:%zu", transfers[i].send ? "to" : "from", transfers[i].peer, transfers[i].bytes);
  say("\n");
  return CC_SUCCESS;
}

cc_result cc_cuda_launch(cc_cuda* handle, const cc_cuda_call* calls, size_t count, void* stream, uint64_t* ticket) {
  say("%d launch on %zu", handle->number, (size_t)stream);
  for (size_t i = 0; i < count; i++) {
    say("; %d from %zu to %zu: %zu of type %d, operator %d, root %d", calls[i].collective, (size_t)calls[i].send,
        (size_t)calls[i].recv, calls[i].count, calls[i].dtype, calls[i].op, calls[i].root);
  }
  say("\n");
  if (ticket) *ticket = 1;
  return CC_SUCCESS;
}

cc_result cc_cuda_launch_exchange(cc_cuda* handle, const cc_cuda_transfer* transfers, size_t count, void* stream,
                                  uint64_t* ticket) {
  if (ticket) *ticket = 1;
  return cc_cuda_exchange(handle, transfers, count, stream);
}

cc_result cc_cuda_get_stream(cc_cuda* handle, void** stream) { return *stream = NULL, handle ? CC_SUCCESS : 1; }
cc_result cc_cuda_follow(cc_cuda* handle, void* stream) { return (void)stream, handle ? CC_SUCCESS : 1; }
cc_result cc_cuda_mark(cc_cuda* handle, void* stream, uint64_t* ticket) {
  (void)stream;
  return *ticket = 1, handle ? CC_SUCCESS : 1;
}
cc_result cc_cuda_ticket_wait(cc_cuda* handle, uint64_t ticket, void* stream) {
  (void)stream;
  return handle && ticket ? CC_SUCCESS : 1;
}
cc_result cc_cuda_ticket_query(cc_cuda* handle, uint64_t ticket, int* ended) {
  return *ended = 1, handle && ticket ? CC_SUCCESS : 1;
}

cc_result cc_cuda_add_rival(cc_cuda* handle, const cc_cuda_rival* rival) {
  if (getenv("FAKE_NO_TUNER")) return CC_ERROR_SYSTEM;
  handle->rival = *rival;
  say("%d add_rival %s %s\n", handle->number, rival->name, rival->version);
  return CC_SUCCESS;
}

cc_result cc_cuda_consult(cc_cuda* handle, int collective, size_t count, cc_dtype dtype, int* by) {
  const char* choice = getenv("FAKE_CHOICE");
  (void)collective, (void)count, (void)dtype;
  *by = !choice ? 0 : strcmp(choice, "nccl") ? 1 : 2;
  return handle ? CC_SUCCESS : CC_ERROR_INTERNAL;
}

cc_result cc_cuda_compete(cc_cuda* handle, const cc_cuda_call* call) {
  const cc_cuda_choice choice = {"all_reduce", "any", 4, "packets", 3.14159, 12.5, 0};
  say("%d compete %d %zu %d\n", handle->number, call->collective, call->count, call->dtype);
  if (handle->competed++ % 2 == 0) {
    if (handle->competed == 1) handle->rival.chosen(handle->rival.context, &choice);
    return CC_SUCCESS;
  }
  return handle->rival.run(handle->rival.context, call);
}

cc_result cc_cuda_poll(cc_cuda* handle, const char** text) {
  (void)handle;
  *text = "rank 1 is late";
  return getenv("FAKE_LATE") ? CC_ERROR_TIMEOUT : CC_SUCCESS;
}

cc_result cc_cuda_get_failed_word(cc_cuda* handle, const uint64_t** word) {
  handle->failed = getenv("FAKE_LATE") != NULL;
  *word = &handle->failed;
  return CC_SUCCESS;
}

cc_result cc_cuda_wait(cc_cuda* handle, int64_t timeout_ms) { return handle && timeout_ms ? CC_SUCCESS : 1; }
cc_result cc_cuda_abort(cc_cuda* handle) { return say("%d abort\n", handle->number), CC_SUCCESS; }
cc_result cc_cuda_destroy(cc_cuda* handle) { return free(handle), CC_SUCCESS; }
const char* cc_cuda_last_error(void) { return "the fake fails as requested"; }
