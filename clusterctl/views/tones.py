"""The tones of the words for people."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from clusterctl.report.line import Tone
from clusterctl.results.words import Word

OF_WORDS: Mapping[Word, Tone] = MappingProxyType(
    {
        Word.GOOD: Tone.GOOD,
        Word.BAD: Tone.BAD,
        Word.UNSURE: Tone.OPEN,
        Word.NOT_MEASURED: Tone.OPEN,
        Word.BUSY: Tone.OPEN,
        Word.DOWN: Tone.BAD,
        Word.MEASURED: Tone.FAINT,
    }
)
