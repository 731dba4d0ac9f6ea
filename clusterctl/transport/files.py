"""Write and read files on a node with one command each, with the bytes on standard input or output."""

from __future__ import annotations

from clusterctl.errors import CommandError
from clusterctl.transport.base import Completed, Transport
from clusterctl.transport.exchange import MAX_OUTPUT_BYTES

_PATIENCE_S = 60.0
_SLOWEST_BYTES_PER_S = 128 * 1024
"""The lowest transfer rate that is tolerated before a timeout."""

# $1 path, $2 mode, $3 size. The size is compared because a lost connection ends standard input too. Such a loss also
# closes standard error, and SIGPIPE must not kill the shell before it has removed the temporary file.
_PUT = """umask 077
if [ -d "$1" ]; then echo "it is a directory" >&2; exit 1; fi
t=$1.clusterctl.$$
trap 'rm -f -- "$t"' EXIT
trap 'exit 1' HUP INT TERM
trap '' PIPE
cat > "$t" || exit 1
n=$(wc -c < "$t") || exit 1
if [ "$n" -ne "$3" ]; then echo "only $n of $3 bytes arrived" >&2; exit 1; fi
chmod "$2" "$t" && mv -f -- "$t" "$1\""""


def put_argv(path: str, mode: int, size_bytes: int) -> tuple[str, ...]:
    """Return the command that writes its standard input to a file atomically."""
    return ("sh", "-c", _PUT, "sh", _rooted(path), f"{mode:04o}", str(size_bytes))


def get_argv(path: str) -> tuple[str, ...]:
    """Return the command that writes a file to standard output."""
    return ("cat", "--", path)


def _rooted(path: str) -> str:
    return f"./{path}" if path.startswith("-") else path


def require(done: Completed, node: str, action: str, path: str) -> bytes:
    """Return the output of a file command; raise CommandError if it failed."""
    if done.returncode != 0:
        said = " ".join(done.error_text.split())[-300:] or f"status {done.returncode}"
        raise CommandError(
            f"{node}: {path} cannot be {action}: {said}",
            hint="check the path, its permissions and the free space",
        )
    return done.stdout


class ShellFiles:
    """Implements ``put`` and ``get`` of a transport with its own ``run``, one exec each."""

    def put(self: Transport, data: bytes, path: str, *, mode: int = 0o644, as_root: bool = False) -> None:
        """Write a file atomically; raise CommandError if it cannot be written.

        Raises TransportError if the transfer is slower than 128 KiB/s after the first minute.
        """
        patience_s = _PATIENCE_S + len(data) / _SLOWEST_BYTES_PER_S
        done = self.run(put_argv(path, mode, len(data)), stdin=data, timeout_s=patience_s, as_root=as_root)
        require(done, self.node, "written", path)

    def get(self: Transport, path: str, *, as_root: bool = False) -> bytes:
        """Return a file's bytes; raise CommandError if it cannot be read, and TransportError as for ``put``."""
        done = self.run(
            get_argv(path), timeout_s=_PATIENCE_S + MAX_OUTPUT_BYTES / _SLOWEST_BYTES_PER_S, as_root=as_root
        )
        return require(done, self.node, "read", path)
