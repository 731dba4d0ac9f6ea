// Compares the plugins' declarations with NCCL's own headers, field by field. Compile it with NCCL's src/include and
// CUDA's headers: it has nothing to run.
#include <cstddef>
#include <type_traits>

#include "abi/net_tables.h"
#include "abi/tuner_tables.h"
#include "nccl.h"
#include "nccl_common.h"
#include "nccl_device/net_device.h"
#include "plugin/nccl_net.h"
#include "plugin/nccl_tuner.h"

namespace own = ccore::nccl;

// A structure of ours and one of NCCL's: the same size, and fields at the same place with the same size.
#define SAME_SIZE(ours, theirs) \
  static_assert(sizeof(own::ours) == sizeof(theirs) && alignof(own::ours) == alignof(theirs))
#define SAME_FIELD(ours, field, theirs, their_field)                           \
  static_assert(offsetof(own::ours, field) == offsetof(theirs, their_field) && \
                sizeof(std::declval<own::ours>().field) == sizeof(std::declval<theirs>().their_field))

#define FIRST_PROPERTIES(ours, theirs)                   \
  SAME_SIZE(ours, theirs);                               \
  SAME_FIELD(ours, name, theirs, name);                  \
  SAME_FIELD(ours, pci_path, theirs, pciPath);           \
  SAME_FIELD(ours, guid, theirs, guid);                  \
  SAME_FIELD(ours, pointer_support, theirs, ptrSupport); \
  SAME_FIELD(ours, speed_mbps, theirs, speed);           \
  SAME_FIELD(ours, port, theirs, port);                  \
  SAME_FIELD(ours, latency_us, theirs, latency);         \
  SAME_FIELD(ours, most_comms, theirs, maxComms);        \
  SAME_FIELD(ours, most_receives, theirs, maxRecvs)
#define DEVICE_PROPERTIES(ours, theirs)                 \
  SAME_FIELD(ours, device_type, theirs, netDeviceType); \
  SAME_FIELD(ours, device_version, theirs, netDeviceVersion)
#define LATER_PROPERTIES(ours, theirs)                           \
  SAME_FIELD(ours, registration_is_global, theirs, regIsGlobal); \
  SAME_FIELD(ours, force_flush, theirs, forceFlush);             \
  SAME_FIELD(ours, virtual_device, theirs, vProps);              \
  SAME_FIELD(ours, virtual_device.devices, theirs, vProps.devs); \
  SAME_FIELD(ours, most_p2p_bytes, theirs, maxP2pBytes);         \
  SAME_FIELD(ours, most_collective_bytes, theirs, maxCollBytes)

FIRST_PROPERTIES(PropertiesV6, ncclNetProperties_v6_t);
FIRST_PROPERTIES(PropertiesV7, ncclNetProperties_v7_t);
DEVICE_PROPERTIES(PropertiesV7, ncclNetProperties_v7_t);
FIRST_PROPERTIES(PropertiesV8, ncclNetProperties_v8_t);
DEVICE_PROPERTIES(PropertiesV8, ncclNetProperties_v8_t);
SAME_FIELD(PropertiesV8, registration_is_global, ncclNetProperties_v8_t, regIsGlobal);
FIRST_PROPERTIES(PropertiesV9, ncclNetProperties_v9_t);
DEVICE_PROPERTIES(PropertiesV9, ncclNetProperties_v9_t);
LATER_PROPERTIES(PropertiesV9, ncclNetProperties_v9_t);
FIRST_PROPERTIES(PropertiesV9, ncclNetProperties_v10_t);
DEVICE_PROPERTIES(PropertiesV9, ncclNetProperties_v10_t);
LATER_PROPERTIES(PropertiesV9, ncclNetProperties_v10_t);
FIRST_PROPERTIES(PropertiesV11, ncclNetProperties_v11_t);
DEVICE_PROPERTIES(PropertiesV11, ncclNetProperties_v11_t);
LATER_PROPERTIES(PropertiesV11, ncclNetProperties_v11_t);
SAME_FIELD(PropertiesV11, most_requests_at_once, ncclNetProperties_v11_t, maxMultiRequestSize);
FIRST_PROPERTIES(PropertiesV12, ncclNetProperties_v12_t);
DEVICE_PROPERTIES(PropertiesV12, ncclNetProperties_v12_t);
LATER_PROPERTIES(PropertiesV12, ncclNetProperties_v12_t);
SAME_FIELD(PropertiesV12, most_requests_at_once, ncclNetProperties_v12_t, maxMultiRequestSize);
SAME_FIELD(PropertiesV12, rail, ncclNetProperties_v12_t, railId);
SAME_FIELD(PropertiesV12, plane, ncclNetProperties_v12_t, planeId);

// A function is passed the same words if its parameters are of the same kind and size, one by one.
template <typename Ours, typename Theirs>
constexpr bool alike = sizeof(Ours) == sizeof(Theirs) && (std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>) &&
                       (std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs>);
