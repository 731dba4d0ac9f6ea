r"""Patterns for secrets that are recognized without a name: logins in URLs, headers, tokens, options.

Every pattern takes time linear in the length of a text. A pattern starts only at the start of a word, its
repetitions are bounded, and a command that may be far before its secret (``curl ... -u me:password``) has a
pattern of its own.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass

Judge = Callable[["re.Match[str]"], bool]


@dataclass(frozen=True, slots=True)
class Shape:
    """A pattern, the group that holds the secret (0: the whole match), and a further test of each match.

    ``needs`` are words (lower case) of which a text must contain one, a quick test before the pattern.
    With ``behind``, the pattern is searched only in the rest of a line after a match of ``behind``.
    """

    kind: str
    pattern: re.Pattern[str]
    group: int = 0
    is_one: Judge = lambda match: True
    behind: re.Pattern[str] | None = None
    needs: tuple[str, ...] = ("",)


def _is_login(match: re.Match[str]) -> bool:
    """Return whether the text before the @ of a URL is more than the user name of an ssh URL."""
    return ":" in match[2] or match[1].lower() not in ("ssh", "git+ssh", "sftp", "scp", "rsync", "svn+ssh")


def _is_basic(match: re.Match[str]) -> bool:
    """Return whether a word is ``user:password`` in base64 (RFC 7617)."""
    word = match[1].rstrip("=")
    try:
        decoded = base64.b64decode(word + "=" * (-len(word) % 4), validate=True)
    except ValueError:
        return False
    return b":" in decoded and decoded.isascii() and decoded.decode("ascii").isprintable()


_URL = re.compile(r"(?<![A-Za-z0-9])([A-Za-z][A-Za-z0-9+.-]{1,20})://([^\s/\"'<>\\]{1,1000})@")
# user:password@host as a word without a scheme, such as an image reference or a proxy. name:tag@sha256:... and
# the networks of Lustre (10.0.0.1@tcp) are excluded.
_BARE_LOGIN = re.compile(
    r"(?<![^\s\"'=,;(\[{<|])([A-Za-z0-9._%+-]{1,100}:(?!//)[^\s@:/\"'\\,;=]{1,200})@"
    r"(?!sha(?:1|256|384|512):|md5:|(?:tcp|o2ib|kfi|gni)[0-9]{0,3}(?:[\s,:]|$))"
    r"(?=[A-Za-z0-9](?:[A-Za-z0-9.-]{0,253})(?::[0-9]{1,5})?(?:[/\s\"',;)\]}>]|$))"
)
_NOT_A_LOGIN = ("mailto", "sip", "sips", "xmpp", "tel", "acct")
# dracut's netroot=iscsi:USER:PASSWORD@.. and root=cifs:.., and proxy=USER:PASSWORD@...
_BOOT_LOGIN = re.compile(
    r"(?i)(?:(?<![a-z0-9])(?:iscsi|cifs):|proxy=)([^\s@/\"'\\:=]{1,100}:(?!//)[^\s@\"'\\]{1,120})@(?=(\S{0,300}))"
)


def _is_boot_login(match: re.Match[str]) -> bool:
    """Return whether an iSCSI target has its four colons after the @; otherwise the @ is part of its name."""
    return not match[0].lower().startswith("iscsi") or match[2].count(":") >= 4


def _is_bare_login(match: re.Match[str]) -> bool:
    return match[1].partition(":")[0].lower() not in _NOT_A_LOGIN


_BEARER = re.compile(
    r"(?i)\bbearer[ \t]{1,4}(?=[A-Za-z]{0,16}[0-9._~+/=-]|[A-Za-z]{16})([A-Za-z0-9._~+/=-]{8,})"
)
_BASIC = re.compile(r"(?i)\bbasic[ \t]{1,4}([A-Za-z0-9+/]{6,1000}={0,2})(?![A-Za-z0-9+/=])")
_AUTHORIZATION = re.compile(
    r"(?i)\bauthorization:[ \t]{0,4}(?:basic|token|api-?key|key)[ \t]{1,4}([A-Za-z0-9._~+/=-]{8,})"
)
_TOKENS = re.compile(
    r"(?<![A-Za-z0-9_])(?:"
    r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{16,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}|xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{20,}|nvapi-[A-Za-z0-9_-]{20,}"
    r"|dckr_pat_[A-Za-z0-9_-]{16,}|sk-[A-Za-z0-9_-]{20,}|[sr]k_live_[A-Za-z0-9]{16,}|hvs\.[A-Za-z0-9_-]{20,}"
    r"|glsa_[A-Za-z0-9_]{20,}|npm_[A-Za-z0-9]{20,}|pypi-[A-Za-z0-9_-]{20,}|AGE-SECRET-KEY-1[A-Z0-9]{20,}"
    r"|AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,}"
    r"|(?<!-)eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"
    r")(?![A-Za-z0-9_])"
)
_AWS_SECRET = re.compile(
    r"(?<![A-Za-z0-9_])(?:AKIA|ASIA)[A-Z0-9]{16}[\s\"',:;/]{1,4}([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])"
)
_WEBHOOK = re.compile(r"(?i)\bhooks\.slack\.com/(?:services|workflows)/([A-Za-z0-9/_-]{10,200})")
_QUERY_CODE = re.compile(r"[?&]code=([^\s\"'&#\\<>]{4,})")
_PASSWORD_HASH = re.compile(r"\$(?:1|2[aby]|5|6|y|gy|7)\$[A-Za-z0-9./$=,]{8,}")

# Passwords after a word that is not an assigned name.
_SPOKEN = re.compile(r"\b(?:sshpass[ \t]{1,4}-p[ \t]{0,4}|user(?:name)?=[^\s,%=]{1,200}%)([^\s\"',]{1,200})")
_NETRC = re.compile(
    r"\bmachine[ \t]{1,4}\S{1,200}[ \t]{1,4}login[ \t]{1,4}\S{1,200}[ \t]{1,4}password[ \t]{1,4}([^\s\"',]{1,200})"
)
_NTP = (re.compile(r"\bcrypto[ \t]"), re.compile(r"\bpw[ \t]{1,4}([^\s\"',]{1,200})"))
_CURL = (
    re.compile(r"\b(?:curl|wget)[ \t]"),
    re.compile(r"(?<!\S)(?:-u|--user|--proxy-user|-U)[ \t=]{1,4}[\"']?[^\s:\"']{1,200}:([^\s\"',]{1,200})"),
)
_LOGIN_COMMAND = (
    re.compile(r"\b(?:docker|podman|nerdctl|buildah|skopeo|oras|helm)[ \t](?:registry[ \t]{1,4})?login\b"),
    re.compile(r"(?<!\S)-p[ \t=]{1,4}[\"']?([^\s\"'-][^\s\"']{0,200})"),
)
_MYSQL = (
    re.compile(r"\b(?:mysql|mysqldump|mysqladmin|mariadb|mariadb-dump)[ \t]"),
    re.compile(r"(?<!\S)-p([^\s\"']{1,200})"),
)
_REDIS = (re.compile(r"\bredis-cli[ \t]"), re.compile(r"(?<!\S)-a[ \t]{1,4}[\"']?([^\s\"'-][^\s\"']{0,200})"))
_SMB = (
    re.compile(r"\b(?:smbclient|rpcclient)[ \t]"),
    re.compile(r"(?<!\S)-U[ \t]{0,4}[^\s%\"']{1,200}%([^\s\"']{1,200})"),
)
_OPENSSL = (re.compile(r"\bopenssl[ \t]"), re.compile(r"(?<!\S)pass:([^\s\"']{1,200})"))

SHAPES: tuple[Shape, ...] = (
    Shape("credentials in a URL", _URL, 2, _is_login, needs=("://",)),
    Shape("login", _BOOT_LOGIN, 1, _is_boot_login, needs=("@",)),
    Shape("login", _BARE_LOGIN, 1, _is_bare_login, needs=("@",)),
    Shape("password", _SPOKEN, 1, needs=("sshpass", "user")),
    Shape("password", _NETRC, 1, needs=("machine",)),
    Shape("password", _NTP[1], 1, behind=_NTP[0], needs=("crypto",)),
    Shape("password", _CURL[1], 1, behind=_CURL[0], needs=("curl", "wget")),
    Shape("password", _LOGIN_COMMAND[1], 1, behind=_LOGIN_COMMAND[0], needs=("login",)),
    Shape("password", _MYSQL[1], 1, behind=_MYSQL[0], needs=("mysql", "mariadb")),
    Shape("password", _REDIS[1], 1, behind=_REDIS[0], needs=("redis-cli",)),
    Shape("password", _SMB[1], 1, behind=_SMB[0], needs=("client",)),
    Shape("password", _OPENSSL[1], 1, behind=_OPENSSL[0], needs=("openssl",)),
    Shape("authorization", _BEARER, 1, needs=("bearer",)),
    Shape("authorization", _AUTHORIZATION, 1, needs=("authorization",)),
    Shape("authorization", _BASIC, 1, _is_basic, needs=("basic",)),
    Shape("authorization", _QUERY_CODE, 1, needs=("code=",)),
    Shape("token", _AWS_SECRET, 1, needs=("akia", "asia")),
    Shape("token", _TOKENS),
    Shape("token", _WEBHOOK, 1, needs=("slack",)),
    Shape("password hash", _PASSWORD_HASH, needs=("$",)),
)
"""All shapes, in the order in which they are searched."""

KEY_BEGIN = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
KEY_END = re.compile(r"-----END (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
# A line break that a JSON text holds as \n ends with an n that is not part of the key.
KEY_BODY = re.compile(r"(?:(?<=\\[nr])|(?<![A-Za-z0-9+/=\\]))[A-Za-z0-9+/]{16,}={0,2}(?![A-Za-z0-9+/=])")

# Names with their assignment; group 1 is the name. A name must not be or start inside a base64 word, because a
# public key may end with "key=" by chance.
ASSIGNED = re.compile(
    r"(?<![A-Za-z0-9_.+/|-])-{0,2}(?!AAAA)([A-Za-z_][A-Za-z0-9_.-]{1,120})"
    r"(?:=[ \t]{0,8}|[ \t]{1,4}=[ \t]{1,4})(?=\S)"
)
# Names with a colon match only at the start of a line (after a file's path), a list item, a pair or an option's
# header, so that sentences do not match.
KEYED = re.compile(
    r"(?:^(?:/[^:\n]{0,400}:)?|[{,]|(?<!\S)(?:-H|--header)[ \t=]{0,4}[\"'])[ \t]{0,40}(?:-[ \t]{1,4})?"
    r"([A-Za-z_][A-Za-z0-9_.-]{1,120}):[ \t]{1,8}(?=\S)",
    re.MULTILINE,
)
OPTION = re.compile(
    r"(?<![^\s\"'\[])-(?:-|(?=pass|token|secret))([A-Za-z][A-Za-z0-9_-]{2,60})"
    r"(?:[ \t]{1,4}|[\"'],[ \t]{0,4}(?=[\"']))(?=[^\s-])"
)
VALUE = re.compile(r"\"[^\"\\\n]*\"|'[^'\\\n]*'|[^\s\"',;&\\<>\[\]{}()|*=][^\s\"',;&\\<>]*")
QUOTED_VALUE = re.compile(r'"([^"\\\n]{1,200})"(\s{0,8}:\s{0,8})"((?:[^"\\\n]|\\[^\n])*)"')
# Quotes are escaped in a JSON text that another JSON text contains (a file in a document).
ESCAPED_VALUE = re.compile(r'\\"([^"\\\n]{1,200})\\"(\s{0,8}:\s{0,8})\\"([^"\\\n]*)\\"')
KEY_FILE = re.compile(
    r"\A[\"']?[A-Za-z0-9_~./+-]{1,200}\.(?:pem|key|crt|cer|json|ya?ml|txt|conf|pub|asc|gpg)[\"']?"
)
# Texts without any of the characters that precede secrets, and too short for a token.
PLAIN = re.compile(r"[A-Za-z0-9_./-]{0,14}")
PATH = re.compile(r"\A/[^:\n]{0,400}:")
