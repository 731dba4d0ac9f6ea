"""Read YAML with the line of every key; reject alias bombs, duplicate keys and YAML 1.1 traps."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import Composer

from clusterctl.errors import InventoryError
from clusterctl.inventory.problems import InventoryProblem, KeyPath, key_text, refusal
from clusterctl.text import user_files
from clusterctl.text.closest import closest
from clusterctl.text.visible import ACTING_IN_A_LINE

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 32
MAX_VALUES = 100_000
"""Maximum number of keys and values with all aliases expanded; an alias bomb exceeds it within a few lines."""

FILE_NAME = re.compile(r"/|\.(ya?ml|json|ini|cfg|txt)$")
"""Found in a text that is meant as a file, and not as a host."""

_HOST = re.compile(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")
_TAG = "tag:yaml.org,2002:"
_PLAIN_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_PLAIN_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+][0-9]+)?")
# Keys that hold a whole file may contain line breaks and tabs.
_TEXTS: frozenset[KeyPath] = frozenset({("cluster_file", "content")})
_LINES = {ord("\n"): None, ord("\t"): None}
_READ_AS = {
    "bool": "a boolean",
    "int": "a number",
    "float": "a number",
    "null": "null",
    "timestamp": "a date",
}


@dataclass(frozen=True, slots=True)
class Document:
    """A mapping read from a file, with each key's line and each scalar's own text."""

    file: str
    value: dict[str, Any]
    lines: dict[KeyPath, int] = field(default_factory=dict)
    written: dict[KeyPath, str] = field(default_factory=dict)

    def line(self, path: KeyPath) -> int:
        """Return the line of a key, or of the nearest key around it."""
        return self.lines.get(self._nearest(path), 0)

    def problem(self, path: KeyPath, message: str) -> InventoryProblem:
        """Return a problem at a key, or at the nearest key around it that the file has, with its line."""
        near = self._nearest(path)
        return InventoryProblem(self.lines.get(near, 0), key_text(near), message)

    def _nearest(self, path: KeyPath) -> KeyPath:
        while path not in self.lines and path:
            path = path[:-1]
        return path


def read(path: Path) -> Document:
    """Read a file, or the output of the shell's ``<(COMMAND)``.

    Raise InventoryError if it cannot be read, is too large, or is not one YAML mapping.
    """
    try:
        data = user_files.read(path, MAX_BYTES, pipes=True)
    except OSError as error:
        near = _resembling(path) if isinstance(error, FileNotFoundError) else ""
        hint = f"{near}give an existing inventory file, or write one with: clusterctl inventory init"
        if _HOST.fullmatch(str(path)) and not FILE_NAME.search(str(path)):
            hint += f"; for the node {path} itself, give root@{path}"
        raise InventoryError(
            f"{path}: cannot be read: {error.strerror}", hint=user_files.hint_of(error, hint)
        ) from None
    return parse(data, str(path))


def _resembling(path: Path) -> str:
    """Return the YAML file beside a missing one that it may mean, as the beginning of a hint."""
    try:
        names = sorted(one.name for one in path.parent.iterdir() if one.suffix in (".yaml", ".yml"))
    except OSError:
        return ""
    near = closest(path.name, names, most=1)
    return f"did you mean {path.with_name(near[0])}? " if near else ""


def parse(data: bytes, file: str) -> Document:
    """Parse a file's bytes (``file`` is its name in messages); raise InventoryError with every problem."""
    if len(data) > MAX_BYTES:
        raise refusal(file, [InventoryProblem(0, "", f"larger than {MAX_BYTES} bytes: not an inventory")])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise refusal(file, [InventoryProblem(line, "", "not UTF-8 text; save the file as UTF-8")]) from None
    root = compose(text, file)
    reader = _Reader()
    value = reader.value(root, (), 0)
    if reader.problems:
        raise refusal(file, reader.problems)
    if not isinstance(value, dict):
        raise refusal(
            file,
            [
                InventoryProblem(
                    root.start_mark.line + 1, "", "expected a mapping with the keys 'version' and 'nodes'"
                )
            ],
        )
    return Document(file, value, reader.lines, reader.written)


