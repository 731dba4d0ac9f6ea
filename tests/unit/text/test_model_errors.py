"""Pydantic's errors in the words of clusterctl: no sentence of pydantic's own reaches a user."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from clusterctl.text import model_errors


class Shape(BaseModel):
    """One field for each kind of error."""

    model_config = ConfigDict(extra="forbid")

    whole: int = 1
    number: float = 1.0
    flag: bool = True
    text: str = ""
    listed: tuple[int, ...] = ()
    mapped: dict[str, int] = {}
    low: Annotated[int, Field(ge=1, le=9)] = 1
    above: Annotated[float, Field(gt=0.5)] = 1.0
    word: Annotated[str, Field(min_length=1, max_length=3)] = "a"
    form: Annotated[str, Field(pattern="^a$")] = "a"
    choice: Literal["a", "b"] = "a"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"whole": "x"}, "whole: expected a whole number, not 'x'"),
        ({"whole": 1.5}, "whole: expected a whole number, not 1.5"),
        ({"number": []}, "number: expected a number, not a list"),
        ({"flag": "maybe"}, "flag: expected true or false, not 'maybe'"),
        ({"text": None}, "text: expected text, not null"),
        ({"listed": {}}, "listed: expected a list, not a mapping"),
        ({"listed": [1, "x"]}, "listed.1: expected a whole number, not 'x'"),
        ({"mapped": 3}, "mapped: expected a mapping, not 3"),
        ({"low": 0}, "low: expected 1 or more, not 0"),
        ({"low": 10}, "low: expected 9 or less, not 10"),
        ({"above": 0.5}, "above: expected more than 0.5, not 0.5"),
        ({"word": ""}, "word: expected a text that is not empty, not ''"),
        ({"word": "long"}, "word: expected at most 3 characters, not 'long'"),
        ({"form": "b" * 80}, f"form: '{'b' * 56}... is not a valid value"),
        ({"choice": "c"}, "choice: expected 'a' or 'b', not 'c'"),
        ({"other": 1}, "other: unknown key"),
    ],
)
def test_the_first_problem_names_place_expectation_and_value(given: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Shape.model_validate(given)
    assert model_errors.first(caught.value) == said


def test_a_text_that_is_not_json() -> None:
    with pytest.raises(ValidationError) as caught:
        Shape.model_validate_json("{")
    assert model_errors.first(caught.value).startswith("not valid JSON: EOF while parsing")
