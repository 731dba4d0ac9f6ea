"""No output of a node can break the parsers: what they do not follow is ``unparsable``, and the rest still counts."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import facts_recorded as recorded
import pytest
from hostile_texts import VARIANTS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusterctl.facts import document, gather, probe
from clusterctl.facts.base import ReadStatus, Section, Sections, Unparsable
from clusterctl.facts.catalog import FRAGMENTS
from clusterctl.facts.drift import drift
from clusterctl.facts.model.host import RootAccess
from clusterctl.facts.subjects import network, session, ssh_mesh
from clusterctl.facts.subjects.clock import ClockExchange
from clusterctl.inventory.model import Node
from clusterctl.requirements.catalog import ALL
from clusterctl.requirements.fleet.view import Fleet
from clusterctl.requirements.judge import judge_node

WANTED = {"ssh_mesh": {"require": True}, "shared_dir": {"path": "/shared", "server": "b"}}
NAMES = tuple(fragment.name for fragment in FRAGMENTS)
STATUSES = st.sampled_from([0, 0, 0, 1, 2, 77, 124, 127, 137, -1, None])


def _recorded_texts() -> dict[str, list[str]]:
    texts: dict[str, list[str]] = {name: [""] for name in NAMES}
    for path in sorted(recorded.CASES.glob("*/*.txt")):
        for name, section in recorded.load(path).items():
            texts[name].append(section.text)
    return texts


TEXTS = _recorded_texts()


@st.composite
def damaged(draw: st.DrawFn, name: str) -> str:
    """Recorded output of this section, or another's, with a piece cut out, doubled or replaced."""
    text = draw(st.sampled_from(TEXTS[draw(st.sampled_from([name, name, name, *NAMES]))]))
    for _ in range(draw(st.integers(0, 3))):
        low = draw(st.integers(0, len(text)))
        high = draw(st.integers(low, min(len(text), low + 40)))
        text = (
            text[:low]
            + draw(st.sampled_from(["", text[low:high] * 2, "\n", "-1", "9" * 30, "\x00\xff", ":"]))
            + text[high:]
        )
    return text


@st.composite
def answers(draw: st.DrawFn) -> Sections:
    sections = Sections()
    for name in NAMES:
        if draw(st.integers(0, 9)) == 0:
            continue
        text = draw(st.one_of(damaged(name), st.text(max_size=200), damaged(name)))
        sections[name] = Section(
            name, text, draw(STATUSES), draw(st.sampled_from(["", "sh: 1: x: not found"]))
        )
    return sections


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(answers(), st.booleans())
def test_no_output_breaks_the_parsers(sections: Sections, timed: bool) -> None:
    facts = gather.facts_from(
        "node",
        sections,
        RootAccess(0, "root"),
        gathered_at=1.0,
        duration_s=1.0,
        exchange=ClockExchange(1.0, 2.0, 3.0) if timed else None,
    )
    assert document.from_document(document.to_document(facts)) == facts


@pytest.mark.parametrize("number", ["²", "9" * 309, "9" * 400, "9" * 5000, "1e999", "--5", "x", ""])
@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("ssh_mesh", "login root 0 /root\nown {} /root/.ssh/authorized_keys\nalone {}\nsshd port {}"),
        ("ssh_mesh", "login root {} /root\n-rw-r--r-- 1 {} {} 5 Jan 1 1970 /root"),
        ("nfs", "threads {}"),
        ("system", "/proc/sys/kernel/osrelease:{}.{}"),
        (
            "rdma",
            "mlx5_0/node_guid:1\nmlx5_0/ports/{}/state:4: ACTIVE\nmlx5_0/ports/1/counters/link_downed:{}",
        ),
        ("memory", "/proc/meminfo:MemTotal: {} kB\n/proc/meminfo:MemAvailable: {} kB"),
        ("gpu_nvlink", "GPU 0: a (UUID: b)\n\t Link 0: {} GB/s"),
        (
            "docker",
            '{{"ServerVersion": "27", "ContainersRunning": {}}}'.replace("{{", "{").replace("}}", "}"),
        ),
        ("nothing", "\n{nonce} end nothing {}\n\n{nonce} begin root -\n{} root\n\n{nonce} end root {}"),
    ],
)
def test_what_is_no_number_ends_no_check(name: str, line: str, number: str) -> None:
    """A node that prints such things is judged, and held against the others, as far as it is understood."""
    nonce = "0c" * 16
    said = line.replace("{nonce}", nonce).replace("{}", number)
    answer = probe.split(
        f"\n{nonce} begin {name} -\n{said}\n\n{nonce} end {name} 0\n\n{nonce} done 1\n", nonce
    )
    strange = gather.facts_from("a", answer.sections, answer.root, gathered_at=1.0, duration_s=1.0)
    nodes = [Node(name=name, address=name, requirements=WANTED) for name in ("a", "b")]
    fleet = Fleet(tuple(nodes), {"a": strange, "b": replace(strange, name="b")})
    assert len(judge_node(strange, nodes[0], fleet=fleet)) == len(ALL)
    assert drift(fleet.facts, nodes) == ()