_OTHER_INDENT = re.compile(r"expected <block end>, but found '<block (sequence|mapping) start>'")


def _explained(error: yaml.MarkedYAMLError) -> tuple[yaml.Mark | None, str]:
    """Return the place and the words for a mistake: plain ones for the most frequent, otherwise PyYAML's."""
    mark = error.problem_mark or error.context_mark
    what = " ".join(part for part in (error.context, error.problem) if part)
    # PyYAML notices these two on a later line; the context begins where the mistake is.
    if "could not find expected ':'" in what:
        return error.context_mark or mark, "expected 'key: value' or '- item', found text without a colon"
    if "quoted scalar found unexpected end of stream" in what:
        return error.context_mark or mark, "a quotation mark is not closed"
    if _OTHER_INDENT.search(what):
        what = "this line is indented differently from the lines of the same list or mapping"
    elif "mapping values are not allowed here" in what:
        what = "this line is indented too deep, or its value contains ': ' and needs quotation marks"
    return mark, what


class _TooMuch(yaml.YAMLError):
    """The document is nested too deeply or holds too many values."""


class _Bounded(Composer):
    """Limits the depth, because PyYAML composes by recursion and would exhaust the interpreter's stack."""

    depth = 0
    count = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _TooMuch(f"nested more than {MAX_DEPTH} levels deep: not an inventory")
        self.count += 1
        if self.count > MAX_VALUES:
            raise _TooMuch(f"more than {MAX_VALUES} keys and values: not an inventory")
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


class _Loader(_Bounded, yaml.SafeLoader):
    """PyYAML's own parser."""


if yaml.__with_libyaml__:

    class _FastLoader(_Bounded, yaml.CSafeLoader):
        """The parser of libyaml, which takes a sixth of the time."""

        def __init__(self, text: str) -> None:
            Composer.__init__(self)
            yaml.CSafeLoader.__init__(self, text)


# ASCII without tabs, tags, anchors, aliases, block scalars and "?", of which libyaml accepts what PyYAML refuses.
_BOTH_ACCEPT_THE_SAME = re.compile(r"[\n\x20\x22-\x25\x27-\x29\x2b-\x3d\x40-\x7b\x7d\x7e]*")


def compose(text: str, file: str) -> yaml.Node:
    """Return the node tree of the only document, with bounded depth and size; aliases are not expanded yet."""
    if yaml.__with_libyaml__ and _BOTH_ACCEPT_THE_SAME.fullmatch(text):
        fast = _FastLoader(text)
        try:
            return _only_document(fast, file)
        except (yaml.YAMLError, ValueError, OverflowError):
            # PyYAML's own parser has the words for the mistake.
            pass
        finally:
            fast.dispose()
    loader = None
    try:
        loader = _Loader(text)
        return _only_document(loader, file)
    except yaml.MarkedYAMLError as error:
        mark, what = _explained(error)
        line = mark.line + 1 if mark is not None else 0
        if "'\\t'" in what:
            what += "; indent with spaces, not with tabs"
        raise refusal(file, [InventoryProblem(line, "", f"not YAML: {_printable(what)}")]) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # ValueError and OverflowError: PyYAML passes an escape beyond Unicode ("\UFFFFFFFF") on to chr().
        what = str(error) if isinstance(error, _TooMuch) else f"not YAML: {error}"
        raise refusal(
            file, [InventoryProblem(0 if loader is None else loader.line + 1, "", _printable(what))]
        ) from None
    finally:
        if loader is not None:
            loader.dispose()


def _only_document(loader: _Bounded, file: str) -> yaml.Node:
    root = loader.get_node() if loader.check_node() else None
    if root is None:
        raise refusal(
            file, [InventoryProblem(0, "", "empty; an inventory has the keys 'version' and 'nodes'")]
        )
    if loader.check_node():
        second = loader.get_node()
        line = second.start_mark.line + 1 if second is not None else 0
        raise refusal(file, [InventoryProblem(line, "", "a second YAML document begins; expected one")])
    return root


