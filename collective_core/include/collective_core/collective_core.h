/* collective_core: the C ABI. Every symbol starts with cc_ (macros with CC_). Public like it are collective_core.hpp,
 * the same in C++, and the headers of CUDA devices, collective_core_cuda*.h. Any other header is internal.
 *
 * Collectives block the calling thread until the local part is complete. A communicator runs one
 * operation at a time, in the order in which it is called; every rank must call the same operations in the
 * same order with the same arguments (a difference is reported as CC_ERROR_DESYNC). Different
 * communicators are independent. The first error of a communicator is sticky: every later call returns it,
 * and every other rank receives who failed and why.
 *
 * Buffers are host memory or, of collectives, memory of a CUDA device (see cc_memory). In place means: all_reduce, reduce and broadcast with send == recv; all_gather and,
 * on its root, gather with send == recv + rank * count elements; all_gatherv with send == recv +
 * offsets[rank]; reduce_scatter and, on its root, scatter with recv == send + rank * count elements. Any
 * other overlap of send and recv is undefined. No alignment is required. */
#ifndef COLLECTIVE_CORE_COLLECTIVE_CORE_H_
#define COLLECTIVE_CORE_COLLECTIVE_CORE_H_

#include <stddef.h>
#include <stdint.h>

/* The version of this header; a name keeps its meaning within a minor version. */
#define CC_VERSION_MAJOR 0
#define CC_VERSION_MINOR 1 /* see CC_VERSION_MAJOR */
#define CC_VERSION_PATCH 0 /* see CC_VERSION_MAJOR */
/* The version as one number; that of the library is cc_version(). */
#define CC_VERSION_NUMBER (CC_VERSION_MAJOR * 10000 + CC_VERSION_MINOR * 100 + CC_VERSION_PATCH)

#if defined(__GNUC__)
/* Marks what the library exports. */
#define CC_API __attribute__((visibility("default")))
#else
#define CC_API
#endif

