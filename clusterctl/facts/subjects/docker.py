"""Docker: its program, the engine's own report, its configuration, and CDI specifications."""

from __future__ import annotations

import re
import shlex
from typing import Any

from clusterctl.facts.base import (
    Fragment,
    Reading,
    ReadStatus,
    Section,
    Sections,
    Unparsable,
    absent,
    path_lines,
)
from clusterctl.facts.model.services import Docker, DockerEngine
from clusterctl.text.foreign import json_value
from clusterctl.text.grouping import by_first_word

_SOCKET = "/var/run/docker.sock"
# The engine's API returns the same document as `docker info` at a tenth of the cost, because the program and its
# plugins are not started. curl is installed on most nodes.
_ASK = (
    "T=; if command -v timeout >/dev/null 2>&1; then T='timeout -s KILL 20'; fi; "
    "if command -v curl >/dev/null 2>&1; "
    f"then curl -sS --max-time 15 --unix-socket {_SOCKET} http://localhost/info; "
    "else $T docker info --format '{{json .}}'; fi"
)
_PID = "/var/run/docker.pid"
_DAEMON = "/etc/docker/daemon.json"
_SPECS = " ".join(
    f"{folder}/*.{kind}" for folder in ("/etc/cdi", "/var/run/cdi") for kind in ("yaml", "json")
)
# The device nodes of a specification and their majors, which the kernel gives when it loads a module.
_NODES = '(^|[^A-Za-z])path"?: *"?/dev/[^", ]+|(^|[^A-Za-z])major"?: *[0-9]+'
_FILES = f"""\
LC_ALL=C; export LC_ALL
set --
for f in {_SPECS}; do [ -e "$f" ] && {{ echo "file $f"; set -- "$@" "$f"; }}; done
[ ! -e {_DAEMON} ] || {{ echo "file {_DAEMON}"; ls -lLd {_DAEMON}; grep -Hs "" {_DAEMON}; }}
[ $# -eq 0 ] || grep -HsoE '(^|[ {{,])"?kind"?: *"?[^",]+|libcuda[.]so[.][0-9.]+[0-9]|{_NODES}' "$@"
:"""

FRAGMENTS = (
    Fragment(
        "docker",
        # dockerd looks for the toolkit's hook only when it starts; the hook's ctime is its time of installation.
        f"""\
command -v docker >/dev/null 2>&1 && {{ printf 'binary '; command -v docker; }}
[ -S {_SOCKET} ] && echo "socket {_SOCKET}"
[ -w {_SOCKET} ] && echo "writable {_SOCKET}"
for f in /run/user/[0-9]*/docker.sock; do [ -S "$f" ] && echo "rootless $f"; done
sed -n 's/^ *\\([0-9]*\\) \\(nvidia-.*\\)$/major \\2 \\1/p' /proc/devices 2>/dev/null
h=$(command -v nvidia-container-runtime-hook 2>/dev/null) && [ -e {_PID} ] &&
  [ "$(find "$h" -newercm {_PID} 2>/dev/null)" ] && echo hook-came-later
return 0""",
    ),
    # Some sites let only root read daemon.json and its directory; toolkits before 1.13.2 did so with specifications.
    # A file that the account may not read is not a missing file, so root reads it, and only in that case.
    Fragment(
        "docker_files",
        f"""\
q={shlex.quote(_FILES)}
p=
for f in /etc/docker /etc/cdi /var/run/cdi; do
  if [ -d "$f" ] && ! {{ [ -r "$f" ] && [ -x "$f" ]; }}; then p="$p$f "; fi
done
for f in {_DAEMON} {_SPECS}; do
  if [ -e "$f" ] && [ ! -r "$f" ]; then p="$p$f "; fi
done
if [ "$p" ] && [ "$W" != none ]; then r "$q"; return; fi
eval "$q"
[ -z "$p" ] || {{ echo "hidden $p"; r :; }}""",
        needs="[ -d /etc/docker ] || [ -d /etc/cdi ] || [ -d /var/run/cdi ]",
        missing="neither docker nor CDI is configured here",
        root=True,
    ),
    Fragment(
        "container_toolkit",
        "t 15 nvidia-ctk --version",
        needs="command -v nvidia-ctk >/dev/null 2>&1",
        missing="nvidia-ctk is not installed",
        limit_bytes=4096,
    ),
    Fragment(
        "docker_info",
        f"""\
q={shlex.quote(_ASK)}
if [ -w {_SOCKET} ]; then eval "$q"; else r "$q"; fi""",
        needs=f"command -v docker >/dev/null 2>&1 || [ -S {_SOCKET} ]",
        missing="docker is not installed",
        works=f"[ -S {_SOCKET} ]",
        broken=f"the engine is not running ({_SOCKET} not found)",
        limit_bytes=1024 * 1024,
        root=True,
    ),
)


def _strings(value: Any) -> tuple[str, ...]:
    return tuple(str(item) for item in value) if isinstance(value, (list, dict)) else ()


