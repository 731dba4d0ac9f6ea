"""Find the idioms that readers had to decode."""

from __future__ import annotations

import re

# What must not be written, and what to write, with the reason.
IDIOMS = {
    r"(?<!there )\b(?:is|are|was|were) no\b(?! (?:longer|more|less)\b)": "'is not a valid X', 'must be X'",
    r"(?<!there )\b(?:is|are|was|were) none\b": "'is not one', 'there is no X': 'none' has no noun beside it",
    r"\b(?:no|some)body\b": "'another user', 'no user': an operator needs to know who",
    r"\banew\b": "'again', 'new'; of a node 'rebooted': the field's own words",
    r"\bmend(?:s|ed|ing)?\b": "'fix', 'repair': the field's own words",
    r"\b(?:is|are|was|were|be) told\b": "'reports', 'prints', 'receives': machines do not talk",
    r"\bin turns\b": "'interleaved', 'alternately': the field's own words",
    r"\bso often\b": "'repeats', 'number of times'",
    r"\bwhoever\b": "'each', 'every', 'a user who'",
    r"\bfall-back": "'fallback'",
    r"\bnot let in\b": "'login refused'",
    r"\bin (?:the )?place of\b": "'instead of'",
    r"\bexchange them\b": "'swap them'",
    r"(?<!run )(?<!packages\.)\bfolders?\b": "'directory'; 'run folder' is the product's name, packages.folder a key",
    r"\b(?:is|are|was|were) not there\b": "'not found', 'not installed', 'missing'",
    r"\bcounts? (?:first|before)\b": "'takes precedence'",
}  # fmt: skip
# Names of code, and SQL, whose columns are not renamed for the sake of a word.
_CODE = re.compile(r"`[^`\n]+`|\bNone\b|CREATE TABLE.*", re.DOTALL)


def found(text: str) -> list[str]:
    """Return the idioms in a text without its code, each with what to write."""
    text = _CODE.sub("", text)
    return [
        f"{hit[0]!r}: {better}"
        for idiom, better in IDIOMS.items()
        for hit in re.finditer(idiom, text, re.IGNORECASE)
    ]
