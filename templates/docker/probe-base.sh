# Says what a base image has, one "key value" a line; nothing for what it has not.
say() { [ -z "$2" ] || printf '%s %s\n' "$1" "$2"; }
if [ -r /etc/os-release ]; then
  say os "$(. /etc/os-release; printf %s "${PRETTY_NAME:-$ID}")"
  say ids "$(. /etc/os-release; printf %s "${ID:-} ${ID_LIKE:-}")"
fi
for file in /lib/ld-musl-*.so.1; do [ ! -e "$file" ] || say musl "$file"; done
for tool in apt-get dnf yum; do say manager "$(command -v $tool)"; done
say glibc "$(getconf GNU_LIBC_VERSION 2>/dev/null || ldd --version 2>/dev/null | sed -n '1s/.* //p')"
for file in /usr/lib/*-linux-gnu/libstdc++.so.6 /usr/lib64/libstdc++.so.6 /opt/conda/lib/libstdc++.so.6; do
  [ ! -r "$file" ] || grep -aoE 'GLIBCXX_[0-9.]+' "$file" | sed 's/^/glibcxx /' | sort -u
done
python=$(command -v python3 || command -v python)
if [ -n "$python" ]; then
  say python "$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)"
  say torch "$("$python" - 2>/dev/null <<'END'
from importlib.metadata import version
print(version("torch"))
END
)"
fi
say cuda "$CUDA_VERSION"
say mpirun "$(command -v mpirun)"
say all_reduce_perf "$(command -v all_reduce_perf || command -v all_reduce_perf_mpi)"
exit 0
