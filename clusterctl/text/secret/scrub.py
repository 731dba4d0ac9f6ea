"""Remove secrets from texts: every byte of a secret becomes ``*``, and nothing else changes.

Lengths in bytes, lines, quotes and escapes stay the same, so a scrubbed text can still be parsed, and an output
that was truncated at a limit still counts as truncated.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from clusterctl.text.foreign import NotUnderstood, json_value
from clusterctl.text.secret import shapes
from clusterctl.text.secret.shapes import Shape

# HF_TOKEN, AWS_SECRET_ACCESS_KEY, PGPASSWORD, WANDB_API_KEY, REGISTRY_AUTH, SSHPASS, GPG_PASSPHRASE.
_SECRET = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|_PASS$|SSHPASS$|_PWD$|CREDENTIAL|AUTH|KEY$", re.IGNORECASE
)
# Short names match only as a whole word: BYPASS and module.sig_enforce are not secret.
_SHORT_NAME = re.compile(
    r"(?i)(?:^|[._-])(?:(?:root|db|pg)?pass|pw|pwd|rootpw|bindpw|psk|sig|signature|proxy[_-]?user)$"
)
# Names that resemble those of secrets but hold settings, whose values verdicts depend on.
_SETTINGS = re.compile(
    r"(?i)(?:auth(?:entication|orization[_-]plugins|orizedkeys\w{0,40}|or|ors|ority)|tokenizers?(?:_\w{1,40})?"
    r"|(?:pub|public|host|sort|primary|foreign|map|any|hot|signed)[_-]?key|gpgkey|keyring|ssh_?auth_?sock"
    # The path of a file with a secret is not the secret; partition keys of InfiniBand are public.
    r"|[_-](?:file|path|dir)|(?:^|[._-])[plr][_-]?key"
    # Counts of a language model's tokens: max_tokens, tokens_per_batch.
    r"|(?:^|[._-])(?:max|min|num|total|new|batch)[._-](?:\w{1,40}[._-])?tokens?"
    r"|(?:^|[._-])tokens[._-](?:per|in)[._-]\w{1,40})$"
)


def is_secret_name(name: str) -> bool:
    """Return whether a name marks its value as secret: ``HF_TOKEN``, ``--api-key``, ``X-Amz-Signature``."""
    plain = name.replace("-", "_")
    named = _SECRET.search(plain) is not None or _SHORT_NAME.search(name) is not None
    return named and _SETTINGS.search(name) is None


_SHORT, _MANY = 256, 4096
_LEAST_VALUE = 4
"""Minimum length of known values; shorter ones occur in ordinary words."""

# Colours and cursor movements (ECMA-48), and choices of a character set.
_ESCAPE = re.compile("(?:\x1b\\[|\x9b)[0-?]{0,32}[ -/]{0,4}[@-~]|\x1b[()][0-9A-Z]")

# A byte that is not UTF-8, as ``surrogateescape`` decodes it.
_LONE_BYTE = re.compile("[\udc80-\udcff]")


def _size(text: str) -> int:
    """Return the size of a text in bytes, including lone surrogates."""
    return len(_LONE_BYTE.sub("?", text).encode("utf-8", "surrogatepass"))


def _stars(text: str) -> str:
    """Return one star for each byte of the text, which keeps the size of the whole text."""
    return "*" * _size(text)


def _masked(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[0] + _stars(value[1:-1]) + value[-1]
    return _stars(value)


def _cut(text: str, sizes: Iterable[int]) -> list[str]:
    """Cut a scrubbed text into parts of these sizes in bytes: each byte of a secret became one star."""
    found, at = [], 0
    for size in sizes:
        start, left = at, size
        if text.isascii():
            at += size
        else:
            while left > 0:
                left -= _size(text[at])
                at += 1
        found.append(text[start:at])
    return found


def _hides(name: str, value: str) -> bool:
    """Return whether a name makes its value secret; the path of a key file is not secret."""
    if not is_secret_name(name):
        return False
    return not (name.lower().endswith("key") and shapes.KEY_FILE.fullmatch(value))


class Scrubber:
    """Scrubs texts and counts the replaced secrets by kind; ``values`` are secrets whose text is known."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        known = sorted({v for v in values if len(v) >= _LEAST_VALUE}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None
        self._clean: set[str] = set()
        self.counts: Counter[str] = Counter()

    def text(self, text: str, marker: str | None = None) -> str:
        """Return the text without secrets; lines that begin with ``marker`` end a private key and are not masked."""
        if text in self._clean or (self._known is None and shapes.PLAIN.fullmatch(text)):
            return text
        shown = self._between_escapes(self._shown(text, marker), marker)
        # Cached, because most nodes of a fleet print the same texts.
        if shown == text and len(text) <= _SHORT and len(self._clean) < _MANY:
            self._clean.add(text)
        return shown

    def _between_escapes(self, text: str, marker: str | None) -> str:
        """Scrub a text as if it had no colours, which hide where a word begins."""
        if "\x1b" not in text and "\x9b" not in text:
            return text
        parts = _ESCAPE.split(text)
        plain = "".join(parts)
        shown = self._shown(plain, marker)
        if shown == plain:
            return text
        escapes = (*_ESCAPE.findall(text), "")
        return "".join(map(str.__add__, _cut(shown, map(_size, parts)), escapes))

    def _shown(self, text: str, marker: str | None) -> str:
        if "PRIVATE KEY" in text:
            text = self._keys(text, marker)
        if self._known is not None:
            text = self._each(self._known, "known value", text, lambda m: _stars(m[0]))
        lower = text.lower()
        for shape in shapes.SHAPES:
            if any(word in lower for word in shape.needs):
                text = self._shaped(shape, text)
        text = self._each(shapes.QUOTED_VALUE, "named value", text, lambda m: self._named(m, 1, 3))
        if '\\"' in text:
            text = self._each(shapes.ESCAPED_VALUE, "named value", text, lambda m: self._named(m, 1, 3))
        text = self._assigned(shapes.ASSIGNED, "named value", text)
        text = self._assigned(shapes.KEYED, "named value", text)
        return self._assigned(shapes.OPTION, "option's value", text)

    def words(self, words: Sequence[str]) -> list[str]:
        """Return the words of a command line without secrets, including values of options (``--password X``)."""
        alone = [self.text(word) for word in words]
        joined = " ".join(alone)
        shown = self.text(joined)
        if shown == joined:
            return alone
        # A space follows each word; of a secret of several words it became a star.
        return [word[:-1] for word in _cut(shown + " ", (_size(word) + 1 for word in alone))]

    def data(self, data: bytes, marker: str | None = None) -> bytes:
        """Return the bytes without secrets; bytes that are not UTF-8 stay unchanged."""
        text = data.decode("utf-8", "surrogateescape")
        return self.text(text, marker).encode("utf-8", "surrogateescape")

    def value(self, value: object, name: str = "") -> object:
        """Return a JSON value with scrubbed texts; texts under secret names are masked completely."""
        if isinstance(value, dict):
            return {key: self.value(item, str(key)) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            if not is_secret_name(name) and all(isinstance(item, str) for item in value):
                return list(self.words(value))
            return [self.value(item, name) for item in value]
        if isinstance(value, str):
            if name and value and _hides(name, value):
                self.counts["named value"] += 1
                return _stars(value)
            return self.text(value)
        return value

    def _each(
        self, pattern: re.Pattern[str], kind: str, text: str, replaced: Callable[[re.Match[str]], str]
    ) -> str:
        def one(match: re.Match[str]) -> str:
            shown = replaced(match)
            self.counts[kind] += shown != match[0]
            return shown

        return pattern.sub(one, text)

    @staticmethod
    def _named(match: re.Match[str], name: int, value: int) -> str:
        hides = _hides(match[name], match[value])
        return _around(match, value, _masked(match[value])) if hides else match[0]

    def _shaped(self, shape: Shape, text: str) -> str:
        """Mask the matches of a shape; for a shape of a command, only behind the command in the same line."""

        def shown(match: re.Match[str]) -> str:
            return (
                _around(match, shape.group, _stars(match[shape.group])) if shape.is_one(match) else match[0]
            )

        if shape.behind is None:
            return self._each(shape.pattern, shape.kind, text, shown)
        if shape.behind.search(text) is None:
            return text
        lines = text.split("\n")
        for number, line in enumerate(lines):
            command = shape.behind.search(line)
            if command is not None:
                rest = self._each(shape.pattern, shape.kind, line[command.end() - 1 :], shown)
                lines[number] = line[: command.end() - 1] + rest
        return "\n".join(lines)

    def _assigned(self, pattern: re.Pattern[str], kind: str, text: str) -> str:
        """Mask the values of secret names; the value of another name may itself begin with a secret name."""
        parts, done = [], 0
        for match in pattern.finditer(text):
            if match.end() < done or not is_secret_name(match[1]):
                continue
            value = shapes.VALUE.match(text, match.end())
            if value is not None and _hides(match[1], value[0]):
                shown = _masked(value[0])
                self.counts[kind] += shown != value[0]
                parts += [text[done : match.end()], shown]
                done = value.end()
        return "".join([*parts, text[done:]]) if parts else text

    def _keys(self, text: str, marker: str | None) -> str:
        """Mask the body of private keys, line by line, from BEGIN to END, or to the marker if END is missing."""
        lines, inside = [], False
        for line in text.split("\n"):
            if marker is not None and line.startswith(marker):
                inside = False
                lines.append(line)
                continue
            begin, end = shapes.KEY_BEGIN.search(line), shapes.KEY_END.search(line)
            if not inside and begin is None:
                lines.append(line)
                continue
            start = 0
            if not inside and begin is not None:
                self.counts["private key"] += 1
                start = begin.end()
            elif path := shapes.PATH.match(line):
                start = path.end()
            stop = end.start() if end is not None and end.start() >= start else len(line)
            body = shapes.KEY_BODY.sub(lambda m: _stars(m[0]), line[start:stop])
            lines.append(line[:start] + body + line[stop:])
            inside = end is None
        return "\n".join(lines)


def scrubbed(text: str) -> str:
    """Return a node's text without secrets, for run folders, reports and the terminal."""
    return Scrubber().text(text)


def scrubbed_value(value: object) -> object:
    """Return a JSON value whose texts hold no secrets."""
    return Scrubber().value(value)


def holds_a_secret(text: str) -> bool:
    """Return whether a text contains a secret, recognized by its shape or its name."""
    return scrubbed(text) != text


def names_a_secret(name: str, value: str | None = None) -> bool:
    """Return whether a variable's value must be hidden because of its name or its content."""
    return is_secret_name(name) or (value is not None and holds_a_secret(value))


def scrubbed_json(text: str) -> str:
    """Return the text of a JSON file without secrets; a file with secrets is formatted again, without escapes."""
    try:
        found = json_value(text)
        clean = Scrubber().value(found)
        if clean != found:
            text = json.dumps(clean, indent=2, allow_nan=False)
    except NotUnderstood:
        pass
    return scrubbed(text)


def _around(match: re.Match[str], group: int, replacement: str) -> str:
    """Return the whole match with one of its groups replaced."""
    start, end = match.start(group) - match.start(), match.end(group) - match.start()
    return match[0][:start] + replacement + match[0][end:]