def test_own_texts_are_measured_in_bytes_as_the_shell_does() -> None:
    text = "login root 0 /root\nown 8 /a\nf\u00fcr you\nown 2 /b\nok\ntool ssh\n"
    mesh = ssh_mesh.parse(Sections({"ssh_mesh": Section("ssh_mesh", text)}))
    assert [(own.path, own.text) for own in mesh.own] == [("/a", "f\u00fcr you\n"), ("/b", "ok\n")]
    assert mesh.tools == ("ssh",)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300), st.text(alphabet="\n abeginddone0123 -", max_size=200))
def test_no_output_breaks_the_splitting(noise: str, inside: str) -> None:
    nonce = "f0" * 16
    output = f"{noise}\n{nonce} begin system -\n{inside}\n{nonce} end system 0\n\n\n{nonce} done 12.5\n"
    answer = probe.split(output, nonce)
    assert answer.sections["system"].text == inside
    assert answer.uptime_end_s == 12.5
    assert answer.root.way == "none"


@pytest.mark.parametrize(
    "body",
    [
        "{0} begin root ²\n0 root\n{0} end root 0",
        "{0} begin root 10\n0 root\n{0} end root ²",
        "{0} begin root 10\n0 root\n{0} end root --5",
        "{0} begin root 10\n0 root\n{0} end root " + "1" * 5000,
        "{0} begin root 10\n² root\n{0} end root 0",
    ],
)
def test_what_only_looks_like_a_number_does_not_end_the_run_of_all_nodes(body: str) -> None:
    nonce = "f0" * 16
    assert probe.split(f"\n{body.format(nonce)}\n{nonce} done 1\n", nonce).uptime_end_s == 1.0


@pytest.mark.parametrize("fragment", FRAGMENTS, ids=lambda fragment: fragment.name)
def test_garbage_never_becomes_a_value(fragment: probe.Fragment) -> None:
    """A section that holds nothing of its kind yields no value of its own anywhere."""
    garbage = Sections({fragment.name: Section(fragment.name, "%% garbage %%\n")})
    facts = gather.facts_from("n", garbage, RootAccess(0, "root"), gathered_at=0.0, duration_s=0.0)
    quiet = gather.facts_from("n", Sections(), RootAccess(0, "root"), gathered_at=0.0, duration_s=0.0)
    found = _values(document.to_document(facts))
    # A list of which no line is known is an empty list there; anything else would be an invention.
    allowed = {
        "docker": {"docker.daemon_config"},
        "cpu": {"cpu.numa_nodes"},
        "module_license": {"gpu.module_license"},
    }
    assert found - _values(document.to_document(quiet)) <= allowed.get(fragment.name, set())


def _values(value: object, place: str = "") -> set[str]:
    if isinstance(value, dict):
        if {"value", "status", "detail"} == set(value):
            return {place} if value["status"] == ReadStatus.OK.value else set()
        return {found for key, item in value.items() for found in _values(item, f"{place}.{key}".lstrip("."))}
    return set()


