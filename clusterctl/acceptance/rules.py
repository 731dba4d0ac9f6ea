"""Read rules over what rows measured: ``gpu-gemm.bf16_tflops < 0.95 * fleet_median``."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass

from clusterctl.text.foreign import decimal

FLEET_MEDIAN = "fleet_median"
_COMPARE = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
_NUMBER = r"-?[0-9]{1,20}(?:\.[0-9]{1,20})?(?:[eE][-+]?[0-9]{1,2})?"
_RULE = re.compile(
    rf"\s*([a-z0-9-]{{1,40}})\.([a-z0-9_]{{1,60}})\s*(<=|>=|==|!=|<|>)\s*"
    rf"(?:(?:({_NUMBER})\s*\*\s*)?({FLEET_MEDIAN})|({_NUMBER}))\s*"
)


class BadRuleError(ValueError):
    """Report a text that is not a rule."""


@dataclass(frozen=True, slots=True)
class AcceptRule:
    """A condition that a value must not meet; ``of_median``: ``number`` is a factor of the fleet's median."""

    row: str
    field: str
    compare: str
    number: float
    of_median: bool = False

    def bound(self, median: float | None) -> float | None:
        """Return the number to compare with; None if it depends on a median that is missing."""
        if not self.of_median:
            return self.number
        return None if median is None else self.number * median

    def meets(self, value: float, bound: float) -> bool:
        """Return whether a value meets the condition, so that the rule's verdict applies."""
        return bool(_COMPARE[self.compare](value, bound))

    def wanted(self, bound: float) -> str:
        """Return what the rule wants, the opposite of its condition: ``>= 715``."""
        return f"{_OPPOSITE[self.compare]} {bound:.6g}"

    @property
    def text(self) -> str:
        """Return the rule as users write it."""
        number = f"{self.number:.6g}"
        return f"{self.row}.{self.field} {self.compare} " + (
            f"{number} * {FLEET_MEDIAN}" if self.of_median else number
        )


def read_rule(text: str) -> AcceptRule:
    """Return the rule in a text; raise BadRuleError for any other text."""
    found = _RULE.fullmatch(text) if len(text) <= 200 else None
    if found is None:
        raise BadRuleError(
            f"{text[:80]!r} is not a rule; expected ROW.FIELD, one of < <= > >= == !=, and a number or "
            f"NUMBER * {FLEET_MEDIAN}"
        )
    row, field, compare, factor, median, number = found.groups()
    if median is None:
        return AcceptRule(row, field, compare, decimal(number))
    return AcceptRule(row, field, compare, 1.0 if factor is None else decimal(factor), of_median=True)
