"""Hostile text in every field of the inventory that holds text, the fields found by introspection of the model."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from clusterctl.inventory.model import InventoryFile, NodeSettings

CANARY = "PWN"
_T = "touch${IFS}" + CANARY
HOSTILE = (
    *(f"; touch {CANARY}", f"$(touch {CANARY})", f"`touch {CANARY}`", f"x;{_T};x", f"x$({_T})", f"x`{_T}`"),
    *(f"x|{_T}", f"x&{_T}&", f"x\ntouch {CANARY}\n", f"x\r\ntouch {CANARY}", f"x' ;{_T};'", f'x";{_T};"'),
    *(
        f"x$'\\x3b{_T}'",
        f"/x$({_T})",
        f"/x y/$(touch {CANARY})",
        f"/x;{_T}",
        f"x>{CANARY}",
        f"<(touch {CANARY})",
    ),
    *(
        f"-oProxyCommand=touch {CANARY}",
        f"-oProxyCommand={_T}",
        f"x -oProxyCommand=touch {CANARY}",
        "--privileged",
    ),
    *(
        f"x\n  ProxyCommand touch {CANARY}",
        f'x\nMatch exec "touch {CANARY}"',
        f"x\nLocalCommand touch {CANARY}",
    ),
    *(
        f"n1:/x {CANARY}",
        "%n",
        "%h%%i",
        "/x%n",
        "/%h/%u",
        "%d/.ssh/x",
        "${HOME}",
        "$HOME",
        "/$HOME/${HOME}",
        "~",
        "~root/x",
    ),
    *(
        "*",
        "/*",
        "x*?[a]",
        "{a,b}",
        "!!",
        "#x",
        "x #y",
        "a b",
        "/a b",
        "a\tb",
        "a=b",
        "A=b",
        "if",
        "!",
        "time",
        "\\",
        "x\\",
    ),
    *(
        "x\\n",
        "/x\\ y",
        "'",
        '"',
        "it's",
        'say "x"',
        "é中",
        "x\u202ey",
        "x\u00a0y",
        "/x\u00a0y",
        "x\u2028y",
        "x\x00y",
    ),
    *(
        "x\x1b[2Jy",
        "x\x07",
        "\ud800",
        "",
        " ",
        "-",
        "--",
        "-x",
        "a,b",
        "a:b",
        "@x",
        "^x",
        "<<EOF",
        "EOF",
        "END_OF_TREE",
    ),
    *(
        "x]",
        "[x",
        "*,!x",
        "0:0",
        "no_root_squash",
        'command="x"',
        "/x(rw,no_root_squash)",
        "/usr/bin/env -S sh -c x",
    ),
)
SAMPLES: dict[str, Any] = {"nodes": "n1", "name": "n2", "version": 1}
Path_ = tuple[str | int, ...]


@dataclass(frozen=True)
class Field:
    """One place for text: a path of keys (``0``: an entry of a list), and whether the last is a key itself."""

    path: Path_
    is_key: bool = False

    def __str__(self) -> str:
        return ".".join(map(str, self.path)) + (" (key)" if self.is_key else "")


def fields() -> list[Field]:
    """Return every place of text in an inventory file."""
    return list(_of_model(InventoryFile, ()))


def _of_model(model: type[BaseModel], path: Path_) -> Iterator[Field]:
    for name, info in model.model_fields.items():
        yield from _of_type(info.annotation, (*path, name))


def _of_type(kind: Any, path: Path_) -> Iterator[Field]:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        yield from _of_type(arguments[0], path)
    elif origin in (Union, types.UnionType):
        for argument in arguments:
            yield from _of_type(argument, path)
    elif origin is tuple:
        yield from _of_type(arguments[0], (*path, 0))
    elif origin is dict:
        yield Field((*path, "KEY"), is_key=True)
        yield from _of_type(arguments[1], (*path, "g1" if path == ("groups",) else "X1"))
    elif origin is Literal or (isinstance(kind, type) and issubclass(kind, Enum)):
        yield Field(path)  # a closed set of words: anything else has to be refused
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        yield from _of_model(kind, path)
    elif kind is str:
        yield Field(path)


def texts_for(place: Field) -> tuple[str, ...]:
    """Return the texts to try: all, or a few where the field is the same as under ``defaults``."""
    again = (
        place.path[0] in ("groups", "nodes")
        and len(place.path) > 2
        and place.path[2] in NodeSettings.model_fields
    )
    return HOSTILE[::7] if again else HOSTILE


def plain() -> dict[str, Any]:
    """Return the inventory into which the text goes: three nodes with slots, an image, and a jump host."""
    return {
        "version": 1,
        "defaults": {"gpus": 2, "container": {"image": "img:1"}},
        "nodes": [
            {"name": "n1", "address": "10.0.0.1"},
            {"name": "n2", "address": "10.0.0.2"},
            {"name": "n3", "address": "10.0.0.3", "user": "u", "port": 2222, "proxy_jump": "j@jump:22"},
        ],
    }


def with_text(field: Field, text: str, folder: Path) -> str:
    """Return an inventory file (JSON is YAML) with the text in that place; files that must be there are made."""
    tree: Any = plain()
    here = tree
    path = field.path
    for number, part in enumerate(path):
        last = number == len(path) - 1
        if last and field.is_key:
            here[text] = {"nodes": "n1"} if path[:-1] == ("groups",) else "v"
        elif last and isinstance(here, list):
            here[0:1] = [text] if not here else [here[0]]
            here[0] = text
        elif last:
            here[part] = text
        else:
            empty: Any = [] if isinstance(path[number + 1], int) else {}
            if isinstance(part, int):
                if not here:
                    here.append(empty)
                here = here[part]
            else:
                if part not in here:
                    here[part] = empty
                here = here[part]
                if part == "g1":
                    here.setdefault("nodes", "n1")
    name = path[-1]
    if name == "identity_file" or path[-2:] == ("peermem", "source"):
        _make(folder, text)
    return json.dumps(tree)


def _make(folder: Path, text: str) -> None:
    try:
        file = folder / text
        if folder in file.parents and not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
    except (OSError, ValueError):
        pass  # no file can have this name: the inventory is refused
