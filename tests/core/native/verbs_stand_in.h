// How a test drives verbs_stand_in.cc, which stands in for libibverbs among the threads of one process.
#pragma once

namespace test {

struct VerbsFaults {
  int fail_registration = 0;  // the n-th from now on, with ENOMEM
  int fail_send = 0;          // the n-th from now on completes with `status`
  int status = 0;             // ibv_wc_status
  int mtu = 5;                // IBV_MTU_* of the ports, when a device is asked
  bool refuse_inline = false;
  bool unreachable = false;   // no queue pair becomes ready to receive
  bool iwarp = false;
  bool no_device = false;
  bool port_down = false;     // writes end with retries exceeded, after an event
  const char* dropped = "";   // writes from the device of that name end with retries exceeded, without an event
  bool device_fatal = false;  // no write ends, after an event
  bool infiniband = false;    // ports have a LID
  bool two_devices = false;   // mlx5_0 and mlx5_10 instead of rxe0
  bool macvlan = false;       // above mlx5_0's interface and below mlx5_10: its address is in the tables of both
  bool other_subnet = false;  // of each device that is opened
  bool delayed = false;       // writes are carried out later, those of several queue pairs in random order
  int registrations = -1;     // so many more succeed; -1: all
};

// Exported by the stand-in; null: no faults. What `registered` and `queue_pairs` return is still allocated.
struct VerbsControl {
  void (*set)(const VerbsFaults* faults);
  int (*registered)();
  int (*queue_pairs)();
  int (*receives_missed)();  // writes that found no receive
  int (*events_open)();      // not yet read and acknowledged
  long (*most_pinned)();     // bytes that one open device has registered, the most since the last call
  // Bytes written since the last call from memory that only the device reads, and from that to which it may write.
  long (*sent_from_sources)();
  long (*sent_from_rings)();
  int (*overtaken)();  // messages that passed an earlier one of another queue pair, since the last call
  long (*written_by)(int device);  // bytes since the last call by mlx5_0 (0) or mlx5_10 (1)
  int (*fork_safe)();  // ibv_fork_init was called in time
};

}  // namespace test
