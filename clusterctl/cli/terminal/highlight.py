"""Colour plain text by its look: regular expressions over whole columns and the beginnings of lines.

Importing rich takes 45 ms, so this module is imported only when output is coloured. To add a look, add its patterns
to ``LOOKS``. The names of their groups are the names of styles in ``THEME``.
"""

from __future__ import annotations

from functools import cache

from rich.color import ColorSystem
from rich.console import Console
from rich.text import Text
from rich.theme import Theme

THEME = Theme(
    {
        "good": "green",
        "bad": "red",
        "doubtful": "yellow",
        "faint": "dim",
        "heading": "bold",
        "name": "cyan",
        "added": "green",
        "changed": "yellow",
        "removed": "red",
    },
    inherit=False,
)

# The status at the beginning of each row of verdicts, and the counts below them.
_VERDICTS = (
    r"(?m)^(?P<heading>Checked [^:]*)(?=: )",
    r"(?m)^(?P<faint>status +requirement .*)$",
    r"(?m)^(?:(?P<bad>bad|unreachable)|(?P<doubtful>unsure|warning|drift)|(?P<good>good))(?=[ :(])",
    r"(?m)^(?P<faint>not measured)(?=[ :])",
    r"(?m)^(?P<name>Next)(?=: )",
    r"(?m)^(?:Next: .*? | +)(?P<faint> # .*)$",
    r"(?m)^ +(?P<name>hint)(?=: )",
    r"(?m)\b(?P<bad>failed: [1-9]\d*)",
)

