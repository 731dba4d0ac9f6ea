# Probes a node for what a container needs. Variables are set above this text; answers are "name<TAB>value" lines.
say() { printf '%s\t%s\n' "$1" "$2"; }
say host "$(uname -n)"
say connection "${SSH_CONNECTION:-}"
if [ -n "$INTERFACE" ]; then
  say interface_address "$(ip -o -4 addr show dev "$INTERFACE" 2>/dev/null | sed -n 's/.* inet \([0-9.]*\).*/\1/p' | head -n 1)"
fi
# Listening ports in hexadecimal (proc(5)).
say ports "$(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | sed -n 's/^ *[0-9]*: [0-9A-F]*:\([0-9A-F]*\) [0-9A-F]*:[0-9A-F]* 0A .*/\1/p' | tr '\n' ' ')"
printf '%s' "$PATHS" | while IFS= read -r path; do
  [ -e "$path" ] || say absent "$path"
done
[ -f "$CLUSTER_FILE" ] && say cluster_file yes
[ -e /dev/nvidiactl ] && say gpus yes
# With this hook dockerd serves --gpus even without a runtime called nvidia (moby daemon/nvidia_linux.go).
command -v nvidia-container-runtime-hook >/dev/null 2>&1 && say gpu_hook yes
for folder in $CDI_DIRS; do
  grep -q -s 'nvidia.com/gpu' "$folder"/* && say cdi_spec yes && break
done
say end ok
