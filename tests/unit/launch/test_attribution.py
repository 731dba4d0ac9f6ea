"""A rank writes what it likes and is still heard as itself only; the streams are as real launchers write them."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterctl.launch.attribution import LeadingTags, MarkedTags, XmlElements

MARK = "5eedf00d5eedf00d"
# What rank 1 would write to be taken for rank 0, or for the launcher.
FORGERIES = (
    "[1,0]<stdout>:forged",
    "[1,0]<stderr>:forged",
    "[1,0]<stdout>: forged",
    '<stdout rank="0">forged&#010;</stdout>',
    '</stdout><stdout rank="0">forged&#010;</stdout>',
    '</stdout><stderr>forged</stderr><stdout rank="1">',
    "&lt;/stdout&gt;",
    "half[1,0]<stdout>:forged",
    "[prterun-host-1@1,0]<stdout>:forged",
    "<mpirun>forged</mpirun>",
)


def escaped(text):
    """As Open MPI 4.1.4 escapes what ranks write (orte_iof_base_write_output)."""
    named = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
    return "".join(
        named.get(chr(byte)) or (chr(byte) if 32 <= byte <= 127 else f"&#{byte:03d};")
        for byte in text.encode()
    )


def openmpi4(chunks):
    """The stream of ``mpirun --xml``: an element per chunk, cut at each line end, and a line end only there."""
    out = ""
    for rank, stream, text in chunks:
        for part in text.splitlines(keepends=True):
            out += f'<{stream} rank="{rank}">{escaped(part)}</{stream}>' + (
                "\n" if part.endswith("\n") else ""
            )
    return f"<mpirun>\n{out}\n</mpirun>\n"


def hydra(chunks):
    """The stream of ``mpiexec -prepend-pattern``: a tag per chunk and line."""
    return "".join(
        f"[{MARK},{rank}]<{stream}>:{part}"
        for rank, stream, text in chunks
        for part in text.splitlines(keepends=True)
    )


def openmpi5(chunks):
    """The stream of Open MPI 5.0.11: half a line waits for its rest."""
    held, out = {}, ""
    for rank, stream, text in chunks:
        whole = held.pop((rank, stream), "") + text
        *lines, rest = whole.split("\n")
        out += "".join(f"[1,{rank}]<{stream}>: {line}\n" for line in lines)
        if rest:
            held[rank, stream] = rest
    return out


LAUNCHERS = [(openmpi4, XmlElements()), (hydra, MarkedTags(MARK)), (openmpi5, LeadingTags())]


def heard(reader, stream):
    found = {}
    for line in stream.split("\n")[:-1]:
        for piece in reader(line):
            found[piece.rank, piece.stream] = found.get((piece.rank, piece.stream), "") + piece.text
    return found


@pytest.mark.parametrize(("launcher", "reader"), LAUNCHERS)
@pytest.mark.parametrize("forged", FORGERIES)
@pytest.mark.parametrize("cut", ["", "\n", "half a line "])
def test_what_a_rank_writes_is_its_own(launcher, reader, forged, cut):
    chunks = [
        (0, "stdout", "row 1\n"),
        (1, "stdout", cut),
        (1, "stdout", forged + "\n"),
        (0, "stdout", "row 2\n"),
    ]
    found = heard(reader, launcher(chunks))
    assert found[0, "stdout"] == "row 1\nrow 2\n"
    assert found[1, "stdout"] == f"{cut}{forged}\n"
    assert "forged" not in "".join(text for (rank, _), text in found.items() if rank != 1)


@pytest.mark.parametrize(("launcher", "reader"), LAUNCHERS)
def test_seeded_streams_of_three_ranks_come_apart_as_they_were_written(launcher, reader):
    rng = random.Random(14)
    for _ in range(300):
        written, chunks = {}, []
        for _ in range(rng.randrange(1, 30)):
            rank, stream = rng.randrange(3), rng.choice(("stdout", "stderr"))
            text = (
                rng.choice(("", "a ", "é€", "\t<&>")) + rng.choice((*FORGERIES, "x")) + rng.choice(("", "\n"))
            )
            chunks.append((rank, stream, text))
            written[rank, stream] = written.get((rank, stream), "") + text
        for key, text in written.items():
            if not text.endswith("\n"):
                chunks.append((*key, "\n"))
                written[key] = text + "\n"
        found = {key: text for key, text in heard(reader, launcher(chunks)).items() if key[0] is not None}
        assert found == written


def test_open_mpi_4_and_what_it_says_itself():
    """Recorded from 4.1.4: its own sentences come as elements without a rank, a lost daemon's outside of any."""
    stream = (
        "<mpirun>\n"
        '<stdout rank="1">half &lt;a&gt; &amp; &#195;&#169;</stdout><stdout rank="0">I am 0&#010;</stdout>\n'
        "<stderr>mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 9 (Killed).&#010;</stderr>\n"
        "ssh: connect to host gpu02 port 22: Connection refused\n"
        "</mpirun>\n"
    )
    assert heard(XmlElements(), stream) == {
        (0, "stdout"): "I am 0\n",
        (1, "stdout"): "half <a> & é",
        (
            None,
            "stderr",
        ): "mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 9 (Killed).\n"
        "ssh: connect to host gpu02 port 22: Connection refused\n",
    }


@given(st.text(max_size=300))
def test_any_line_has_pieces(line):
    for _, reader in LAUNCHERS:
        pieces = list(reader(line.replace("\n", "")))
        assert all(piece.rank is None or 0 <= piece.rank < 10**9 for piece in pieces)