LOOKS: dict[str, tuple[str, ...]] = {
    "check": _VERDICTS,
    # The names of requirements, and the labels of the paragraphs below them.
    "requirement": (
        r"(?m)^(?P<heading>[a-z-]+)(?=: |  )",
        r"(?m)^(?P<faint>requirement +met when)$",
        r"(?m)^  (?P<name>met when|why|bootstrap|undo|inventory|page)(?=  )",
    ),
    # The headings, judged differences and outcomes of benchmarks and comparisons.
    "result": (
        r"(?m)^(?P<faint> *(?:size|ranks)  .*| +out-of-place, .*)$",
        r"(?m)(?<=  )(?:(?P<good>faster)|(?P<bad>slower)|(?P<faint>within noise))(?=  |$)",
        r"(?m)(?<=  )(?P<doubtful>measured once|undecided)(?=  |$)",
        r"(?m)^(?:(?P<doubtful>CAUTION|DOUBTFUL)|(?P<bad>straggler)|(?P<heading>Avg bus bandwidth))(?=[: ])",
        r"(?m)^expected busbw: .*(?P<bad>SLOW|IMPOSSIBLE)",
        r"(?m)^ *(?P<name>hint)(?=: )",
        r"(?m)^baseline \S+: (?:(?P<good>ok)|(?P<bad>below-baseline)|(?P<doubtful>no-match|not-judged))",
        r"(?m)^  (?P<doubtful>too noisy to judge)(?=: )",
        # The status in the list of runs.
        r"(?m)(?<=  )(?:(?P<good>ok)|(?P<bad>failed|below-baseline)|(?P<doubtful>not-judged|doubtful))(?=  |$)",
        r"(?m)^ *[\d.]+ [KMGT]?i?B .* (?P<bad>[1-9]\d*)$",
    ),
    # The beginnings of messages on stderr.
    "message": (
        r"(?m)^ *(?P<bad>error|failed)(?=: )",
        r"(?m)^ *(?P<doubtful>warning|note)(?=: )",
        r"(?m)^ *(?P<name>hint|next|then)(?=: )",
    ),
    # The sign of each planned change, the lines of diffs below it, and the verdicts at the end of the report.
    "plan": (
        *_VERDICTS,
        r"(?m)^  (?P<added>\+)(?= )",
        r"(?m)^  (?P<changed>~)(?= )",
        r"(?m)^  (?P<removed>-)(?= )",
        r"(?m)^  (?P<faint>\. .*)$",
        r"(?m)^  \. .*(?P<bad>cannot be undone)(?=: )",
        r"(?m)^      (?P<added>\+ .*)$",
        r"(?m)^      (?P<removed>- .*)$",
        r"(?m)^      (?P<faint>(?:@@|\.\.\.|\(of) .*)$",
        r"(?m)^(?P<heading>(?:Plan|Applied[^:\n]*|Undone|Round \d+):)(?= )",
        r"(?m)^(?P<changed>Services that restart|Nodes that reboot)(?=: )",
    ),
    # Tables of settings: the heading, and what has its default; the verdict on an inventory.
    "settings": (
        r"(?m)^(?P<faint>(?:setting|nodes) +(?:value|addresses)(?: .*)?)$",
        r"(?m)^\S.*? (?P<faint>default)(?=  |$)",
        r"(?m): (?P<good>valid)(?=: )",
    ),
    # Headings, then commands and options at the beginnings of rows, and notes on defaults.
    "help": (
        r"(?m)^(?P<heading>Usage:|[A-Z][^:\n]*:$)",
        r"(?m)^  (?P<name>\S.*?)(?=  |$)",
        r"(?P<faint>\[(?:default: |repeatable)[^\]]*\])",
    ),
    # The groups of findings, the name of each, its line in the log, and the labels of its texts.
    "explain": (
        r"(?m)^(?P<heading>[A-Z][^:\n]*:$)",
        r"(?m)^(?P<bad>Broken \(look here first\):$)",
        r"(?m)^\* (?P<name>\S+)",
        r"(?m)^  (?P<doubtful>\| .*)$",
        r"(?m)^  (?P<doubtful>line \d+: .*)$",
        r"(?m)^  (?P<faint>(?:means|cause|fix|check|source) )",
    ),
    # The head of each block of what nodes answered to a command.
    "answers": (
        r"(?m)^(?P<faint>---) (?P<name>\S+?)(?=,? |,?$)",
        r"(?m)^--- .*?(?P<bad>, status \d+)",
        r"(?m)^--- .*(?P<doubtful>, the first .*)$",
    ),
    # What locate named, left open or cleared; below each name, the reason.
    "locate": (
        r"(?m)^(?P<heading>locate)(?=: )",
        r"(?m)(?<=: )(?P<bad>(?:sometimes )?slow)(?=:| alone)",
        r"(?m)(?P<doubtful>undecided|^inconclusive)",
        r"(?m)(?<=: )(?P<good>cleared)(?=:)",
        r"(?m)^    (?P<faint>.*)$",
    ),
    # The verdicts of rows and their counts, the sources below them, and the accepted nodes.
    "accept": (
        r"(?m)^(?:(?P<bad>bad)|(?P<doubtful>not measured|unsure))(?= +\S)",
        r"(?m)^(?P<faint>row +nodes .*| +threshold: .*| +tool: .*| +log: .*|not applicable.*)$",
        r"(?m)(?<=[ ,])(?:(?P<bad>\d+ bad)|(?P<doubtful>\d+ (?:not measured|unsure))|(?P<good>\d+ good))(?=[ ,]|$)",
        r"(?m)^(?P<heading>accepted)(?=: )",
        r"(?m)^(?P<name>[a-z0-9-]+)(?= \((?:sanity|validation|performance|stress)\): )",
        r"(?m)^ +(?P<faint>source: .*)$",
        r"(?m)^ +(?P<doubtful>not measured)(?= on )",
    ),
    # The outcome in each row of runs.
    "runs": (
        r"(?m)^(?P<faint>run +(verb|age) .*)$",
        r"(?m) (?P<good>ok|\d+ changed)(?=[ ,:]|$)",
        r"(?m) (?P<bad>failed|below-baseline|\d+ (unmet|failed|unreachable))(?=[ ,:]|$)",
        r"(?m) (?P<doubtful>unfinished|interrupted|unreadable|running|named|\d+ unknown)(?=[ ,:]|$)",
        r"(?m) (?P<doubtful>doubtful|not-judged)(?=[ ,:]|$)",
    ),
    # One live line, and the line that a finished phase leaves.
    "progress": (
        r"\A(?P<heading>[^: ][^:]*)(?=: )",
        r"(?P<doubtful>waiting for .*)",
        r"\A  (?P<name>\S+)",
        r"(?P<faint> in [0-9][0-9a-z. ]*)\Z",
    ),
}
"""For each look, the patterns whose named groups are coloured; where two overlap, the later one counts."""


@cache
def _console() -> Console:
    return Console(theme=THEME, force_terminal=True)


def painted(text: str, look: str) -> str:
    """Return the text with the colours of its look as ANSI sequences; nothing else in it changes."""
    shown = Text(text)
    for pattern in LOOKS[look]:
        shown.highlight_regex(pattern)
    # The eight colours that every terminal has, in the shades that its user chose.
    return "".join(
        segment.style.render(segment.text, color_system=ColorSystem.STANDARD)
        if segment.style
        else segment.text
        for segment in shown.render(_console())
    )