/* Any int may arrive in these parameters and is checked; in C++ this needs a fixed underlying type. */
#ifdef __cplusplus
#define CC_INT_ENUM : int
extern "C" {
#else
#define CC_INT_ENUM
#endif

/* What a call returns. cc_last_error has the text. */
typedef enum cc_result CC_INT_ENUM {
  CC_SUCCESS = 0,
  CC_ERROR_INVALID_ARGUMENT = 1, /* a value that can never be right: null pointer, unknown dtype, bad rank */
  CC_ERROR_INVALID_USAGE = 2,    /* right values at the wrong moment: after fork, two ranks with one number */
  CC_ERROR_SYSTEM = 3,           /* a system call failed; the text has errno */
  CC_ERROR_REMOTE = 4,           /* another rank failed, died or left; the text names it */
  CC_ERROR_TIMEOUT = 5,          /* the deadline of the operation or of the initialisation passed */
  CC_ERROR_ABORTED = 6,          /* cc_comm_abort was called on this communicator */
  CC_ERROR_DESYNC = 7,           /* ranks called different operations; the text has both calls */
  CC_ERROR_INTERNAL = 8,         /* a defect of this library */
  CC_IN_PROGRESS = 9             /* cc_comm_get_async_error only: an operation is running, no error so far */
} cc_result;

/* Types of elements. cc_dtype_size has their bytes. */
typedef enum cc_dtype CC_INT_ENUM {
  CC_FLOAT64 = 0,
  CC_FLOAT32 = 1,
  CC_FLOAT16 = 2,
  CC_BFLOAT16 = 3,
  CC_INT8 = 4,
  CC_UINT8 = 5,
  CC_INT32 = 6,
  CC_UINT32 = 7,
  CC_INT64 = 8,
  CC_UINT64 = 9,
  CC_FLOAT8_E4M3 = 10, /* OCP FP8, as torch.float8_e4m3fn: numbers up to 448, NaN, no infinity */
  CC_FLOAT8_E5M2 = 11  /* OCP FP8, as torch.float8_e5m2 */
} cc_dtype;

/* Integers wrap around. 8-bit and 16-bit floats are added in f32 and rounded once per hop, to nearest even;
 * what is too large becomes infinity, and 448 in E4M3. MIN and MAX propagate NaN. AVG is the sum divided once by
 * the number of ranks (integers: truncated toward zero). */
typedef enum cc_redop CC_INT_ENUM { CC_SUM = 0, CC_PROD = 1, CC_MIN = 2, CC_MAX = 3, CC_AVG = 4 } cc_redop;

/* How ranks reach each other. */
typedef enum cc_transport CC_INT_ENUM {
  CC_TRANSPORT_AUTO = 0, /* shared memory inside a node, TCP between nodes */
  CC_TRANSPORT_SHM = 1,  /* shared memory only; initialisation fails if two ranks cannot share a segment */
  CC_TRANSPORT_TCP = 2   /* TCP between all ranks */
} cc_transport;

/* The size of cc_unique_id. */
#define CC_UNIQUE_ID_BYTES 128
/* Where the ranks of a communicator meet, and the secret that authenticates them; of cc_get_unique_id. */
typedef struct cc_unique_id {
  unsigned char bytes[CC_UNIQUE_ID_BYTES]; /* opaque, to be sent as it is */
} cc_unique_id;

/* Set size to sizeof(cc_config) and everything else to zero, then change what you need. Zero or NULL means
 * "take the environment variable, else the default". Fields are only ever added at the end. */
typedef struct cc_config {
  size_t size; /* sizeof(cc_config), set before the call */
  int64_t timeout_ms;      /* deadline of every operation; CCORE_TIMEOUT_S, default 300 s */
  int64_t init_timeout_ms; /* deadline of cc_comm_init_rank; CCORE_INIT_TIMEOUT_S, default 120 s */
  int32_t transport;       /* cc_transport; CCORE_TRANSPORT=auto|shm|tcp */
  int32_t reserved;        /* zero */
  const char* node_id;     /* ranks with equal node_id are one node; CCORE_NODE_ID, default host + boot id */
  const char* interface_name; /* network interface of TCP; CCORE_SOCKET_IFNAME */
  const char* address;        /* numeric address to bind and announce; CCORE_SOCKET_ADDR */
} cc_config;

/* Where the buffers of a collective are; both are of one kind, and of the same kind on all ranks.
 *
 * Device memory is that of a CUDA device, or managed memory. It needs libcollective_core_cuda.so, which a wheel with CUDA
 * has beside this library, and works on the device that is current at the first such operation, where the ranks meet once.
 * On one node the call queues its work on cc_op_options.stream and returns: the result is there for what is queued on that
 * stream afterwards, and an error appears in a later call or in cc_comm_get_async_error; the deadline is that of the
 * communicator. On several nodes the call returns when the data has travelled; cc_comm_counts names the way, "gpu", "2d_gpu"
 * or "staged". Collectives alone do this: messages, groups, top-k and cc_cpu_reduce have functions of their own. */
typedef enum cc_memory CC_INT_ENUM {
  /* As the CUDA driver has it, which the program has loaded before it makes the communicator, or passes a stream; each
   * call then costs two questions to the driver. Without a driver: host memory. */
  CC_MEMORY_AUTO = 0,
  CC_MEMORY_HOST = 1,  /* also pinned memory */
  CC_MEMORY_DEVICE = 2 /* of a CUDA device, or managed */
} cc_memory;

/* As cc_config. timeout_ms 0 means the deadline of the communicator. */
typedef struct cc_op_options {
  size_t size; /* sizeof(cc_op_options), set before the call */
  int64_t timeout_ms; /* deadline of the operation */
  int32_t tag;    /* cc_send and cc_recv only: a mark that both sides must agree on */
  int32_t memory; /* cc_memory, of collectives */
  void* stream;   /* of device memory: a cudaStream_t; NULL: the default stream */
} cc_op_options;

#define CC_HOST_BYTES 256   /* the size of a host name in cc_peer_info */
#define CC_ADDRESS_BYTES 64 /* the size of an address in cc_peer_info */
/* What is known of a rank; set size before the call. Texts end with a zero byte. */
typedef struct cc_peer_info {
  size_t size; /* sizeof(cc_peer_info), set before the call */
  int32_t rank; /* its number in the communicator */
  int32_t node;       /* index of its node, counted in the order of the lowest rank on each */
  int32_t local_rank; /* its place among the ranks of its node */
  int32_t local_size; /* ranks on its node */
  int64_t pid; /* its process on its host */
  uint64_t payload_bytes_sent;     /* by this rank to it since initialisation, without headers */
  uint64_t payload_bytes_received; /* by this rank from it */
  char host[CC_HOST_BYTES];        /* its host name */
  char address[CC_ADDRESS_BYTES];  /* its TCP address, numeric */
  char transport[16];              /* between this rank and it: "self", "shm", "tcp", "rdma" */
} cc_peer_info;

/* Operations as cc_comm_stats and cc_comm_trace number them. */
typedef enum cc_operation CC_INT_ENUM {
  CC_OPERATION_ALL_REDUCE = 1,
  CC_OPERATION_BROADCAST = 2,
  CC_OPERATION_ALL_GATHER = 3,
  CC_OPERATION_REDUCE_SCATTER = 4,
  CC_OPERATION_BARRIER = 5,
  CC_OPERATION_SEND = 6,
  CC_OPERATION_REDUCE = 7,
  CC_OPERATION_GATHER = 8,
  CC_OPERATION_SCATTER = 9,
  CC_OPERATION_ALL_TO_ALL = 10,
  CC_OPERATION_ALL_TO_ALLV = 11,
  CC_OPERATION_ALL_GATHERV = 12,
  CC_OPERATION_TOPK_ALL_REDUCE = 13,
  CC_OPERATION_CPU_REDUCE = 14,
  CC_OPERATION_SPLIT = 20,
  CC_OPERATION_FINALIZE = 21,
  CC_OPERATION_TUNING = 22, /* of the tuner's own calls: to search again, to set a choice */
  CC_OPERATION_MEM_REGISTER = 23, /* its bytes: those that this rank registers */
  CC_OPERATION_MEM_DEREGISTER = 24,
  CC_OPERATION_MEETING = 25, /* of the ranks, at their first operation on device memory */
  CC_OPERATION_RECV = 32,
  CC_OPERATION_LAST = 32
} cc_operation;

/* Sums over the operations of one kind that have ended on this rank; set size before the call. */
typedef struct cc_op_stats {
  size_t size; /* sizeof(cc_op_stats), set before the call */
  uint64_t calls;      /* those that failed included */
  uint64_t errors; /* those that failed */
  uint64_t bytes;      /* count of the call * size of its dtype; of all_to_allv what this rank gives */
  uint64_t total_ns;   /* from call to end: waiting for others included */
  uint64_t longest_ns; /* of one operation */
} cc_op_stats;

/* How many operations the flight recorder of a communicator remembers. */
#define CC_TRACE_ENTRIES 64
/* One of the last operations of this rank. */
typedef struct cc_trace_entry {
  size_t size; /* entry_bytes of the call, or what this library knows if that is less */
  uint64_t sequence;  /* its number among the operations of the communicator; equal on all ranks. Of send and recv:
                         among those from the sender to the receiver */
  uint64_t count;     /* as in cc_op_stats, in elements */
  int64_t start_ns;   /* CLOCK_MONOTONIC of this host */
  int64_t end_ns;     /* 0: it is running */
  int32_t operation;  /* cc_operation */
  int32_t dtype;      /* cc_dtype */
  int32_t redop;      /* cc_redop, where there is one */
  int32_t root;       /* of send and recv: the other rank; -1: any, not known so far */
  int32_t tag; /* of send and recv */
  int32_t result;     /* cc_result; CC_IN_PROGRESS while it runs */
  int32_t waits_for;  /* the rank that it waited for when it last had to wait; -1: it never had to, for long */
  int32_t reserved;   /* zero */
  char algorithm[16]; /* "ring", ...; empty where there is none */
} cc_trace_entry;

/* A communicator: the ranks of a job, and this rank's place among them. */
typedef struct cc_comm cc_comm;

/* The version of the library, as CC_VERSION_NUMBER. */
CC_API int cc_version(void);
/* The same as text, such as "0.1.0"; constant. */
CC_API const char* cc_version_string(void);
/* A short constant text for a code; never NULL. */
CC_API const char* cc_error_string(cc_result code);
/* The first error of the communicator in words, or, with NULL, of the last call of this thread that failed, also on a
 * communicator that is no more. Empty when there is none. Valid until the next call on the same thread. */
CC_API const char* cc_last_error(const cc_comm* comm);
/* Bytes per element; 0 for an unknown type. */
CC_API size_t cc_dtype_size(cc_dtype dtype);

/* Makes an id and starts the rendezvous in this process, which must stay alive until all ranks are
 * initialised. Send the id to all ranks by a trusted way: it holds the secret that authenticates them. */
CC_API cc_result cc_get_unique_id(cc_unique_id* id);
/* Makes the same id on every rank from an address (numeric or name), a port and a secret text. The process
 * with is_root != 0 listens there; the others wait for it in cc_comm_init_rank. */
CC_API cc_result cc_unique_id_from_address(cc_unique_id* id, const char* address, int port, const char* secret,
                                           int is_root);

/* How this process was started; set size before the call. */
typedef struct cc_launch {
  size_t size; /* sizeof(cc_launch), set before the call */
  int32_t rank;   /* of this process, 0 to nranks - 1 */
  int32_t nranks; /* all ranks of the job */
  int32_t local_size; /* ranks on this host; 0: the launcher does not say */
  int32_t reserved;   /* zero */
  char launcher[16];  /* "Open MPI", "MPICH", "torchrun", "Slurm" or "none" */
} cc_launch;
/* Reads the variables of Open MPI, MPICH, torchrun or Slurm; without any of them this is rank 0 of 1.
 * CC_ERROR_INVALID_ARGUMENT: they make no sense; the text names the variable. */
CC_API cc_result cc_get_launch(cc_launch* launch);
/* Joins the ranks that the launcher of cc_get_launch started; returns on all ranks together. The ranks of one host meet
 * by themselves. On several hosts they meet at MASTER_ADDR and MASTER_PORT, or at CCORE_ROOT_ADDR and CCORE_ROOT_PORT,
 * and CCORE_JOB_SECRET authenticates them (docs/environment.md). config and failures as in cc_comm_init_rank. */
CC_API cc_result cc_comm_init(cc_comm** comm, const cc_config* config);

/* Joins rank of nranks; returns on all ranks together. config may be NULL. On failure *comm is NULL and
 * cc_last_error(NULL) has the cause. */
CC_API cc_result cc_comm_init_rank(cc_comm** comm, int nranks, const cc_unique_id* id, int rank,
                                   const cc_config* config);
/* Frees the communicator. Not collective: it tells the others goodbye and does not wait for them. Operations that
 * other threads are in, or wait to begin, end with CC_ERROR_ABORTED first; no thread may begin a call any more, the
 * text of that error is in cc_last_error(NULL). NULL is allowed. */
CC_API cc_result cc_comm_destroy(cc_comm* comm);
/* A color for cc_comm_split: this rank joins no part. */
#define CC_SPLIT_NOCOLOR (-1)
/* The ranks that call it with one color become a communicator of their own, in the order of key, then of rank.
 * Every rank of comm calls it, at the same place among its operations; with CC_SPLIT_NOCOLOR *part is NULL.
 * config may be NULL; its zero or NULL fields mean as in comm. Both communicators are independent afterwards. A
 * failure to connect the part leaves comm as it was. */
CC_API cc_result cc_comm_split(cc_comm* comm, int color, int key, const cc_config* config, cc_comm** part);
/* Returns when all ranks have called it, and so are done with all they called before; then the communicator can
 * only be asked and destroyed, in silence, by each rank when it likes. A message that no rank received is
 * CC_ERROR_DESYNC where it is noticed. Calling it twice is allowed. options may be NULL. */
CC_API cc_result cc_comm_finalize(cc_comm* comm, const cc_op_options* options);
/* Ends the running operation on every rank with an error. Callable from any thread while the communicator
 * exists; returns in less than a second. The communicator can then only be destroyed. */
CC_API cc_result cc_comm_abort(cc_comm* comm);
/* Stores CC_SUCCESS, CC_IN_PROGRESS or the first error in *state, without waiting. */
CC_API cc_result cc_comm_get_async_error(const cc_comm* comm, cc_result* state);

/* Stores the number of this rank in *rank. Like cc_comm_size and cc_comm_peer_info, it does not wait, works on any thread
 * and after a failure, and returns CC_ERROR_INVALID_ARGUMENT for a null pointer. */
CC_API cc_result cc_comm_rank(const cc_comm* comm, int* rank);
/* Stores how many ranks there are in *nranks. */
CC_API cc_result cc_comm_size(const cc_comm* comm, int* nranks);
/* Fills *info with what is known of a rank, 0 to nranks - 1. */
CC_API cc_result cc_comm_peer_info(const cc_comm* comm, int rank, cc_peer_info* info);

/* Without waiting, from any thread, also while an operation runs and after a failure. */
CC_API cc_result cc_comm_stats(const cc_comm* comm, cc_operation operation, cc_op_stats* stats);
/* Fills the newest *count of the last CC_TRACE_ENTRIES operations, oldest first, and stores in *count how many
 * there are; entry_bytes is sizeof(cc_trace_entry). An error other than an abort also writes them to the log
 * (CCORE_DEBUG=WARN). */
CC_API cc_result cc_comm_trace(const cc_comm* comm, cc_trace_entry* entries, size_t entry_bytes, size_t* count);

/* All settings that this rank's library reads, as text: a line "NAME=value (source)" for each of docs/environment.md,
 * whose source is the environment (and by which alias), cc_config, rank 0, or "default". comm NULL: as the environment
 * of this process alone says. *needed: the bytes of the whole text with its zero byte; of a shorter buffer as much is
 * written as fits; text may be NULL if size is 0. Without waiting, from any thread, also after a failure.
 * CC_ERROR_INVALID_ARGUMENT: needed is NULL, or text is NULL and size is not 0. */
CC_API cc_result cc_dump_config(const cc_comm* comm, char* text, size_t size, size_t* needed);

/* Where the value of a setting comes from. */
typedef enum cc_setting_source CC_INT_ENUM {
  CC_SETTING_DEFAULT = 0,
  CC_SETTING_ENVIRONMENT = 1, /* the environment of this process, as cc_setting.spelled */
  CC_SETTING_CONFIG = 2,      /* cc_config, whatever the environment says */
  CC_SETTING_RANK_0 = 3,      /* rank 0, whose value counts for all ranks */
  CC_SETTING_NOT_USED = 4     /* what was requested cannot be used; cc_setting.note says why */
} cc_setting_source;
/* One of the variables of docs/environment.md that the library reads. Longer texts are cut to what fits. */
typedef struct cc_setting {
  size_t size;      /* entry_bytes of the call, or what this library knows if that is less */
  int32_t source;   /* cc_setting_source */
  int32_t secret;   /* 1: the value is shown as "***" */
  char name[64];    /* "CCORE_TIMEOUT_S" */
  char spelled[64]; /* the name or alias under which the environment of this process sets it; empty: under none */
  char value[512];  /* in effect */
  char note[256];   /* of what cannot be used, why; else what else is to be said of the value, or empty */
} cc_setting;
/* Fills *count settings in the order of docs/environment.md, at most as many as *count, and stores in *count how many there
 * are; entry_bytes is sizeof(cc_setting). comm NULL: as the environment of this process alone says. Without
 * waiting, from any thread, also after a failure. cc_dump_config has the same as text. */
CC_API cc_result cc_get_settings(const cc_comm* comm, cc_setting* settings, size_t entry_bytes, size_t* count);

/* The limits within which the library decides; set size before the call. */
typedef struct cc_limits {
  size_t size; /* sizeof(cc_limits), set before the call */
  int64_t timeout_ms; /* deadline of the operations of this rank that have none of their own */
  /* Of how many bytes on, and up to how many, all_reduce on several nodes may take 2d without being forced to; equal on
   * all ranks. INT64_MAX: there is no upper limit. least above most: never, as it is switched off or another algorithm
   * is forced. */
  int64_t least_2d_bytes;
  int64_t most_2d_bytes; /* see least_2d_bytes */
  /* Of how many bytes of device memory on all_reduce takes the GPUs inside the nodes, up to most_2d_bytes: by the
   * cc_cuda_path of the node with the slowest; [0]: the least of them. INT64_MAX: never, as on one node. */
  int64_t least_device_2d_bytes[4];
} cc_limits;
/* Fills *limits. Without waiting, from any thread, also after a failure. */
CC_API cc_result cc_get_limits(const cc_comm* comm, cc_limits* limits);

/* What made the library choose an algorithm. */
typedef enum cc_reason CC_INT_ENUM {
  CC_REASON_ONLY = 0, /* the collective has one algorithm on these ranks */
  CC_REASON_FORCED = 1, /* CCORE_ALGO, or CCORE_2D_BETWEEN between nodes of one rank each */
  CC_REASON_TUNER = 2, /* the tuner, which measures operations of the program, its file, or cc_tuner_set */
  CC_REASON_MEASURED = 3, /* what the library has measured on this machine before the first operation of such a size */
  CC_REASON_MODEL = 4 /* a rule of docs/algorithms.md, or the cost model: nothing of it was measured */
} cc_reason;
/* How an operation is carried out; set size before the call. Texts end with a zero byte. */
typedef struct cc_description {
  size_t size; /* sizeof(cc_description), set before the call */
  uint64_t bytes; /* of the whole data, by which the algorithm is chosen: M of docs/algorithms.md */
  int32_t reason; /* cc_reason */
  int32_t reserved; /* zero */
  char algorithm[16]; /* "ring", as CCORE_ALGO and cc_comm_trace name it */
  char path[16]; /* where it is carried out: "host", "device" */
  char transport[24]; /* between this rank and the others: "shm", "tcp", "rdma", "shm+tcp"; "self" for one rank */
} cc_description;
/* Describes how this rank would carry out a collective of `count` elements, as in its call, if that were the next
 * operation. What is measured before the first operation of a size, or while the tuner searches, may still change it. Of
 * device memory the algorithm is "gpu", "2d_gpu" or "staged", and empty before the first such operation; memory
 * CC_MEMORY_AUTO means host memory here. Waits for a running operation. CC_ERROR_INVALID_ARGUMENT: the operation has no
 * algorithm to choose, such as a send. */
CC_API cc_result cc_describe(cc_comm* comm, cc_operation operation, size_t count, cc_dtype dtype, cc_memory memory,
                             cc_description* description);

/* How many rows of one size each cc_comm_counts has; further sizes are counted together. */
#define CC_COUNT_SIZES 512
/* How often one operation of one size ran by one algorithm on this rank. */
typedef struct cc_count {
  size_t size; /* entry_bytes of the call, or what this library knows if that is less */
  uint64_t bytes; /* as in cc_op_stats, of one operation */
  uint64_t calls; /* that have ended, those that failed included */
  uint64_t errors; /* those that failed */
  uint64_t total_ns; /* from call to end: waiting for others included */
  int32_t operation; /* cc_operation */
  int32_t rounded; /* 1: a row for all sizes from bytes to below 2 * bytes that came after CC_COUNT_SIZES others */
  char algorithm[16]; /* "ring", ...; empty where there is none */
} cc_count;
/* Fills rows in the order in which they came up, at most as many as *count, and stores in *count how many there are;
 * entry_bytes is sizeof(cc_count). Without waiting, from any thread, also while an operation runs and after a failure. */
CC_API cc_result cc_comm_counts(const cc_comm* comm, cc_count* counts, size_t entry_bytes, size_t* count);

/* Where a GPU of this host is, as one line of text: its NUMA node, its NVLinks as NVML reports them, and the network
 * devices with their distance in the words of nvidia-smi (PIX, PXB, PHB, NODE, SYS), the nearest first. pci_address:
 * "0000:18:00.0". text, size and needed as in cc_dump_config. CC_ERROR_INVALID_ARGUMENT: there is no such device. */
CC_API cc_result cc_describe_gpu(const char* pci_address, char* text, size_t size, size_t* needed);

/* recv[i] = send_0[i] op send_1[i] op ... ; bit-identical on all ranks. options may be NULL everywhere. */
CC_API cc_result cc_all_reduce(const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op, cc_comm* comm,
                               const cc_op_options* options);
/* recv of every rank = send of root. send is read on root only. */
CC_API cc_result cc_broadcast(const void* send, void* recv, size_t count, cc_dtype dtype, int root, cc_comm* comm,
                              const cc_op_options* options);
/* recv (nranks * count) = send (count) of rank 0, of rank 1, ... */
CC_API cc_result cc_all_gather(const void* send, void* recv, size_t count, cc_dtype dtype, cc_comm* comm,
                               const cc_op_options* options);
/* recv (count) = block `rank` of the reduction of send (nranks * count). */
CC_API cc_result cc_reduce_scatter(const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op,
                                   cc_comm* comm, const cc_op_options* options);
/* recv of root = the reduction of send of all ranks. recv is written on root only. */
CC_API cc_result cc_reduce(const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op, int root,
                           cc_comm* comm, const cc_op_options* options);
/* recv (nranks * count) of root = send (count) of rank 0, of rank 1, ... recv is written on root only. */
CC_API cc_result cc_gather(const void* send, void* recv, size_t count, cc_dtype dtype, int root, cc_comm* comm,
                           const cc_op_options* options);
/* recv (count) = block `rank` of send (nranks * count) of root. send is read on root only. */
CC_API cc_result cc_scatter(const void* send, void* recv, size_t count, cc_dtype dtype, int root, cc_comm* comm,
                            const cc_op_options* options);
/* Block r of recv = block `rank` of send of rank r; both hold nranks * count elements and do not overlap. */
CC_API cc_result cc_all_to_all(const void* send, void* recv, size_t count, cc_dtype dtype, cc_comm* comm,
                               const cc_op_options* options);
/* send_counts[r] elements from send + send_offsets[r] go to rank r; recv_counts[r] come from it to recv +
 * recv_offsets[r]. Counts and offsets are in elements, one per rank; what two ranks say of each other must
 * agree. */
CC_API cc_result cc_all_to_allv(const void* send, const size_t* send_counts, const size_t* send_offsets, void* recv,
                                const size_t* recv_counts, const size_t* recv_offsets, cc_dtype dtype, cc_comm* comm,
                                const cc_op_options* options);
/* recv + offsets[r] = send of rank r, of counts[r] elements. Counts agree on all ranks; offsets are this
 * rank's own. */
CC_API cc_result cc_all_gatherv(const void* send, void* recv, const size_t* counts, const size_t* offsets,
                                cc_dtype dtype, cc_comm* comm, const cc_op_options* options);
/* Returns when all ranks have called it. */
CC_API cc_result cc_barrier(cc_comm* comm, const cc_op_options* options);

/* How cc_topk_all_reduce compresses. As cc_config: zero means the environment variable, else the default. All ranks
 * give the same. */
typedef enum cc_topk_method CC_INT_ENUM {
  CC_TOPK_DEFAULT = 0, /* exact */
  CC_TOPK_EXACT = 1, /* the largest magnitudes, of equal ones those of the lowest index */
  CC_TOPK_MSTOPK = 2 /* by a search for a threshold; may differ from exact in a narrow band around it */
} cc_topk_method;
/* How the values of selected elements travel. */
typedef enum cc_topk_values CC_INT_ENUM {
  CC_TOPK_VALUES_DEFAULT = 0, /* CCORE_TOPK_FP16=0|1, default f32 */
  CC_TOPK_VALUES_F32 = 1,
  CC_TOPK_VALUES_F16 = 2 /* 6 instead of 8 bytes per element on the wire; what rounding loses is in the residual */
} cc_topk_values;
/* Options of cc_topk_all_reduce. */
typedef struct cc_topk_options {
  size_t size; /* sizeof(cc_topk_options), set before the call */
  double ratio; /* elements sent of each shard, 0 < ratio <= 1; CCORE_TOPK_RATIO, default 0.01 */
  int64_t threshold_bytes; /* smaller data is reduced densely; CCORE_TOPK_THRESHOLD, default 1048576 */
  int32_t method; /* cc_topk_method */
  int32_t values; /* cc_topk_values */
  int32_t samplings; /* passes of MSTopK over the data; default 30 */
  int32_t reserved; /* zero */
} cc_topk_options;

/* What a rank has not sent yet of one tensor. It belongs to that tensor: used with another count, dtype or
 * placement of ranks it starts again from zero, and says so in the log. One operation uses it at a time. Its
 * memory is 8 bytes per element of the rank's shard, and what is sent and received. */
typedef struct cc_residual cc_residual;
/* What a residual holds. */
typedef struct cc_residual_info {
  size_t size; /* sizeof(cc_residual_info), set before the call */
  size_t count; /* elements of the tensor it was last used for; 0 before the first compressed operation */
  int32_t dtype; /* cc_dtype of that tensor */
  int32_t reserved; /* zero */
  size_t shard_begin; /* the shard of this rank, in elements */
  size_t shard_count; /* 0 on ranks that own none, whose residual stays empty */
  uint64_t steps; /* compressed operations since it was zero */
  const float* values; /* shard_count of them; valid until its next use */
} cc_residual_info;
/* Makes an empty residual. Not collective; it needs no communicator. */
CC_API cc_result cc_residual_create(cc_residual** residual);
/* Makes it zero. */
CC_API cc_result cc_residual_reset(cc_residual* residual);
/* Set info->size before the call. */
CC_API cc_result cc_residual_get_info(const cc_residual* residual, cc_residual_info* info);
/* NULL is allowed. */
CC_API cc_result cc_residual_destroy(cc_residual* residual);

/* all_reduce that sends between nodes only the elements that matter most, and adds the others to later calls (Shi
 * et al., MLSys 2021). Inside a node nothing is left out. dtype: f32, f16 or bf16; op: CC_SUM or CC_AVG. The result
 * has the same bits on all ranks. topk may be NULL. residual may be NULL: what is not sent is then lost.
 * Becomes cc_all_reduce, and leaves the residual as it is, on one node, below the threshold, and where the ratio
 * makes the messages no smaller. An infinity or NaN on any rank makes the operation dense, so that it reaches all
 * ranks and no residual. */
CC_API cc_result cc_topk_all_reduce(const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op,
                                    const cc_topk_options* topk, cc_residual* residual, cc_comm* comm,
                                    const cc_op_options* options);

/* What cc_topk_all_reduce with these arguments does on this rank; set size before the call. It follows from sizes and
 * settings alone, so all ranks have the same but for their shards. */
typedef struct cc_topk_plan {
  size_t size; /* sizeof(cc_topk_plan), set before the call */
  int32_t compressed; /* 0: it is cc_all_reduce */
  int32_t method; /* cc_topk_method, never the default */
  int32_t values; /* cc_topk_values, never the default */
  int32_t samplings; /* passes of MSTopK over the data */
  int32_t nodes; /* of the communicator */
  int32_t shards; /* rank s of each node owns shard s; ranks from `shards` on own none */
  size_t shard_begin; /* the shard of this rank, in elements */
  size_t shard_count; /* its elements */
  size_t kept; /* elements of the shard that are sent */
} cc_topk_plan;
/* Fills *plan. Not collective, and does not wait. topk as in cc_topk_all_reduce; the same errors for wrong options. */
CC_API cc_result cc_topk_get_plan(const cc_comm* comm, size_t count, cc_dtype dtype, const cc_topk_options* topk,
                                  cc_topk_plan* plan);

/* Copies between the memory of a device and that of the host, for cc_cpu_reduce. Set size to
 * sizeof(cc_copy_engine); the struct is copied, what context points to must outlive the handle. The callbacks are
 * called from the thread that is in cc_cpu_reduce_run or _destroy, one at a time; they neither block nor throw. */
typedef struct cc_copy_engine {
  size_t size; /* sizeof(cc_copy_engine), set before the call */
  void* context; /* the first argument of every callback */
  /* Starts a copy of bytes > 0 and stores in *copy a number by which poll knows it. Copies may end in any order.
   * Returns CC_SUCCESS; anything else: it has not started, and error (error_bytes) holds a text that says why. */
  cc_result (*start_to_host)(void* context, void* host, const void* device, size_t bytes, uint64_t* copy, char* error,
                             size_t error_bytes);
  /* The same in the other direction. */
  cc_result (*start_to_device)(void* context, void* device, const void* host, size_t bytes, uint64_t* copy, char* error,
                               size_t error_bytes);
  /* CC_IN_PROGRESS, or CC_SUCCESS when it has ended; anything else: it has failed and no longer touches memory.
   * A number is not asked for again after its copy has ended or failed. */
  cc_result (*poll)(void* context, uint64_t copy, char* error, size_t error_bytes);
} cc_copy_engine;

/* As cc_config: zero means the environment variable, else the default. */
typedef struct cc_cpu_reduce_options {
  size_t size; /* sizeof(cc_cpu_reduce_options), set before the call */
  int64_t chunk_bytes; /* equal on all ranks, to 1 TiB; CCORE_CPU_REDUCE_CHUNK_BYTES, default 4194304 */
  int32_t chunks; /* staging buffers of chunk_bytes, 1 to 1024, of this rank; default 3 */
  int32_t reserved; /* zero */
} cc_cpu_reduce_options;

/* all_reduce of device memory on the CPUs: chunk by chunk to a staging buffer of the host, reduced there with the
 * other ranks, and back, so that copies of some chunks go on while another is reduced. */
typedef struct cc_cpu_reduce cc_cpu_reduce;
/* Allocates chunks * chunk_bytes of page-aligned memory. Not collective. options may be NULL. engine NULL: "device"
 * buffers are host memory, which a thread of this handle copies. */
CC_API cc_result cc_cpu_reduce_create(cc_comm* comm, const cc_cpu_reduce_options* options, const cc_copy_engine* engine,
                                      cc_cpu_reduce** handle);
/* As cc_all_reduce, an operation of the communicator like any other; in place with device_send == device_recv. A
 * copy that fails ends it on all ranks with CC_ERROR_SYSTEM here, CC_ERROR_REMOTE there, and the text of the copy.
 * Any error waits up to a second for the copies under way; an engine that needs longer still uses the buffers. A
 * handle runs one at a time, else CC_ERROR_INVALID_USAGE. */
CC_API cc_result cc_cpu_reduce_run(cc_cpu_reduce* handle, const void* device_send, void* device_recv, size_t count,
                                   cc_dtype dtype, cc_redop op, const cc_op_options* options);
/* Also after its communicator is destroyed, which nothing may run on any more. Staging memory that a copy still uses
 * is not freed. CC_ERROR_INVALID_USAGE while it runs. NULL is allowed. */
CC_API cc_result cc_cpu_reduce_destroy(cc_cpu_reduce* handle);

/* Memory in which large collectives need no copies between the ranks of a node, and from which RDMA sends without one
 * (CCORE_NET=rdma) while it is registered. Not collective: zeros at an address
 * that is a multiple of the page size, in an anonymous shared file of its own; pages count when they are touched. One
 * file descriptor is open until it is freed. After fork() parent and child share the pages, as with any shared memory.
 * CC_ERROR_SYSTEM: the text has errno. */
CC_API cc_result cc_mem_alloc(void** memory, size_t bytes);
/* Not collective. memory is what cc_mem_alloc gave; NULL is allowed. CC_ERROR_INVALID_USAGE while it is registered. */
CC_API cc_result cc_mem_free(void* memory);

/* A registration; the same number on all ranks, never 0. */
typedef uint64_t cc_mem_handle;
/* Collective: every rank gives memory of its own, of any size, and can reach that of all others afterwards. Where all of
 * it is from cc_mem_alloc (or lies in such memory) and all ranks share the memory of one node, *direct is 1 on all of
 * them, else 0; direct may be NULL. With 0 collectives work in it as in any memory, and with any memory.
 *
 * cc_all_reduce of 64 KiB or more whose send and recv lie in direct memory on all ranks, in one registration or in two
 * and anywhere in them, reads and writes them in place. That changes no result, but has two consequences. The pages that
 * a rank touches first are mapped into it then. And after an error a rank that was stopped in the middle may write into
 * recv when it goes on (docs/memory.md); cc_mem_free does not wait for it and does no harm to it. */
CC_API cc_result cc_mem_register(cc_comm* comm, void* memory, size_t bytes, cc_mem_handle* handle, int* direct,
                                 const cc_op_options* options);
/* Collective, with the same handle. When it returns, no rank can reach the memory any more. What is registered when a
 * communicator is destroyed is deregistered by that, on each rank by itself. */
CC_API cc_result cc_mem_deregister(cc_comm* comm, cc_mem_handle handle, const cc_op_options* options);

/* One message from this rank to peer. What two ranks send each other is received in the order in which it was
 * sent, collectives of both included; a receive that differs in count, dtype or tag from what comes is
 * CC_ERROR_DESYNC (a tag does not pick a message out of their order). cc_send returns when the buffer can be
 * used again, which may be before the peer receives. Only the two ranks take part. */
CC_API cc_result cc_send(const void* buffer, size_t count, cc_dtype dtype, int peer, cc_comm* comm,
                         const cc_op_options* options);
/* Returns when the message of peer is in buffer: see cc_send. */
CC_API cc_result cc_recv(void* buffer, size_t count, cc_dtype dtype, int peer, cc_comm* comm,
                         const cc_op_options* options);
/* The next message of whichever rank has one for this rank with that tag; *source is its rank. Ranks that have
 * one take turns. A message with another tag stays for a receive that names it; one with that tag and another
 * count or dtype is CC_ERROR_DESYNC. In a group, *source is written when the transfer ends. */
CC_API cc_result cc_recv_any(void* buffer, size_t count, cc_dtype dtype, int* source, cc_comm* comm,
                             const cc_op_options* options);
/* Between start and end, the sends and receives of this thread only take note, and the buffers must stay. The end
 * moves all at once, so that no order of sends and receives can deadlock; to and from one peer, order is kept.
 * A rank may send to itself here. No other operation may be called on the communicator meanwhile. An error of
 * a transfer ends the group. */
CC_API cc_result cc_group_start(cc_comm* comm);
/* Moves what was noted since cc_group_start, and returns when all of it has ended. */
CC_API cc_result cc_group_end(cc_comm* comm);
/* For callers with more to do: returns when one more transfer of the open group has ended, or after wait_ms,
 * with finished[i] != 0 for each of the `transfers` so far, in the order of their calls, that has. More may be
 * added afterwards. */
CC_API cc_result cc_group_progress(cc_comm* comm, int64_t wait_ms, unsigned char* finished, size_t transfers);

/* Which algorithms the tuner took, as text: a line for each kind of operation that has several
 * (collective, class of sizes by their base 2 logarithm, class of types, phase, algorithm, and what it
 * takes if that is known). *needed: the bytes of the whole text with its zero byte; of a shorter buffer
 * as much is written as fits. Waits for a running operation. */
CC_API cc_result cc_tuner_dump(cc_comm* comm, char* text, size_t size, size_t* needed);
/* Measures all algorithms again, or, without CCORE_AUTOTUNE, once. Collective. */
CC_API cc_result cc_tuner_retune(cc_comm* comm);
/* From now on `collective` ("all_reduce") takes `algorithm` ("ring") for data of as many bytes to the
 * next lower power of two and for types of this class. bytes: of the whole data, see docs/algorithms.md.
 * What CCORE_ALGO names is not changed. Collective; different arguments are CC_ERROR_DESYNC. */
CC_API cc_result cc_tuner_set(cc_comm* comm, const char* collective, size_t bytes, cc_dtype dtype,
                              const char* algorithm);

#ifdef __cplusplus
}
#endif

#endif /* COLLECTIVE_CORE_COLLECTIVE_CORE_H_ */
