"""Node sets: expansion, folding, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterctl.inventory import nodeset
from clusterctl.inventory.nodeset import NodeSetError, expand, fold


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu1", ["gpu1"]),
        ("gpu[1-3]", ["gpu1", "gpu2", "gpu3"]),
        ("gpu[08-11]", ["gpu08", "gpu09", "gpu10", "gpu11"]),
        ("a[1-3,7],b", ["a1", "a2", "a3", "a7", "b"]),
        ("a[0-6/3]", ["a0", "a3", "a6"]),
        ("r[1-2]n[01-02]", ["r1n01", "r1n02", "r2n01", "r2n02"]),
        (" a , b ", ["a", "b"]),
        ("gpu[09-100/91]-ib0", ["gpu09-ib0", "gpu100-ib0"]),
        ("10.0.0.[1-2]", ["10.0.0.1", "10.0.0.2"]),
        ("a,a", ["a", "a"]),
        ("n[0]", ["n0"]),
    ],
)
def test_expands(text: str, names: list[str]) -> None:
    assert list(expand(text)) == names


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the node set is empty"),
        ("a,,b", "empty name"),
        ("gpu[16-01]", "runs backwards"),
        ("gpu[1-3", "'[' without its ']'"),
        ("gpu1-3]", "']' without its '['"),
        ("gpu[]", "is not a range"),
        ("gpu[a-b]", "is not a range"),
        ("gpu[1-3/0]", "step of 0"),
        ("gpu[1-03]", "different widths"),
        ("gpu[001-12]", "different widths"),
        ("gpu[0-65536]", "at most 65536"),
        ("a[1-999999999]b[1-999999999]", "at most 65536"),
        ("a[1-40000],b[1-40000]", "80000 names"),
        ("x" * 70000, "has 70000 characters; at most"),
        ("gpu[-5]", "is not a range"),
        ("gpu[[1-2]]", "is not a range"),
    ],
)
def test_refuses(text: str, reason: str) -> None:
    with pytest.raises(NodeSetError) as caught:
        expand(text)
    assert reason in str(caught.value)


def test_a_backward_range_is_told_how_to_be_written() -> None:
    with pytest.raises(NodeSetError) as caught:
        expand("gpu[16-01]")
    assert caught.value.hint == "write 01-16"


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["gpu01", "gpu02", "gpu03", "gpu07"], "gpu[01-03,07]"),
        (["spare", "gpu2", "gpu1"], "spare,gpu[1-2]"),
        (["gpu9", "gpu10"], "gpu[9-10]"),
        (["gpu09", "gpu10"], "gpu[09-10]"),
        (["gpu9", "gpu09"], "gpu[09,9]"),
        (["node1-ib0", "node2-ib0"], "node[1-2]-ib0"),
        (["10.0.0.1", "10.0.0.2", "10.0.1.1"], "10.0.0.[1-2],10.0.1.1"),
        (["a", "a"], "a"),
        (["i-1234567890123", "i-1234567890124"], "i-1234567890123,i-1234567890124"),
        (["i-1234567890123-a1", "i-1234567890123-a2"], "i-1234567890123-a[1-2]"),
        ([], ""),
    ],
)
def test_folds(names: list[str], text: str) -> None:
    assert fold(names) == text


numbered = st.builds(
    "{}{}{}".format,
    st.sampled_from(["gpu", "n", "r1-", "a.b", ""]),
    st.one_of(
        st.integers(0, 120).map(str),
        st.integers(0, 120).map("{:02d}".format),
        st.sampled_from(["0007", "9" * 9, "9" * 10]),
    ),
    st.sampled_from(["", "-ib0", ".lan", "x"]),
)


@given(st.lists(numbered, min_size=1, max_size=40))
def test_folding_loses_and_adds_no_name(names: list[str]) -> None:
    folded = fold(names)
    assert sorted(expand(folded)) == sorted(set(names))
    assert fold(expand(folded)) == folded or sorted(expand(fold(expand(folded)))) == sorted(set(names))


@given(st.integers(0, 500), st.integers(0, 60), st.integers(1, 4))
def test_a_written_range_comes_back_as_written(first: int, length: int, width: int) -> None:
    last = first + length + 1
    if len(f"{first:0{width}d}") != len(f"{last:0{width}d}") and width > 1:
        return
    text = f"gpu[{first:0{width}d}-{last:0{width}d}]"
    assert fold(expand(text)) == text


@given(st.text(alphabet="ab01,-[]/ 9", max_size=30))
def test_any_text_expands_or_is_refused(text: str) -> None:
    try:
        names = expand(text)
    except NodeSetError:
        return
    assert 1 <= len(names) <= nodeset.MAX_NODES


def test_shares_of_names_are_folded_by_their_number():
    assert nodeset.fold_shares({f"gpu{number:02d}": 8 for number in range(1, 65)}) == "gpu[01-64] (8 each)"
    assert nodeset.fold_shares({"n1": 2, "n2": 1, "n3": 2, "vm": 4}) == "n[1,3] (2 each), n2 (1), vm (4)"
