"""Selectors of network interfaces, which are parsed once."""

from __future__ import annotations

import pytest

from clusterctl.inventory import interfaces
from clusterctl.inventory.model import Node


@pytest.mark.parametrize(
    ("text", "first", "listed", "selected"),
    [
        ("eth0", "eth0", "eth0", {"eth0", "eth01"}),
        ("=eth0,ib0", "eth0", "eth0,ib0", {"eth0", "ib0"}),
        ("bond,ib", "bond", "bond,ib", {"bond0", "ib0"}),
        ("^eth", None, "eth", {"ib0", "bond0", "lo"}),
        ("^=eth0", None, "eth0", {"eth01", "ib0", "bond0", "lo"}),
    ],
)
def test_a_selector_in_its_parts(text: str, first: str | None, listed: str, selected: set[str]) -> None:
    found = interfaces.parse(text)
    assert (found.text, found.first, found.listed) == (text, first, listed)
    assert {name for name in ("eth0", "eth01", "ib0", "bond0", "lo") if found.selects(name)} == selected
    assert Node(name="n", address="n", socket_ifname=text).interfaces == found


def test_a_node_without_a_selector_and_a_damaged_one_have_no_first_interface() -> None:
    assert Node(name="n", address="n").interfaces is None
    # A record of containers may be damaged; nothing checks its texts before they are used.
    assert interfaces.parse("=").first is None
