"""Write what is made of environment_table.py: the table of docs/environment.md and src/common/env_table.inc.

Run it after a change of the table: python collective_core/scripts/generate_environment.py
"""

from __future__ import annotations

import sys
from pathlib import Path

CORE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(CORE / "python"))

from collective_core.environment_table import UNUSED, VARIABLES, Kind, Reader, Variable  # noqa: E402

PAGE = CORE / "docs" / "environment.md"
TABLE = CORE / "src" / "common" / "env_table.inc"
BEGIN = "<!-- begin: made by scripts/generate_environment.py -->"
END = "<!-- end -->"


def row(variable: Variable) -> str:
    if variable.kind is Kind.CHOICE:
        kind = ", ".join(f"`{choice}`" for choice in variable.choices)
    else:
        kind = variable.kind.value
    aliases = ", ".join(f"`{alias}`" for alias in variable.aliases) or "–"
    readers = ", ".join(reader.value for reader in variable.readers)
    return f"| `{variable.name}` | {kind} | {variable.default} | {variable.meaning} | {aliases} | {readers} |"


def page_table() -> str:
    """Return the tables of the page, with their marks."""
    lines = [
        BEGIN,
        "| variable | values | default | meaning | aliases | read by |",
        "|---|---|---|---|---|---|",
        *(row(variable) for variable in VARIABLES),
        "",
        "Documented variables of Horovod, LightCC and ACSpeed that are accepted and have no effect:",
        "",
        "| variable | why |",
        "|---|---|",
        *(f"| `{unused.name}` | {unused.reason} |" for unused in UNUSED),
        END,
    ]
    return "\n".join(lines)


def page(old: str) -> str:
    """Return the page with its tables renewed; the prose around them is written by hand."""
    before, rest = old.split(BEGIN)
    return before + page_table() + rest.split(END)[1]


def c_table() -> str:
    """Return the rows for C++: name, default in words, and aliases of what the library reads."""
    rows = []
    for variable in VARIABLES:
        if Reader.LIBRARY in variable.readers:
            aliases = ", ".join(f'"{alias}"' for alias in variable.aliases)
            default = variable.default.replace("`", "")
            rows.append(f'{{"{variable.name}", "{default}", {{{aliases}}}}},')
    return (
        "// Made by scripts/generate_environment.py of environment_table.py; do not edit.\n"
        + "\n".join(rows)
        + "\n"
    )


def main() -> None:
    """Write both files."""
    PAGE.write_text(page(PAGE.read_text()))
    TABLE.write_text(c_table())


if __name__ == "__main__":
    main()