template <typename Ours, typename Theirs>
struct SameCall : std::false_type {};
template <typename R, typename... A, typename S, typename... B>
struct SameCall<R (*)(A...), S (*)(B...)> {
  static constexpr bool words() {
    if constexpr (sizeof...(A) == sizeof...(B)) return (alike<A, B> && ...);
    return false;
  }
  static constexpr bool value = alike<R, S> && words();
};
#define SAME_CALL(ours, field, theirs, their_field) \
  SAME_FIELD(ours, field, theirs, their_field);     \
  static_assert(SameCall<decltype(own::ours::field), decltype(theirs::their_field)>::value)

#define NET(ours, theirs)                                 \
  SAME_SIZE(ours, theirs);                                \
  SAME_FIELD(ours, name, theirs, name);                   \
  SAME_CALL(ours, init, theirs, init);                    \
  SAME_CALL(ours, devices, theirs, devices);              \
  SAME_CALL(ours, properties, theirs, getProperties);     \
  SAME_CALL(ours, listen, theirs, listen);                \
  SAME_CALL(ours, connect, theirs, connect);              \
  SAME_CALL(ours, accept, theirs, accept);                \
  SAME_CALL(ours, register_memory, theirs, regMr);        \
  SAME_CALL(ours, register_dma_buf, theirs, regMrDmaBuf); \
  SAME_CALL(ours, deregister, theirs, deregMr);           \
  SAME_CALL(ours, send, theirs, isend);                   \
  SAME_CALL(ours, receive, theirs, irecv);                \
  SAME_CALL(ours, flush, theirs, iflush);                 \
  SAME_CALL(ours, test, theirs, test);                    \
  SAME_CALL(ours, close_send, theirs, closeSend);         \
  SAME_CALL(ours, close_receive, theirs, closeRecv);      \
  SAME_CALL(ours, close_listener, theirs, closeListen)
#define NET_V7(ours, theirs)                                 \
  NET(ours, theirs);                                         \
  SAME_CALL(ours, device_registration, theirs, getDeviceMr); \
  SAME_CALL(ours, consumed, theirs, irecvConsumed)
#define NET_V9(ours, theirs) \
  NET_V7(ours, theirs);      \
  SAME_CALL(ours, make_virtual_device, theirs, makeVDevice)
#define NET_V11(ours, theirs)                  \
  NET_V9(ours, theirs);                        \
  SAME_CALL(ours, finalize, theirs, finalize); \
  SAME_CALL(ours, set_attributes, theirs, setNetAttr)

NET(NetV6, ncclNet_v6_t);
NET_V7(NetV7, ncclNet_v7_t);
NET_V7(NetV8, ncclNet_v8_t);
NET_V9(NetV9, ncclNet_v9_t);
NET_V9(NetV10, ncclNet_v10_t);
NET_V11(NetV11, ncclNet_v11_t);
NET_V11(NetV12, ncclNet_v12_t);

#define TUNER(ours, theirs)             \
  SAME_SIZE(ours, theirs);              \
  SAME_FIELD(ours, name, theirs, name); \
  SAME_CALL(ours, init, theirs, init);  \
  SAME_CALL(ours, choose, theirs, getCollInfo)
TUNER(TunerV2, ncclTuner_v2_t);
SAME_CALL(TunerV2, destroy, ncclTuner_v2_t, destroy);
TUNER(TunerV3, ncclTuner_v3_t);
SAME_CALL(TunerV3, destroy, ncclTuner_v3_t, destroy);
TUNER(TunerV4, ncclTuner_v4_t);
SAME_CALL(TunerV4, destroy, ncclTuner_v4_t, destroy);
TUNER(TunerV5, ncclTuner_v5_t);
SAME_CALL(TunerV5, finalize, ncclTuner_v5_t, finalize);
TUNER(TunerV6, ncclTuner_v6_t);
SAME_CALL(TunerV6, finalize, ncclTuner_v6_t, finalize);
SAME_CALL(TunerV6, chunk_bytes, ncclTuner_v6_t, getChunkSize);

static_assert(own::kHandleBytes == NCCL_NET_HANDLE_MAXSIZE && own::kPointerHost == NCCL_PTR_HOST);
static_assert(int{own::kSuccess} == ncclSuccess && int{own::kSystemError} == ncclSystemError);
static_assert(int{own::kInternalError} == ncclInternalError && int{own::kInvalidArgument} == ncclInvalidArgument);
static_assert(int{own::kInvalidUsage} == ncclInvalidUsage && int{own::kRemoteError} == ncclRemoteError);
static_assert(int{own::kLogWarn} == NCCL_LOG_WARN && int{own::kLogInfo} == NCCL_LOG_INFO);
static_assert(own::kLogInit == NCCL_INIT && own::kLogNet == NCCL_NET && own::kLogTuning == NCCL_TUNING);
static_assert(own::kAlgorithms == NCCL_NUM_ALGORITHMS && own::kProtocols == NCCL_NUM_PROTOCOLS);
static_assert(own::kNetDeviceHost == NCCL_NET_DEVICE_HOST && own::kNetIdUndefined == NCCL_NET_ID_UNDEF);
