# Makes a node ready to pass an archive on. Variables stand above this text; answers are "name<TAB>value" lines.
say() { printf '%s\t%s\n' "$1" "$2"; }
umask 077
base=/var/tmp/clusterctl-images-$(id -u)
if ! mkdir "$base" 2>/dev/null && ! { [ -d "$base" ] && [ -O "$base" ] && [ ! -L "$base" ]; }; then
  say fault "cannot make $base"
  exit 0
fi
work=$base/$TOKEN
mkdir "$work" || { say fault "cannot make $work"; exit 0; }
# What a distribution that was never repeated left.
find "$base" -name "*.part" -mtime +7 -exec rm -f {} + 2>/dev/null
say base "$base"
say user "$(id -un)"
say connection "${SSH_CONNECTION:-}"
if [ -n "$INTERFACE" ]; then
  say interface_address "$(ip -o -4 addr show dev "$INTERFACE" 2>/dev/null | sed -n 's/.* inet \([0-9.]*\).*/\1/p' | head -n 1)"
fi
zstd --version >/dev/null 2>&1 && say zstd yes
if command -v ssh >/dev/null 2>&1 && ssh-keygen -q -t ed25519 -N '' -C "clusterctl-$TOKEN" -f "$work/key" </dev/null 2>/dev/null; then
  say key "$(cut -d ' ' -f 1,2 "$work/key.pub")"
fi
for file in /etc/ssh/ssh_host_*_key.pub; do
  [ -r "$file" ] && say host_key "$(cut -d ' ' -f 1,2 "$file" | head -n 1)"
done
say free_spool "$(df -Pk "$base" | awk 'NR == 2 {print $4}')"
say free_docker "$(df -Pk "$DOCKER_ROOT" 2>/dev/null | awk 'NR == 2 {print $4}')"
say spool_device "$(df -Pk "$base" | awk 'NR == 2 {print $1}')"
say docker_device "$(df -Pk "$DOCKER_ROOT" 2>/dev/null | awk 'NR == 2 {print $1}')"
say end ok
