"""Fetch a repository's OpenPGP key, and keep it only if it has the expected fingerprint.

The fingerprint stays valid longer than a checksum: renewing the expiry or adding a subkey changes the file, but not
the primary key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from clusterctl.requirements.steps import Command, InstallPackages

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts

# A temporary home keeps gpg from creating ~/.gnupg. A file with several primary keys has several fingerprints and
# so never matches. Addresses are passed as arguments, so they are never parsed as shell text.
_FINGERPRINT = """\
gnupg=$(mktemp -d) || exit 1
trap 'rm -rf "$gnupg"' EXIT
fingerprint() {
  gpg --homedir "$gnupg" --batch --with-colons --show-keys "$1" 2>/dev/null |
    awk -F: '$1 == "pub" { next_is = 1 } $1 == "fpr" && next_is { print $10; next_is = 0 }'
}
"""
FETCH = (
    _FINGERPRINT
    + """\
new=$3.clusterctl-new
curl -fsSL --retry 2 --max-time 120 -o "$new" -- "$1" || { rm -f "$new"; exit 1; }
found=$(fingerprint "$new")
if [ "$found" != "$2" ]; then
  echo "the key at $1 has the wrong fingerprint: expected $2, found ${found:-none}" >&2
  rm -f "$new"
  exit 1
fi
chmod 644 "$new" && mv -f "$new" "$3"
"""
)
IS_THERE = _FINGERPRINT + '[ -s "$2" ] && [ "$(fingerprint "$2")" = "$1" ]\n'


def fetch(title: str, url: str, fingerprint: str, path: str) -> Command:
    """Return the step that fetches a key to ``path``; undo removes the file."""
    return Command(
        f"Fetch the key of {title} and compare its fingerprint with {fingerprint}",
        ("sh", "-c", FETCH, "fetch-key", url, fingerprint, path),
        undo=("rm", "-f", path),
        guard=("sh", "-c", IS_THERE, "has-key", fingerprint, path),
        timeout_s=420.0,
    )


def tools(facts: NodeFacts) -> tuple[InstallPackages, ...]:
    """Return the step that installs the missing programs of ``fetch``; empty when it needs none."""
    names = {"curl": "curl", "gpg": "gnupg" if facts.software.manager == "apt" else "gnupg2"}
    missing = tuple(package for tool, package in names.items() if facts.software.tool(tool) is None)
    if not missing or facts.software.manager not in ("apt", "dnf"):
        return ()
    manager: Literal["apt", "dnf"] = "apt" if facts.software.manager == "apt" else "dnf"
    return (InstallPackages(f"Install {' and '.join(missing)}", manager, missing),)