def test_a_cut_section_says_so() -> None:
    nonce = "0a" * 16
    body = "GPU 0: x\n" * 10
    limit = len(body)
    # The program died of the closed pipe: no exit status was printed.
    output = f"\n{nonce} begin gpu_nvlink {limit}\n{body}\n{nonce} end gpu_nvlink \n\n\n{nonce} done 1\n"
    section = probe.split(output, nonce).sections["gpu_nvlink"]
    assert section.cut
    assert section.status is ReadStatus.OK
    assert section.read(lambda text: text).detail == "the output was cut"


def test_errors_that_come_last_belong_to_their_sections() -> None:
    nonce = "0b" * 16
    ends = "".join(
        f"\n{nonce} begin {name} -\n\n{nonce} end {name} {status}\n"
        for name, status in (("clock", 1), ("limits", 0), ("mounts", 2))
    )
    errors = (
        f"\n{nonce} err clock\ndate: broken\nand more\n\n{nonce} err limits\n\n{nonce} err mounts\n{'x' * 9000}"
        f"\n{nonce} err stranger\nnobody asked\n\n{nonce} err\n"
    )
    sections = probe.split(f"{ends}{errors}\n\n{nonce} done 1\n", nonce).sections
    assert sections["clock"].error == "date: broken\nand more"
    assert sections["limits"].error == ""
    assert sections["mounts"].error == "x" * 4000
    assert sections["stranger"].exit_status is None


def test_every_fragment_is_named_once_and_quotes_its_reason() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert all(re.fullmatch(r"[a-z_]+", name) for name in NAMES)
    assert all(bool(fragment.needs) == bool(fragment.missing) for fragment in FRAGMENTS)


def _no_addresses() -> list[str]:
    """Words that are not an address: options, shell, other spellings of numbers, and changed addresses."""
    found = [
        "-p;id",
        "--help",
        "-",
        "node1",
        "10.0.0.1;id",
        "10.0.0.010",
        "fe80::1%$(id)",
        "localhost",
        "*",
        "::g",
    ]
    found += [
        "0x7f000001",
        "2130706433",
        "127.1",
        "10.0.0.256",
        "10.0.0",
        "10.0.0.1.",
        "1e3.0.0.1",
        "[::1]",
        ":::",
    ]
    found += [
        "10.0.0.1:22",
        "ops@10.0.0.1",
        "10.0.0.1,10.0.0.2",
        "10.0.0.-1",
        "+10.0.0.1",
        "\u0661\u0660.0.0.1",
    ]
    found += ["10\uff0e0\uff0e0\uff0e1", "::1%", "::1%a;b", "::1%a%b", "10.0.0.1%eth0", "1" * 5000]
    found += [":" * 5000, "::1%" + "x" * 5000]
    chance = random.Random(30)
    while len(found) < VARIANTS:
        word = chance.choice(("10.0.0.1", "fe80::1", "fe80::1%eth0", "::ffff:10.0.0.1"))
        at = chance.randrange(len(word) + 1)
        foreign = chance.choice(
            (*";$`'\"\\|&<>()*?~#!@,=[]{}", "$(id)", "--", "\x00", "\x1b", "\u202e", "\u200b", "\u00e9")
        )
        found.append(word[:at] + foreign + word[at:])
    return found


@pytest.mark.parametrize("word", _no_addresses(), ids=lambda word: ascii(word)[:40])
def test_only_an_ip_address_passes_as_a_nodes_address(word: str) -> None:
    """Programs get it as an argument."""
    with pytest.raises(Unparsable):
        session.parse_accepted(f"10.0.0.9 5000 {word} 22")
    with pytest.raises(Unparsable):
        network.parse_addresses(f"2: ib0    inet {word}/16 scope global\n")


@pytest.mark.parametrize("word", ["10.0.0.1", "fe80::1", "fe80::1%ib0.5", "::ffff:10.0.0.1"])
def test_an_address_of_a_node_is_read(word: str) -> None:
    assert session.parse_accepted(f"10.0.0.9 5000 {word} 22").address == word
    assert network.parse_addresses(f"2: ib0    inet {word}/16 scope global\n") == {"ib0": (f"{word}/16",)}
