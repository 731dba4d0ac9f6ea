"""Taking secrets out of what nodes print: every byte of a secret becomes ``*``, and nothing else changes.

Lengths in bytes, lines, quotes and escapes stay what they were, so that whatever could be parsed before can be
parsed after, and an output that was cut at a limit still counts as cut.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable

from clusterctl.inventory.secret_names import names_a_secret

_LEAST_VALUE = 4
"""Known values shorter than this are words that stand everywhere."""

_KEY_BEGIN = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(r"-----END (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_KEY_BODY = re.compile(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{16,}={0,2}(?![A-Za-z0-9+/=])")
_PATH = re.compile(r"/[^:\n]{0,400}:")

_URL = re.compile(r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9+.-]{1,20}://([^\s/\"'<>\\]{1,1000})@")
_QUOTED_VALUE = re.compile(r'"([^"\\\n]{1,200})"(\s{0,8}:\s{0,8})"((?:[^"\\\n]|\\[^\n])*)"')
# A JSON text inside a JSON text (a file that a document quotes): its quotes are escaped.
_ESCAPED_VALUE = re.compile(r'\\"([^"\\\n]{1,200})\\"(\s{0,8}:\s{0,8})\\"([^"\\\n]*)\\"')
# A name may not begin inside of a word of base64, nor be one: a public key may happen to end with "key=".
_ASSIGNED = re.compile(
    r"(?<![A-Za-z0-9_.+/|])-{0,2}(?!AAAA)([A-Za-z_][A-Za-z0-9_.-]{1,80})(?:=[ \t]{0,8}|[ \t]{1,4}=[ \t]{1,4})(?=\S)"
)
# With a colon only where a line (behind the path of a file), a list's item or a pair begins: not in sentences.
_KEYED = re.compile(
    r"(?:^(?:/[^:\n]{0,400}:)?|[{,])[ \t]{0,40}(?:-[ \t]{1,4})?([A-Za-z_][A-Za-z0-9_.-]{1,80}):[ \t]{1,8}(?=\S)",
    re.MULTILINE,
)
_VALUE = re.compile(r"\"[^\"\\\n]*\"|'[^'\\\n]*'|[^\s\"',;&\\<>\[\]{}()|*=][^\s\"',;&\\<>]*")
_OPTION = re.compile(r"(?<!\S)--([A-Za-z][A-Za-z0-9-]{2,60})[ \t]([^\s\"'\\-][^\s\"'\\]*)")
_HEADER = re.compile(
    r"(?i)\b(bearer|authorization:[ \t]{0,4}(?:basic|token|api-?key|key))[ \t]{1,4}([A-Za-z0-9._~+/=-]{8,})"
)
_TOKENS = re.compile(
    r"(?<![A-Za-z0-9_])(?:"
    r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{16,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}|xox[abeoprs]-[A-Za-z0-9-]{10,}|nvapi-[A-Za-z0-9_-]{20,}|dckr_pat_[A-Za-z0-9_-]{16,}"
    r"|sk-[A-Za-z0-9_-]{20,}|hvs\.[A-Za-z0-9_-]{20,}|glsa_[A-Za-z0-9_]{20,}|npm_[A-Za-z0-9]{20,}"
    r"|pypi-[A-Za-z0-9_-]{20,}|AGE-SECRET-KEY-1[A-Z0-9]{20,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"
    r")(?![A-Za-z0-9_])"
)
# Where a login stands without a scheme: dracut's netroot=iscsi:USER:PASSWORD@.. and root=cifs:.., a proxy's name.
_LOGIN = re.compile(
    r"(?i)(?:(?<![a-z0-9])(?:iscsi:(?=[^\s@]{1,1000}@(?:[^\s:]{0,300}:){4})|cifs:)|proxy=)"
    r"([^\s@/\"'\\:]{1,200}:(?!//)[^\s@\"'\\]{1,1000})@"
)
_SPOKEN = re.compile(
    r"(?:\b(?:sshpass[ \t]{1,4}-p[ \t]{0,4}|crypto[ \t][^\n]{0,200}?\bpw[ \t]{1,4}"
    r"|machine[ \t]{1,4}\S{1,200}[ \t]{1,4}login[ \t]{1,4}\S{1,200}[ \t]{1,4}password[ \t]{1,4}"
    r"|user(?:name)?=[^\s,%=]{1,200}%)"
    r"|\bcurl[ \t](?:[^\n]{0,200}?[ \t])?(?:-u|--user)[ \t]{1,4}[\"']?[^\s:\"']{1,200}:)([^\s\"',]{1,200})"
)
"""Passwords behind a word and no name: of sshpass in a ProxyCommand, of ntpd's keys, of a netrc file, of smbclient's
``user=me%password``, of curl."""
_PASSWORD_HASH = re.compile(r"\$(?:1|2[aby]|5|6|y|gy|7)\$[A-Za-z0-9./$=,]{8,}")

# Short names that are a secret's only where they are a whole word of the name: not BYPASS, not module.sig_enforce.
_SHORT = re.compile(
    r"(?i)(?:.*[._-])?(?:(?:root|db|pg)?pass|pw|pwd|rootpw|bindpw|psk|sig|signature|proxy[_-]?user)"
)
# Names that look like a secret's and are settings: what they say is judged, or tells nothing.
_SETTINGS = re.compile(
    r"(?i)(?:.*(?:auth(?:entication|orization[_-]plugins|orizedkeys\w*|or|ors|ority)|passwordauthentication"
    r"|tokenizer\w*)"
    r"|.*(?:pub|public|host|sort|primary|foreign|map|any|hot|signed)[_-]?key|gpgkey|keyring|ssh_?auth_?sock)$"
)


def _stars(text: str) -> str:
    """Return as many stars as the text has bytes, so that the length of the whole stays."""
    return "*" * len(text.encode("utf-8", "surrogateescape"))


def _is_secret(name: str) -> bool:
    named = names_a_secret(name.replace("-", "_")) or _SHORT.fullmatch(name) is not None
    return named and _SETTINGS.fullmatch(name) is None


def _masked(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[0] + _stars(value[1:-1]) + value[-1]
    return _stars(value)


class Scrubber:
    """Scrubs texts and counts what it took out, by kind. ``values``: secrets whose text is known."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        known = sorted({v for v in values if len(v) >= _LEAST_VALUE}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None
        self.counts: Counter[str] = Counter()

    def text(self, text: str, marker: str | None = None) -> str:
        """Return the text without secrets. Lines that begin with ``marker`` are never touched."""
        if "PRIVATE KEY" in text:
            text = self._keys(text, marker)
        if self._known is not None:
            text = self._each(self._known, "known value", text, lambda m: _stars(m[0]))
        if "://" in text:
            text = self._each(_URL, "credentials in a URL", text, lambda m: _around(m, 1, _stars(m[1])))
        text = self._each(_QUOTED_VALUE, "named value", text, lambda m: self._named(m, 1, 3))
        if '\\"' in text:
            text = self._each(_ESCAPED_VALUE, "named value", text, lambda m: self._named(m, 1, 3))
        text = self._each(_LOGIN, "login", text, lambda m: _around(m, 1, _stars(m[1])))
        text = self._each(_SPOKEN, "password", text, lambda m: _around(m, 1, _stars(m[1])))
        text = self._each(_HEADER, "authorization", text, lambda m: _around(m, 2, _stars(m[2])))
        text = self._assigned(_ASSIGNED, text)
        text = self._assigned(_KEYED, text)
        text = self._each(_OPTION, "option's value", text, lambda m: self._named(m, 1, 2))
        text = self._each(_TOKENS, "token", text, lambda m: _stars(m[0]))
        return self._each(_PASSWORD_HASH, "password hash", text, lambda m: _stars(m[0]))

    def data(self, data: bytes, marker: str | None = None) -> bytes:
        """Return the bytes without secrets; those that are no UTF-8 stay as they are."""
        text = data.decode("utf-8", "surrogateescape")
        return self.text(text, marker).encode("utf-8", "surrogateescape")

    def value(self, value: object, name: str = "") -> object:
        """Return a JSON value whose texts are scrubbed, and the texts under secret names wholly."""
        if isinstance(value, dict):
            return {key: self.value(item, str(key)) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(item, name) for item in value]
        if isinstance(value, str):
            if name and value and _is_secret(name):
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
        return _around(match, value, _masked(match[value])) if _is_secret(match[name]) else match[0]

    def _assigned(self, pattern: re.Pattern[str], text: str) -> str:
        """Mask what stands behind ``NAME=`` and ``name: ``; what stands behind other names is looked at as well."""
        parts, done = [], 0
        for match in pattern.finditer(text):
            if match.end() < done or not _is_secret(match[1]):
                continue
            value = _VALUE.match(text, match.end())
            if value is not None:
                shown = _masked(value[0])
                self.counts["named value"] += shown != value[0]
                parts += [text[done : match.end()], shown]
                done = value.end()
        return "".join([*parts, text[done:]]) if parts else text

    def _keys(self, text: str, marker: str | None) -> str:
        """Mask the body of private keys, line by line: between BEGIN and END, or to where the text goes on."""
        lines, inside = [], False
        for line in text.split("\n"):
            if marker is not None and line.startswith(marker):
                inside = False
                lines.append(line)
                continue
            begin, end = _KEY_BEGIN.search(line), _KEY_END.search(line)
            if not inside and begin is None:
                lines.append(line)
                continue
            start = 0
            if not inside and begin is not None:
                self.counts["private key"] += 1
                start = begin.end()
            elif path := _PATH.match(line):
                start = path.end()
            stop = end.start() if end is not None and end.start() >= start else len(line)
            body = _KEY_BODY.sub(lambda m: _stars(m[0]), line[start:stop])
            lines.append(line[:start] + body + line[stop:])
            inside = end is None
        return "\n".join(lines)


def scrubbed(text: str) -> str:
    """Return a node's text as run folders, reports and the terminal may show it."""
    return Scrubber().text(text)


def scrubbed_json(text: str) -> str:
    """Return the text of a JSON file without secrets; one that holds some is laid out anew, whatever its escapes."""
    try:
        found = json.loads(text)
        clean = Scrubber().value(found)
        if clean != found:
            text = json.dumps(clean, indent=2)
    except (ValueError, RecursionError):
        pass
    return scrubbed(text)


def _around(match: re.Match[str], group: int, replacement: str) -> str:
    """Return the whole match with one of its groups replaced."""
    start, end = match.start(group) - match.start(), match.end(group) - match.start()
    return match[0][:start] + replacement + match[0][end:]
