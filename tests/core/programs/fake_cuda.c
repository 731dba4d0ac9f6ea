/* The part of CUDA's driver that libcollective_core_nccl.so uses, in host memory: there is one device, and nothing runs
 * later than its call. FAKE_GPU is the PCI address of the device; unset: no context is current. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, 0; }
int cuDevicePrimaryCtxRetain(void** context, int device) { return *context = (void*)1, device; }
int cuCtxGetCurrent(void** context) { return *context = NULL, 0; }
int cuCtxGetDevice(int* device) { return *device = 0, getenv("FAKE_GPU") ? 0 : 201; }
int cuDeviceGetPCIBusId(char* address, int size, int device) {
  return snprintf(address, (size_t)size, "%s", getenv("FAKE_GPU")), device;
}
int cuCtxPushCurrent_v2(void* context) { return context == NULL; }
int cuCtxPopCurrent_v2(void** context) { return *context = (void*)1, 0; }
int cuStreamCreate(void** stream, unsigned flags) { return *stream = (void*)2, flags != 1; }
int cuStreamDestroy_v2(void* stream) { return stream == NULL; }
int cuStreamQuery(void* stream) { return stream == NULL; }
int cuMemAlloc_v2(uint64_t* memory, size_t bytes) { return *memory = (uint64_t)(uintptr_t)malloc(bytes), 0; }
int cuMemFree_v2(uint64_t memory) { return free((void*)(uintptr_t)memory), 0; }

int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
  return memcpy((void*)(uintptr_t)to, from, bytes), stream == NULL;
}

int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
  return memcpy(to, (void*)(uintptr_t)from, bytes), stream == NULL;
}

int cuThreadExchangeStreamCaptureMode(int* mode) { return *mode = 0, 0; }

int cuStreamGetCaptureInfo_v2(void* stream, int* state, uint64_t* id, void** graph, const void** nodes, size_t* count) {
  (void)stream, (void)id, (void)graph, (void)nodes, (void)count;
  return *state = 0, 0;
}

int cuUserObjectCreate(void** object, void* data, void (*end)(void*), unsigned references, unsigned flags) {
  (void)data, (void)end, (void)references, (void)flags;
  return *object = NULL, 1;
}

int cuGraphRetainUserObject(void* graph, void* object, unsigned count, unsigned flags) {
  (void)graph, (void)object, (void)count, (void)flags;
  return 1;
}
