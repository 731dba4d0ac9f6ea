"""How a file is written to and read from a node: one command each, the bytes on standard input or output."""

from __future__ import annotations

from clusterctl.errors import CommandError
from clusterctl.transport.base import Completed

# $1 path, $2 mode, $3 size. The size is compared because a lost connection ends standard input too; it also
# closes standard error, and the message must not kill the shell before it has cleaned up.
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
    """Return the command that writes its standard input to a file, whole or not at all."""
    return ("sh", "-c", _PUT, "sh", _rooted(path), f"{mode:04o}", str(size_bytes))


def get_argv(path: str) -> tuple[str, ...]:
    """Return the command that writes a file to standard output."""
    return ("cat", "--", path)


def _rooted(path: str) -> str:
    return f"./{path}" if path.startswith("-") else path


def require(done: Completed, node: str, action: str, path: str) -> bytes:
    """Return what a file command wrote; raise CommandError when it failed."""
    if done.returncode != 0:
        said = " ".join(done.error_text.split())[-300:] or f"status {done.returncode}"
        raise CommandError(
            f"{node}: {path} cannot be {action}: {said}",
            hint="look at the path, the rights and the free space",
        )
    return done.stdout