class _Reader:
    """Converts composed nodes to plain values, and records the line of each."""

    def __init__(self) -> None:
        self.lines: dict[KeyPath, int] = {}
        self.written: dict[KeyPath, str] = {}
        self.problems: list[InventoryProblem] = []
        self.count = 0

    def value(self, node: yaml.Node, path: KeyPath, depth: int) -> Any:
        self.count += 1
        line = node.start_mark.line + 1
        self.lines.setdefault(path, line)
        if self.count > MAX_VALUES or depth > MAX_DEPTH:
            # Reported once, because all further values belong to the same bomb.
            if self.count <= MAX_VALUES + 1 or depth > MAX_DEPTH:
                self.problem(line, path, f"aliases expand to more than {MAX_VALUES} values or to themselves")
                self.count = max(self.count, MAX_VALUES + 1)
            return None
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return self.mapping(node, path, depth)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            items = []
            for index, item in enumerate(node.value):
                if self.count > MAX_VALUES:
                    break
                items.append(self.value(item, (*path, index), depth + 1))
            return items
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node, path)
        self.problem(line, path, f"the tag {_printable(str(node.tag))!r} is not used in inventories")
        return None

    def mapping(self, node: yaml.MappingNode, path: KeyPath, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if self.count > MAX_VALUES:
                break
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self.problem(line, path, "a key must be plain text")
                continue
            key, kind = key_node.value, key_node.tag.removeprefix(_TAG)
            shown, place = _printable(key), (*path, key)
            if kind == "merge":
                self.problem(
                    line, path, "merge keys (<<) are not supported; share settings with defaults or groups"
                )
            elif kind in _READ_AS:
                what = f"the key {shown or '(empty)'} is read by YAML as {_READ_AS[kind]}"
                self.problem(line, path, f'{what}; write "{shown}"')
            elif ACTING_IN_A_LINE.search(key):
                self.problem(line, path, f"the key {shown!r} holds a control character")
            elif key in result:
                self.problem(
                    line, place, f"the key is given twice; it is already on line {self.lines[place]}"
                )
            else:
                self.lines[place] = line
                result[key] = self.value(value_node, place, depth + 1)
        return result

    def scalar(self, node: yaml.ScalarNode, path: KeyPath) -> Any:
        text, kind, line = node.value, node.tag.removeprefix(_TAG), node.start_mark.line + 1
        self.written[path] = text
        if kind == "null":
            return None
        if kind == "bool" and text.lower() in yaml.SafeLoader.bool_values:
            return yaml.SafeLoader.bool_values[text.lower()]
        if kind == "int" and _PLAIN_INTEGER.fullmatch(text) and len(text) < 100:
            return int(text)
        if kind == "float" and _PLAIN_FLOAT.fullmatch(text) and len(text) < 100:
            return float(text)
        if kind in ("str", "value"):
            if ACTING_IN_A_LINE.search(text.translate(_LINES) if path[-2:] in _TEXTS else text):
                self.problem(
                    line, path, f"{_printable(text)!r} holds a line break or another control character"
                )
            return text
        if kind in _READ_AS:
            self.problem(
                line,
                path,
                f"{_printable(text)} is read by YAML 1.1 as {_READ_AS[kind]}, often not the "
                f'intended one; write "{_printable(text)}" for a text, or a plain decimal number',
            )
        else:
            self.problem(line, path, f"the tag {_printable(str(node.tag))!r} is not used in inventories")
        return None

    def problem(self, line: int, path: KeyPath, message: str) -> None:
        self.problems.append(InventoryProblem(line, key_text(path), message))


def _printable(text: str) -> str:
    """Shorten a text and replace characters that a terminal would act on."""
    clean = ACTING_IN_A_LINE.sub("?", text)
    return clean if len(clean) <= 120 else clean[:117] + "..."
