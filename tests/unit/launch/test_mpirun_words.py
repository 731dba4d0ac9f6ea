"""mpirun's line: what is refused, and what Open MPI would misread is said differently."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterctl.artifacts import shell
from clusterctl.errors import ArtifactError
from clusterctl.inventory import interfaces
from clusterctl.launch.launchers.openmpi import mpirun_argv

TWO = (("gpu1", 8), ("gpu2", 8))


def pair(argv: tuple[str, ...], key: str) -> str | None:
    """The value of an -mca parameter."""
    return argv[argv.index(key) + 1] if key in argv else None


def test_the_line_of_a_launch_with_everything() -> None:
    argv = mpirun_argv(
        np=4,
        program=("./run", "-x"),
        hosts=(("a", 2), ("b", 2)),
        hostfile="/run/hosts",
        env={"A": "1 2", "PATH": None},
        interfaces=interfaces.parse("eth0"),
        mpirun="/opt/mpirun",
        ssh_agent=("ssh", "-F", "/run/ssh_config"),
        tree_spawn=False,
        output="tagged",
        extra=("--timeout", "60"),
    )
    assert argv == (
        *("/opt/mpirun", "-np", "4", "-hostfile", "/run/hosts", "--allow-run-as-root"),
        *("-bind-to", "none", "-map-by", "slot", "--tag-output", "-x", "A=1 2", "-x", "PATH"),
        *("-mca", "pml", "ob1", "-mca", "btl_tcp_if_include", "eth0", "-mca", "oob_tcp_if_include", "eth0"),
        *("-mca", "btl", "^openib", "-mca", "plm_rsh_agent", "ssh -F /run/ssh_config"),
        *("-mca", "plm_rsh_no_tree_spawn", "1", "--timeout", "60", "./run", "-x"),
    )


def test_more_ranks_than_slots_says_how_many_there_are() -> None:
    with pytest.raises(ArtifactError) as caught:
        mpirun_argv(np=17, program=("x",), hosts=TWO)
    assert caught.value.message == "-np asks for 17 ranks, but gpu[1-2] has 16 slots"
    assert caught.value.exit_code == 9
    with pytest.raises(ArtifactError):
        mpirun_argv(np=17, program=("x",), hosts=TWO, hostfile="hosts")


@pytest.mark.parametrize(
    ("selector", "btl", "oob"),
    [
        ("bond0", ("btl_tcp_if_include", "bond0"), ("oob_tcp_if_include", "bond0")),
        ("=eth0,eth1", ("btl_tcp_if_include", "eth0,eth1"), ("oob_tcp_if_include", "eth0,eth1")),
        ("^docker0", ("btl_tcp_if_exclude", "docker0,lo"), ("oob_tcp_if_exclude", "docker0,lo")),
        ("^=docker0,lo", ("btl_tcp_if_exclude", "docker0,lo"), ("oob_tcp_if_exclude", "docker0,lo")),
    ],
)
def test_the_selector_of_nccl_becomes_that_of_open_mpi(
    selector: str, btl: tuple[str, str], oob: tuple[str, str]
) -> None:
    argv = mpirun_argv(np=1, program=("x",), interfaces=interfaces.parse(selector))
    assert pair(argv, btl[0]) == btl[1]
    assert pair(argv, oob[0]) == oob[1]
    assert oob[0] not in mpirun_argv(
        np=1, program=("x",), interfaces=interfaces.parse(selector), oob_interface=False
    )


def test_names_with_a_domain_are_kept_whole() -> None:
    def keeps(host: str) -> bool:
        return "orte_keep_fqdn_hostnames" in mpirun_argv(np=1, program=("x",), hosts=((host, 1),))

    assert keeps("gpu1.example.org")
    assert not keeps("gpu1")
    assert not keeps("10.0.0.1")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"np": 0}, "-np must be at least 1"),
        ({"program": ()}, "no program to run"),
        ({"program": ("-x",)}, "no program to run"),
        ({"hosts": (("a_b", 1),)}, "rejects the host name 'a_b'"),
        ({"hosts": (("-x", 1),)}, "rejects the host name '-x'"),
        ({"hosts": (("fe80::1", 1),)}, "rejects the host name"),
        ({"hosts": (("a", 0),)}, "a has 0 slots"),
        ({"hosts": (("a", 1), ("a", 1))}, "duplicate host"),
        ({"env": {"A B": "1"}}, "'A B' is not a valid name"),
        ({"env": {"A": "1\n2"}}, "A contains a line break"),
        ({"ssh_agent": ("ssh", "-F", "/my keys/config")}, "cannot be part of Open MPI"),
        ({"ssh_agent": ("ssh", "-o", "A:B")}, "cannot be part of Open MPI"),
        ({"hostfile": "-x"}, "hostfile's path"),
        ({"hostfile": ""}, "hostfile's path"),
    ],
)
def test_is_refused(settings: dict, reason: str) -> None:
    with pytest.raises(ArtifactError) as caught:
        mpirun_argv(**{"np": 1, "program": ("x",), **settings})
    assert reason in caught.value.message


@given(
    st.lists(st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=("Cs",))), min_size=1)
)
def test_a_line_splits_into_its_words(words: list[str]) -> None:
    assert shlex.split(shell.line(words)) == words


@pytest.mark.parametrize("word", ["^openib", "a^b", "A=1", "x/y:z", "-x", "a,b", "50%"])
def test_plain_words_are_not_quoted(word: str) -> None:
    assert shell.line(["x", word]) == f"x {word}"


@pytest.mark.parametrize("word", ["", "a b", "$HOME", "`x`", "a;b", "~", "*", "^$x", "#x", "a\nb", "é"])
def test_other_words_are_quoted(word: str) -> None:
    assert shell.line([word]) != word
