"""The command line of Open MPI 4's mpirun: explicit hosts, interfaces and environment."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from clusterctl.errors import ArtifactError
from clusterctl.inventory import nodeset

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
_IPV4 = re.compile(r"[0-9]+(\.[0-9]+){3}")


def mpirun_argv(
    *,
    np: int,
    program: Sequence[str],
    hosts: Sequence[tuple[str, int]] = (),
    hostfile: str | None = None,
    env: Mapping[str, str | None] | None = None,
    tcp_interface: str | None = None,
    mpirun: str = "mpirun",
    allow_root: bool = True,
    ssh_agent: Sequence[str] | None = None,
    tree_spawn: bool = True,
    oob_interface: bool = True,
    pml: str | None = "ob1",
    btl: str | None = "^openib",
    bind_to: str = "none",
    map_by: str = "slot",
    working_directory: str | None = None,
    output_directory: str | None = None,
    tag_output: bool = False,
    extra: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the words that start ``np`` ranks of ``program`` under Open MPI 4.

    ``hosts`` are (name, slots) in the order ranks fill them; none: this machine only. With ``hostfile`` (a
    path where mpirun runs) they are only counted. A variable whose value is None is forwarded from mpirun's
    own environment. ``tcp_interface`` is NCCL_SOCKET_IFNAME's value; ``oob_interface`` holds mpirun's own
    connections to it too. ``ssh_agent`` is the remote shell, such as ``("ssh", "-F", path)``; without
    ``tree_spawn`` mpirun itself opens every connection, so that nodes need no way to each other.
    ``output_directory`` keeps each rank's output apart. ``extra`` stands right before the program.
    Raise ArtifactError for settings that contradict each other, or that Open MPI would misread.
    """
    _check(np, program, hosts)
    argv = [mpirun, "-np", str(np)]
    if hostfile is not None:
        argv += ["-hostfile", _word("the hostfile's path", hostfile)]
    elif hosts:
        argv += ["-H", ",".join(f"{name}:{slots}" for name, slots in hosts)]
    if allow_root:
        argv.append("--allow-run-as-root")
    argv += ["-bind-to", bind_to, "-map-by", map_by]
    if working_directory is not None:
        argv += ["-wdir", _word("the working directory", working_directory)]
    if output_directory is not None:
        argv += ["--output-filename", _word("the output directory", output_directory)]
    if tag_output:
        argv.append("--tag-output")
    for name, value in (env or {}).items():
        argv += ["-x", _variable(name, value)]
    if pml is not None:
        argv += ["-mca", "pml", pml]
    argv += _interfaces(tcp_interface, oob_interface)
    if btl is not None:
        argv += ["-mca", "btl", btl]
    if ssh_agent:
        argv += ["-mca", "plm_rsh_agent", _agent(ssh_agent)]
    if not tree_spawn:
        argv += ["-mca", "plm_rsh_no_tree_spawn", "1"]
    if any("." in name and not _IPV4.fullmatch(name) for name, _ in hosts):
        # Open MPI 4 cuts names at the first dot and would connect to gpu1 for gpu1.example.org.
        argv += ["-mca", "orte_keep_fqdn_hostnames", "1"]
    return (*argv, *extra, *program)


def _check(np: int, program: Sequence[str], hosts: Sequence[tuple[str, int]]) -> None:
    if np < 1:
        raise ArtifactError(f"{np} ranks cannot be started", hint="ask for at least one with -np")
    if not program or not program[0] or program[0].startswith("-"):
        raise ArtifactError("mpirun needs a program to start", hint="name it after '--', or use --model")
    names = [name for name, _ in hosts]
    for name, slots in hosts:
        if not _HOST.fullmatch(name):
            raise ArtifactError(
                f"Open MPI does not take {name!r} as a host: only letters, digits, '.' and '-'",
                hint="rename the node in the inventory and give its address there",
            )
        if slots < 1:
            raise ArtifactError(f"{name} has {slots} slots", hint="leave the node out, or give it slots")
    if len(set(names)) < len(names):
        raise ArtifactError(
            f"a host is given twice: {nodeset.fold(sorted(names))}", hint="name each host once"
        )
    total = sum(slots for _, slots in hosts)
    if hosts and np > total:
        raise ArtifactError(
            f"{np} ranks were asked for, but {nodeset.fold(names)} has {total} slots",
            hint=f"ask for at most {total} with -np, or set 'slots' (or 'gpus') in the inventory",
        )


def _variable(name: str, value: str | None) -> str:
    if not _VARIABLE.fullmatch(name):
        raise ArtifactError(f"{name!r} is not the name of an environment variable")
    if value is None:
        return name
    if "\n" in value or "\0" in value:
        raise ArtifactError(f"the variable {name} holds a line break, which mpirun -x cannot pass on")
    return f"{name}={value}"


def _interfaces(selector: str | None, oob: bool) -> list[str]:
    """Translate NCCL's selector: '^' excludes; '=' (exact) is how Open MPI matches anyway."""
    if selector is None:
        return []
    names = selector.lstrip("^=")
    mode = "include"
    if selector.startswith("^"):
        mode = "exclude"
        # An exclusion replaces Open MPI's own default, which keeps ranks off the loopback interface.
        names = names if "lo" in names.split(",") else f"{names},lo"
    words = ["-mca", f"btl_tcp_if_{mode}", names]
    return [*words, "-mca", f"oob_tcp_if_{mode}", names] if oob else words


def _agent(agent: Sequence[str]) -> str:
    for word in agent:
        if not word or any(character.isspace() or character in "\"':" for character in word):
            raise ArtifactError(
                f"Open MPI splits its remote shell at spaces and ':' and cannot be given {word!r}",
                hint="put the files that it names at paths without spaces and colons",
            )
    return " ".join(agent)


def _word(what: str, text: str) -> str:
    if not text or text.startswith("-"):
        raise ArtifactError(f"{what} cannot be {text!r}")
    return text
