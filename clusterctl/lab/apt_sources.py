"""Read from apt's source files which Debian mirror this machine is configured to use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

SUITE = "bookworm"


@dataclass(frozen=True, slots=True)
class AptSource:
    """One repository line: URL, suite and components."""

    uri: str
    suite: str
    components: tuple[str, ...]

    def line(self) -> str:
        """Return the source as a line of sources.list."""
        return f"deb {self.uri} {self.suite} {' '.join(self.components)}"


def parse_list(text: str) -> Iterator[AptSource]:
    """Yield the binary sources of a one-line-style file (sources.list(5)), without their options."""
    for raw in text.splitlines():
        words = raw.split("#", 1)[0].split()
        if len(words) < 3 or words[0] != "deb":
            continue
        words = words[1:]
        if words[0].startswith("["):
            while words and not words[0].endswith("]"):
                words = words[1:]
            words = words[1:]
        if len(words) >= 2:
            yield AptSource(words[0].rstrip("/"), words[1], tuple(words[2:]))


def parse_deb822(text: str) -> Iterator[AptSource]:
    """Yield the enabled binary sources of a deb822-style file (sources.list(5))."""
    for stanza in _stanzas(text):
        if "deb" not in stanza.get("types", "").split() or stanza.get("enabled", "yes").lower() == "no":
            continue
        for uri in stanza.get("uris", "").split():
            for suite in stanza.get("suites", "").split():
                yield AptSource(uri.rstrip("/"), suite, tuple(stanza.get("components", "").split()))


def _stanzas(text: str) -> Iterator[dict[str, str]]:
    stanza: dict[str, str] = {}
    key = ""
    for raw in text.splitlines():
        if raw.startswith("#"):
            continue
        if not raw.strip():
            if stanza:
                yield stanza
            stanza, key = {}, ""
        elif raw[0].isspace() and key:
            stanza[key] += f" {raw.strip()}"
        else:
            name, _, value = raw.partition(":")
            key = name.strip().lower()
            stanza[key] = value.strip()
    if stanza:
        yield stanza


def read_sources(apt_folder: Path = Path("/etc/apt")) -> tuple[AptSource, ...]:
    """Return every source that this machine's apt uses, in the order apt reads them."""
    found: list[AptSource] = []
    for path in (apt_folder / "sources.list", *sorted((apt_folder / "sources.list.d").glob("*"))):
        if not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if path.suffix == ".list":
            found.extend(parse_list(text))
        elif path.suffix == ".sources":
            found.extend(parse_deb822(text))
    return tuple(found)


def choose(sources: Iterable[AptSource], suite: str = SUITE) -> tuple[AptSource, ...]:
    """Return the sources of the suite, its updates and its security fixes, or nothing.

    Nothing, as on Ubuntu and on other releases, means that debootstrap's own default mirror is used.
    The security suite is kept because kernel headers are published only for the newest kernel.
    """
    wanted = {suite: 0, f"{suite}-updates": 1, f"{suite}-security": 2}
    chosen: dict[str, AptSource] = {}
    for source in sources:
        # apt understands more transports (mirror+file:, cdrom:) than debootstrap does.
        usable = "main" in source.components and source.uri.partition(":")[0] in ("http", "https", "file")
        if usable and source.suite in wanted:
            chosen.setdefault(source.suite, AptSource(source.uri, source.suite, ("main",)))
    if suite not in chosen:
        return ()
    return tuple(sorted(chosen.values(), key=lambda source: wanted[source.suite]))
