"""Any damage to what is imported gives an inventory or an InventoryError, and nothing of it acts on a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusterctl.cli.inventory.importing import converted
from clusterctl.errors import InventoryError
from clusterctl.inventory import load
from clusterctl.inventory.imports import kinds
from clusterctl.inventory.imports.found import Source

HERE = Path(__file__).parent
FILES = (
    *("ansible_ini/hosts.ini", "ansible_yaml/site.yml", "openmpi.hostfile", "machinefile", "sinfo_N_l.txt"),
    *("sinfo_o.txt", "scontrol_node.txt", "slurm.conf", "hostnames.txt", "expression.txt", "ssh/config"),
    *("clustershell.cfg", "etc.hosts"),
)
TEXTS = {name: (HERE / name).read_text() for name in FILES}
PIECES = (
    *(
        "[",
        "]",
        ":",
        "[1:",
        "[01-",
        "-",
        ",",
        "=",
        '"',
        "'",
        "\\",
        "#",
        "%h",
        "!",
        "*",
        "?",
        "{{",
        "}}",
        "$(id)",
        "\x1b[2J",
    ),
    *(
        "&a ",
        "*a",
        "<<: *ssh",
        "!vault |",
        "---\n",
        "\n",
        "\r",
        "\t",
        "\x00",
        "\u2028",
        "é",
        "null",
        "[all:vars]\n",
    ),
    *(
        "ansible_host=",
        "ansible_port=x",
        "NodeName=",
        "Host ",
        "Match all",
        "Include *",
        "slots=",
        "9" * 30,
        "(",
        ")",
    ),
    *("ProxyCommand ssh -W", "-o", "-J", "[1-300]", "[a:Z]", "[0:99999]", "/0]", "NODELIST", "|", "gpu:8("),
)


@pytest.mark.parametrize("kind", kinds.Kind)
@settings(
    max_examples=250,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_damaged_sources(kind: kinds.Kind, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(FILES))
    text = TEXTS[name]
    for _ in range(data.draw(st.integers(1, 5))):
        at, length = data.draw(st.integers(0, len(text))), data.draw(st.integers(0, 15))
        text = text[:at] + data.draw(st.sampled_from(PIECES) | st.text(max_size=4)) + text[at + length :]
    beside = {"/x/group_vars/all.yml": text} if data.draw(st.booleans()) else {}
    source = Source("/x/" + name, text, beside)
    try:
        found, written = converted(source, kinds.detect(source) if data.draw(st.booleans()) else kind, HERE)
    except InventoryError as error:
        assert error.message
        return
    assert all(str(note).isprintable() for note in found.notes)
    assert [node.name for node in load.from_text(written).nodes] == [node.name for node in found.nodes]
