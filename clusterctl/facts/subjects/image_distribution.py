"""What passing an image from node to node needs: the name of the account, and zstd."""

from __future__ import annotations

from clusterctl.facts.base import Fragment, Sections
from clusterctl.facts.model.launch import ImageDistributionFacts

FRAGMENTS = (
    Fragment(
        "image_distribution",
        """\
printf 'user '; id -un
zstd --version >/dev/null 2>&1 && echo zstd
return 0""",
    ),
)


def parse(sections: Sections) -> ImageDistributionFacts:
    """Return the facts of the section ``image_distribution``."""
    said = [line.partition(" ") for line in sections["image_distribution"].text.splitlines()]
    return ImageDistributionFacts(
        user=next((value for name, _, value in said if name == "user"), ""),
        has_zstd=any(name == "zstd" for name, _, _ in said),
    )
