# Probes one node for what a launch needs. Variables are set above this text; answers are "name<TAB>value" lines. Runs on a
# POSIX sh; anything missing on the node produces no line.
say() { printf '%s\t%s\n' "$1" "$2"; }

# The directory may exist and be ours: nodes may share a file system, and the name is random.
umask 077
if ! mkdir "$DIRECTORY" 2>/dev/null && ! [ -O "$DIRECTORY" ]; then
  say fault "cannot make $DIRECTORY"
fi
[ -z "$LEASE" ] || printf '%s\n' "$LEASE" >"$DIRECTORY/lease"
say host "$(uname -n)"
say uid "$(id -u)"
say ssh "${SSH_CONNECTION:-}"
# nproc prints OMP_NUM_THREADS if it is set, and login shells of many sites set it to 1.
say cores "$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null)"
say cpu_model "$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1)"
say gpus "$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')"

if [ -n "$INTERFACE" ]; then
  if [ -d "/sys/class/net/$INTERFACE" ]; then
    say interface "$INTERFACE"
    say interface_address "$(ip -o -4 addr show dev "$INTERFACE" 2>/dev/null | sed -n 's/.* inet \([0-9.]*\).*/\1/p' | head -n 1)"
  fi
  say interfaces "$(ls /sys/class/net 2>/dev/null | tr '\n' ' ')"
fi

# Links between GPUs and between nodes: the first GPU's NVLinks (GB/s), the links between each pair, active RDMA ports (Gb/s).
if command -v nvidia-smi >/dev/null 2>&1; then
  gpu_name=$(nvidia-smi -L 2>/dev/null | sed -n '1s/^GPU 0: \(.*\) (UUID.*/\1/p')
  say gpu_name "$gpu_name"
  say nvlinks "$(nvidia-smi nvlink -s -i 0 2>/dev/null | sed -n 's/.*Link [0-9]*: \([0-9.]*\) GB\/s.*/\1/p' | tr '\n' ' ')"
  say nvlink_pairs "$(nvidia-smi topo -m 2>/dev/null | grep 'GPU[0-9]' | tr -s '\t ' '\n' | sed -n 's/^NV\([0-9][0-9]*\)$/\1/p' | tr '\n' ' ')"
fi
# Boards with B100, B200 or B300 manage their NVLink switches through four functions of one ConnectX-7, which look like active
# InfiniBand ports (facts/rdma.py). Only root can identify them for certain; no other ConnectX-7 has four such functions.
card_of() { card=$(readlink -f "/sys/class/infiniband/$1/device") && printf '%s\n' "${card%.*}"; }
for_switches=
case ${gpu_name:-} in *B100*|*B200*|*B300*)
  for_switches=$(
    for layer in /sys/class/infiniband/*/ports/1/link_layer; do
      device=${layer#/sys/class/infiniband/}; device=${device%%/*}
      kind=$(cat "$layer" "/sys/class/infiniband/$device/device/device" 2>/dev/null | tr '\n' ' ')
      [ "$kind" != "InfiniBand 0x1021 " ] || card_of "$device"
    done | sort | uniq -c | sed -n 's/^ *4 //p' | tr '\n' ' ') ;;
esac
# EC2 has no InfiniBand network: an InfiniBand port there leads to the NVLink switches of a P6-B200, with fewer functions.
vendor=$(cat /sys/class/dmi/id/sys_vendor 2>/dev/null)
[ "$vendor" != "Amazon EC2" ] || say ec2_machine "$(cat /sys/class/dmi/id/product_name 2>/dev/null)"
for port in /sys/class/infiniband/*/ports/*; do
  case $(cat "$port/state" 2>/dev/null) in
    *ACTIVE*) device=${port#/sys/class/infiniband/}; device=${device%%/*}
      case " $for_switches" in *" $(card_of "$device") "*) continue ;; esac
      [ "$vendor $(cat "$port/link_layer" 2>/dev/null)" != "Amazon EC2 InfiniBand" ] || continue
      say rdma_port "$device ${port##*/} $(cut -d ' ' -f 1 "$port/rate" 2>/dev/null)" ;;
  esac
