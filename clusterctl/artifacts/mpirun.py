"""Build the command line of Open MPI 4's mpirun: explicit hosts, interfaces and environment."""

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
    xml_output: bool = False,
    extra: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the words that start ``np`` ranks of ``program`` under Open MPI 4.

    ``hosts`` are (name, slots) in the order ranks fill them; empty: this machine only. With ``hostfile`` (a
    path where mpirun runs) they are only counted. A variable with value None is forwarded from mpirun's environment.
    ``tcp_interface`` is NCCL_SOCKET_IFNAME's value; ``oob_interface`` applies it to mpirun's own connections, too.
    ``ssh_agent`` is the remote shell, such as ``("ssh", "-F", path)``; without ``tree_spawn`` mpirun itself opens every
    connection, so nodes need no SSH to each other. ``output_directory`` separates the ranks' output; ``tag_output``
    precedes each line with the rank, for people to read; ``xml_output`` puts the ranks' output into elements, which
    ranks cannot forge. ``extra`` precedes the program.
    Raise ArtifactError for settings that contradict each other, or that Open MPI would misread.
    """
    check(np, program, hosts)
    argv = [mpirun, "-np", str(np)]
    if hostfile is not None:
        argv += ["-hostfile", plain_word("the hostfile's path", hostfile)]
    elif hosts:
        argv += ["-H", ",".join(f"{name}:{slots}" for name, slots in hosts)]
    if allow_root:
        argv.append("--allow-run-as-root")
    argv += ["-bind-to", bind_to, "-map-by", map_by]
    if working_directory is not None:
        argv += ["-wdir", plain_word("the working directory", working_directory)]
    if output_directory is not None:
        argv += ["--output-filename", plain_word("the output directory", output_directory)]
    if tag_output:
        argv.append("--tag-output")
    if xml_output:
        argv.append("--xml")
    for name, value in (env or {}).items():
        argv += ["-x", variable(name, value)]
    if pml is not None:
        argv += ["-mca", "pml", pml]
    argv += _interfaces(tcp_interface, oob_interface)
    if btl is not None:
        argv += ["-mca", "btl", btl]
    if ssh_agent:
        argv += ["-mca", "plm_rsh_agent", agent_words(ssh_agent)]
    if not tree_spawn:
        argv += ["-mca", "plm_rsh_no_tree_spawn", "1"]
    if dotted(hosts):
        # Open MPI 4 truncates names at the first dot and would connect to gpu1 instead of gpu1.example.org.
        argv += ["-mca", "orte_keep_fqdn_hostnames", "1"]
    return (*argv, *extra, *program)


def dotted(hosts: Sequence[tuple[str, int]]) -> bool:
    """Tell whether a host has a name with dots that is not an address."""
    return any("." in name and not _IPV4.fullmatch(name) for name, _ in hosts)


def check(np: int, program: Sequence[str], hosts: Sequence[tuple[str, int]]) -> None:
    """Raise ArtifactError if ranks, program and hosts are not a valid launch under Open MPI."""
    if np < 1:
        raise ArtifactError(f"-np must be at least 1, not {np}", hint="ask for at least one rank with -np")
    if not program or not program[0] or program[0].startswith("-"):
        raise ArtifactError("no program to run was given", hint="write it after '--', or use --model")
    names = [name for name, _ in hosts]
    for name, slots in hosts:
        if not _HOST.fullmatch(name):
            raise ArtifactError(
                f"Open MPI rejects the host name {name!r}: only letters, digits, '.' and '-' are allowed",
                hint="rename the node in the inventory and set its `address`",
            )
        if slots < 1:
            raise ArtifactError(f"{name} has {slots} slots", hint="exclude the node, or set its `slots`")
    if len(set(names)) < len(names):
        raise ArtifactError(f"duplicate host: {nodeset.fold(sorted(names))}", hint="list each host once")
    total = sum(slots for _, slots in hosts)
    if hosts and np > total:
        raise ArtifactError(
            f"-np asks for {np} ranks, but {nodeset.fold(names)} has {total} slots",
            hint=f"ask for at most {total} with -np, or set `slots` (or `gpus`) in the inventory",
        )


def variable(name: str, value: str | None) -> str:
    """Return the word after ``-x``; raise ArtifactError for a variable that ``-x`` cannot pass on."""
    if not _VARIABLE.fullmatch(name):
        raise ArtifactError(f"{name!r} is not a valid name of an environment variable")
    if value is None:
        return name
    if "\n" in value or "\0" in value:
        raise ArtifactError(f"variable {name} contains a line break, which mpirun -x cannot pass on")
    return f"{name}={value}"


def interface_words(selector: str | None) -> list[tuple[str, str, str]]:
    """Translate NCCL's selector to (``btl_tcp_if``, ``include`` or ``exclude``, names); none without a selector.

    '^' excludes; '=' (exact) is how Open MPI matches anyway.
    """
    if selector is None:
        return []
    names = selector.lstrip("^=")
    if not selector.startswith("^"):
        return [("btl_tcp_if", "include", names)]
    # An exclusion replaces Open MPI's own default, which keeps ranks off the loopback interface.
    return [("btl_tcp_if", "exclude", names if "lo" in names.split(",") else f"{names},lo")]


def _interfaces(selector: str | None, oob: bool) -> list[str]:
    words: list[str] = []
    for option, mode, names in interface_words(selector):
        words += ["-mca", f"{option}_{mode}", names]
        if oob:
            words += ["-mca", f"oob_tcp_if_{mode}", names]
    return words


def agent_words(agent: Sequence[str]) -> str:
    """Return the remote shell as one word for Open MPI; raise ArtifactError for words that it would split."""
    for word in agent:
        if not word or any(character.isspace() or character in "\"':" for character in word):
            raise ArtifactError(
                f"{word!r} cannot be part of Open MPI's remote shell, which is split at spaces and ':'",
                hint="move the files to paths without spaces and colons",
            )
    return " ".join(agent)


def plain_word(what: str, text: str) -> str:
    """Return the text if it is not empty and not an option; else raise ArtifactError."""
    if not text or text.startswith("-"):
        raise ArtifactError(f"{what} must not be {text!r}")
    return text
