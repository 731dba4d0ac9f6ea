"""Read the thresholds: shipped files for known hardware, each number with its source, and the site's own file."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator

from clusterctl import resources
from clusterctl.acceptance.model import RowStatus
from clusterctl.acceptance.rules import AcceptRule, BadRuleError, read_rule
from clusterctl.errors import ConfigError, InventoryError
from clusterctl.inventory import yaml_source
from clusterctl.text import model_errors, user_files

FOLDER = Path(__file__).parent / "thresholds"
_MOST_BYTES = 4 << 20
_STRICT = ConfigDict(frozen=True, extra="forbid", defer_build=True)
_Text = Annotated[str, StringConstraints(min_length=1)]
_Share = Annotated[float, Field(gt=0, lt=1)]


class ThresholdRow(BaseModel):
    """``when: gpu-gemm.bf16_tflops < 715``: the condition, its verdict, and where the number comes from."""

    model_config = _STRICT

    when: _Text
    verdict: Literal["warn", "fail"]
    source: _Text

    @field_validator("when")
    @classmethod
    def _is_rule(cls, text: str) -> str:
        try:
            read_rule(text)
        except BadRuleError as error:
            raise ValueError(str(error)) from None
        return text


class FleetComparison(BaseModel):
    """How values are compared with those of equal hardware; ``fields`` are patterns such as ``gpu-gemm.*``.

    ``warn`` and ``fail`` are losses against the median, ``spread`` is the standard deviation of healthy hardware, all
    as shares. ``compare: false``: the values are not compared.
    """

    model_config = _STRICT

    fields: tuple[_Text, ...]
    compare: bool = True
    warn: _Share = 0.08
    fail: _Share = 0.15
    spread: _Share = 0.02
    source: _Text


class ThresholdFile(BaseModel):
    """A file of thresholds; ``hardware`` are words in the name of what a row measures (none: of all hardware).

    Hardware with one of the words of ``without`` in its name is left out.
    """

    model_config = _STRICT

    hardware: tuple[_Text, ...] = ()
    without: tuple[_Text, ...] = ()
    rules: tuple[ThresholdRow, ...] = ()
    comparisons: tuple[FleetComparison, ...] = ()


_DEFAULT = FleetComparison(
    fields=("*",),
    source="clusterctl's default for values without a recorded spread: 8 %, 15 % and 2 %",
)


@dataclass(frozen=True, slots=True)
class AppliedRule:
    """A rule that applies to a field on some hardware, with its verdict and its source."""

    rule: AcceptRule
    status: RowStatus
    source: str


@dataclass(frozen=True, slots=True)
class AcceptLimits:
    """All thresholds of a run: the site's, which replace the shipped ones of the same field, and the shipped ones."""

    shipped: tuple[ThresholdFile, ...]
    site: ThresholdFile | None = None

    @property
    def files(self) -> tuple[ThresholdFile, ...]:
        """Return all files, the site's first."""
        return self._of_site + self.shipped

    @property
    def _of_site(self) -> tuple[ThresholdFile, ...]:
        return () if self.site is None else (self.site,)

    def rules(self, row: str, field: str, hardware: str) -> tuple[AppliedRule, ...]:
        """Return the rules for a field on some hardware, those that fail first."""
        own = _rules_in(self._of_site, row, field, hardware)
        found = own or _rules_in(self.shipped, row, field, hardware)
        return tuple(sorted(found, key=lambda one: one.status is not RowStatus.FAIL))

    def comparison(self, row: str, field: str, hardware: str) -> FleetComparison:
        """Return how values of a field are compared with those of equal hardware: the first that names the field."""
        for file in self.files:
            for one in file.comparisons if is_for(file, hardware) else ():
                if any(fnmatchcase(f"{row}.{field}", pattern) for pattern in one.fields):
                    return one
        return _DEFAULT

    def comparisons(self, row: str, hardware: str) -> dict[str, FleetComparison]:
        """Return the comparisons of a row by pattern of its fields; the default one has the pattern ``*``."""
        found = {
            pattern.removeprefix(f"{row}."): one
            for file in self.files
            for one in (file.comparisons if is_for(file, hardware) else ())
            for pattern in one.fields
            if fnmatchcase(row, pattern.partition(".")[0])
        }
        return found or {"*": _DEFAULT}


def _rules_in(
    files: tuple[ThresholdFile, ...], row: str, field: str, hardware: str
) -> tuple[AppliedRule, ...]:
    found = []
    for file in files:
        for one in file.rules if is_for(file, hardware) else ():
            rule = read_rule(one.when)
            if (rule.row, rule.field) == (row, field):
                found.append(AppliedRule(rule, RowStatus(one.verdict), one.source))
    return tuple(found)


def is_for(file: ThresholdFile, hardware: str) -> bool:
    """Return whether a file is for this hardware: all words of one of its names are in the hardware's name."""
    if not file.hardware:
        return True
    words = set(hardware.upper().replace("-", " ").split())
    return not words & {name.upper() for name in file.without} and any(
        set(name.upper().split()) <= words for name in file.hardware
    )


@cache
def shipped() -> tuple[ThresholdFile, ...]:
    """Return the thresholds that clusterctl ships."""
    return tuple(
        ThresholdFile.model_validate(resources.table(path)) for path in sorted(FOLDER.glob("*.yaml"))
    )


def limits(site: Path | None = None) -> AcceptLimits:
    """Return all thresholds; raise ConfigError for a site's file that cannot be read, with the line of the problem."""
    return AcceptLimits(shipped(), None if site is None else _site(site))


def recorded(document: Any) -> AcceptLimits:
    """Return the shipped thresholds and those of a site that a run recorded; raise ValidationError for other data."""
    return AcceptLimits(shipped(), ThresholdFile.model_validate(document))


def _site(path: Path) -> ThresholdFile:
    try:
        document = yaml_source.parse(user_files.read(path, _MOST_BYTES), str(path))
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read: {error.strerror}", hint=user_files.hint_of(error, "give a YAML file")
        ) from None
    except InventoryError as error:
        raise ConfigError(error.message, hint="fix the file of thresholds and run again") from None
    value: dict[str, Any] = document.value
    rules = value.get("rules")
    for one in rules if isinstance(rules, list) else ():
        if isinstance(one, dict):
            one.setdefault("source", f"{path.name} of this site")
    try:
        return ThresholdFile.model_validate(value)
    except ValidationError as error:
        place = error.errors(include_url=False)[0]["loc"]
        line = document.line(tuple(place))
        raise ConfigError(
            f"{path}, line {line}: {model_errors.first(error)}",
            hint="a rule needs `when` and `verdict` (warn or fail); see docs/guides/accept.md",
        ) from None