done
[ -e /sys/module/nvidia_peermem ] && say peer_memory nvidia_peermem
{ [ -e /sys/kernel/mm/memory_peers/nv_mem ] || [ -e /sys/kernel/mm/memory_peers/nv_mem_nc ]; } && say peer_memory nv_peer_mem
say memlock "$(ulimit -l 2>/dev/null)"
say links asked

find_program() {
  for name in "$@"; do
    case $name in
      */*) if [ -x "$name" ]; then printf '%s' "$name"; return; fi ;;
      *) if command -v "$name" >/dev/null 2>&1; then command -v "$name"; return; fi ;;
    esac
  done
}
if [ -n "$MPIRUN" ]; then
  mpirun=$(find_program "$MPIRUN")
else
  mpirun=$(find_program mpirun /usr/local/openmpi/bin/mpirun /usr/local/mpi/bin/mpirun /opt/hpcx/ompi/bin/mpirun \
    /usr/mpi/gcc/openmpi-*/bin/mpirun /usr/lib64/openmpi/bin/mpirun)
fi
version_of() { "$1" --version 2>/dev/null </dev/null | head -n 3 | tr -s '\n\t ' ' '; }
if [ -n "$mpirun" ]; then
  say mpirun "$mpirun"
  say mpirun_version "$(version_of "$mpirun")"
fi
# MPICH installed beside another MPI, under the names that distributions use.
if [ -z "$MPIRUN" ]; then
  hydra=$(find_program mpiexec.hydra mpiexec.mpich /usr/lib64/mpich/bin/mpiexec /usr/local/mpich/bin/mpiexec)
  if [ -n "$hydra" ]; then
    say hydra "$hydra"
    say hydra_version "$(version_of "$hydra")"
  fi
fi
srun=$(find_program srun)
if [ -n "$srun" ]; then
  say srun "$srun"
  say slurm_nodes "$(timeout 15 sinfo -h -N -o %N 2>/dev/null </dev/null | sort -u | tr '\n' ' ')"
fi
if [ -n "$PERF" ]; then
  say perf "$(find_program "$PERF")"
else
  say perf "$(find_program "$PROGRAM" "${PROGRAM}_mpi")"
fi

# Listening ports in hexadecimal, so that the ranks' rendezvous gets a free port.
say ports "$(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | sed -n 's/^ *[0-9]*: [0-9A-F]*:\([0-9A-F]*\) [0-9A-F]*:[0-9A-F]* 0A .*/\1/p' | tr '\n' ' ')"

for key in /etc/ssh/ssh_host_*_key.pub; do
  [ -r "$key" ] && say host_key "$(cut -d ' ' -f 1,2 "$key" | head -n 1)"
done
case $IDENTITY in "~/"*) IDENTITY=$HOME/${IDENTITY#"~/"} ;; esac
[ -n "$IDENTITY" ] && [ -r "$IDENTITY" ] && say identity "$IDENTITY"
[ -n "$KNOWN_HOSTS" ] && [ -r "$KNOWN_HOSTS" ] && say known_hosts "$KNOWN_HOSTS"

python=$(find_program "$PYTHON")
if [ -n "$python" ]; then
  say python "$python"
  "$python" - "$PROGRAM" <<'PYTHON_END' 2>/dev/null
import importlib.metadata as metadata
import importlib.util as util
import platform
import sys

print("python_version\t" + platform.python_version())
try:
    print("torch\t" + metadata.version("torch"))
except metadata.PackageNotFoundError:
    pass
# A directory of that name that is not the package yields a spec without an origin.
core = util.find_spec("collective_core")
if core is not None and core.origin is not None:
    import collective_core

    try:
        print("core_perf\t" + str(collective_core.perf_binary(sys.argv[1])))
    except (AttributeError, OSError):
        pass
PYTHON_END
fi
say end ok