def parse_engine(text: str) -> DockerEngine:
    """Parse ``docker info`` as JSON (the API's /info has the same fields); raise Unparsable for an error report."""
    document = json_value(text)
    if not isinstance(document, dict):
        raise Unparsable("docker info is not a JSON object")
    errors = _strings(document.get("ServerErrors"))
    if errors or not document.get("ServerVersion"):
        raise Unparsable("; ".join(errors) or f"no ServerVersion in docker info: {text[:160]!r}")
    return DockerEngine(
        server_version=str(document["ServerVersion"]),
        runtimes=tuple(sorted(_strings(document.get("Runtimes")))),
        default_runtime=str(document.get("DefaultRuntime") or ""),
        cdi_spec_dirs=_strings(document.get("CDISpecDirs")),
        cgroup_driver=str(document.get("CgroupDriver") or ""),
        storage_driver=str(document.get("Driver") or ""),
        root_dir=str(document.get("DockerRootDir") or ""),
        warnings=_strings(document.get("Warnings")),
        containers_running=running if isinstance(running := document.get("ContainersRunning"), int) else None,
        live_restore=document.get("LiveRestoreEnabled") is True,
    )


def parse_toolkit(text: str) -> str:
    """Parse ``nvidia-ctk --version`` ("NVIDIA Container Toolkit CLI version 1.17.8", then the commit)."""
    match = re.search(r"version:?\s+v?(\d+\.\d+\S*)", text)
    if match is None:
        raise Unparsable(f"no version of nvidia-ctk: {text[:160]!r}")
    return match[1]


def _unseen(section: Section, part: str) -> str:
    """Return why files below a directory with ``part`` in its path may exist unseen; empty if all were seen."""
    if section.status in (ReadStatus.OK, ReadStatus.EMPTY, ReadStatus.ABSENT):
        return ""
    hidden = re.findall(r"^hidden (.*)$", section.text, re.MULTILINE)
    return section.detail if not hidden or any(part in paths for paths in hidden) else ""


def _mode(text: str) -> int | None:
    """Return the permission bits of the first line of ``ls -l`` (``-rw-r-----``)."""
    found = re.search(r"^-([r-][w-][x-][r-][w-][x-][r-][w-][x-])\S? ", text, re.MULTILINE)
    return int("".join("0" if c == "-" else "1" for c in found[1]), 2) if found else None


def _daemon_config(texts: list[str], is_there: bool, section: Section) -> Reading[str]:
    if texts:
        return Reading("\n".join(texts))
    if _unseen(section, "/docker"):
        return Reading(None, section.status, section.detail)
    return Reading("") if is_there else absent(f"{_DAEMON} not found")


def _majors(lines: list[tuple[str, str]]) -> tuple[tuple[str, str, int], ...]:
    """Return file, device and major of the device nodes; a node's path stands before its major or behind it."""
    found: set[tuple[str, str, int]] = set()
    held: dict[str, tuple[str, str]] = {}
    for file, text in lines:
        words = re.findall(r'(path|major)"?: *"?([^", ]+)', text)
        if not words:
            continue
        kind, value = words[0]
        before = held.pop(file, None)
        if before is None or before[0] == kind:
            held[file] = kind, value
            continue
        device, major = (before[1], value) if kind == "major" else (value, before[1])
        if device.startswith("/dev/") and re.fullmatch("[0-9]{1,9}", major):
            found.add((file, device, int(major)))
    return tuple(sorted(found))


def _kernel_majors(words: list[str]) -> tuple[tuple[str, int], ...]:
    pairs = [line.split() for line in words]
    return tuple(sorted((p[0], int(p[1])) for p in pairs if len(p) == 2 and re.fullmatch("[0-9]{1,9}", p[1])))


def parse(sections: Sections) -> Docker:
    """Parse all sections."""
    private = sections["docker_files"]
    words = by_first_word(f"{sections['docker'].text}\n{private.text}")
    files = words.get("file", [])
    lines = path_lines(private.text)
    daemon = [text for path, text in lines if path == _DAEMON]
    of_specs = [(path, text) for path, text in lines if path in files and "/cdi/" in path]
    kinds = {text.partition(":")[2].strip(" \t,\"'") for _, text in of_specs if "kind" in text}
    libraries = {(path, text[len("libcuda.so.") :]) for path, text in of_specs if "libcuda.so." in text}
    return Docker(
        binary=next(iter(words.get("binary", [])), None),
        socket="socket" in words,
        user_access="writable" in words,
        engine=sections["docker_info"].read(parse_engine),
        daemon_config=_daemon_config(daemon, _DAEMON in files, private),
        cdi_specs=tuple(path for path in files if "/cdi/" in path),
        cdi_kinds=tuple(sorted(filter(None, kinds))),
        # A specification also names the link libcuda.so.1; a driver's version has at least two parts.
        cdi_drivers=tuple(sorted((path, version) for path, version in libraries if "." in version)),
        cdi_majors=_majors(of_specs),
        kernel_majors=_kernel_majors(words.get("major", [])),
        toolkit=sections["container_toolkit"].read(parse_toolkit),
        rootless=tuple(words.get("rootless", ())),
        cdi_unseen=_unseen(private, "/cdi"),
        daemon_mode=_mode(private.text),
        hook_came_later="hook-came-later" in words,
    )
