"""Read the table of perftest's programs, by its header: bandwidths in Gb/s, or latencies in microseconds."""

from __future__ import annotations

import re

from clusterctl.acceptance.model import MOST_VALUES, Parsed, RowMeasurement
from clusterctl.text.foreign import NotUnderstood, decimal, lines
from clusterctl.text.visible import visible
from clusterctl.text.wording import some

RAIL = "clusterctl: rail "
"""What the script prints before each run: the device, and what it is (``mlx5_0 RDMA 400 Gb/s``)."""
_NO_CLOCK = re.compile(r"Correlation coefficient r\^2: [-+.0-9a-z]{1,20} < 0\.9")
"""What perftest prints if it cannot calibrate the CPU's clock, because other programs used the CPU meanwhile."""
_COLUMN = re.compile(r"#?[A-Za-z0-9_.%]{1,20}(?: [a-z]{1,20})?(?:\[[A-Za-z/]{1,10}\])?")
# perftest's MB are MiB. The two decimals of --report_gbits are too coarse for slow links.
_GBIT_OF_MIB = 8 * 2**20 / 1e9
# Of each column: the field, its unit, the factor to that unit, and whether a higher value is better.
_COLUMNS = {
    "BW average[MB/sec]": ("write_gbit_per_s", "Gb/s", _GBIT_OF_MIB, True),
    "BW average[MiB/sec]": ("write_gbit_per_s", "Gb/s", _GBIT_OF_MIB, True),
    "t_typical[usec]": ("latency_us", "us", 1.0, False),
    "t_avg[usec]": ("latency_us", "us", 1.0, False),
}


def parse(text: str) -> Parsed:
    """Return one value per rail; raise NotUnderstood if a rail has no value.

    A rail whose value is 0 or not a number because perftest could not read the clock is a reason in ``not_run``.
    """
    found: list[RowMeasurement] = []
    unread: dict[str, str] = {}
    rail, hardware, open_rail, no_clock = "", "", False, ""
    columns: list[str] = []
    for line in lines(text):
        if line.startswith(RAIL):
            if open_rail:
                raise NotUnderstood(f"perftest printed no result for {rail}")
            rail, _, hardware = visible(line.removeprefix(RAIL))[:120].partition(" ")
            open_rail, columns, no_clock = True, [], ""
        elif _NO_CLOCK.fullmatch(line.strip()):
            no_clock = line.strip()
        elif line.strip().startswith("#bytes"):
            columns = _COLUMN.findall(line)
        elif columns and line.split() and line.split()[0].isdigit():
            if open_rail:  # what is tried again may print a table twice
                if len(found) + len(unread) >= MOST_VALUES:
                    raise NotUnderstood(f"expected at most {MOST_VALUES} rails")
                try:
                    found.append(_value(dict(zip(columns, line.split(), strict=False)), rail, hardware))
                except NotUnderstood:
                    if not no_clock:
                        raise
                    unread[rail] = no_clock
            open_rail, columns = False, []
    if open_rail or not (found or unread):
        raise NotUnderstood(f"perftest printed no result for {rail or 'any rail'}")
    return Parsed(tuple(found), not_run=_without_clock(unread))


def _without_clock(unread: dict[str, str]) -> str:
    """Return why rails were not measured, from perftest's message for each, or an empty text without such rails."""
    if not unread:
        return ""
    printed = next(iter(unread.values()))
    return (
        f"{some(list(unread))} not measured: perftest could not read the clock ({printed}), because other programs "
        "used the CPU; run the row again on an idle node"
    )


def _value(row: dict[str, str], rail: str, hardware: str) -> RowMeasurement:
    for column, (field, unit, factor, up) in _COLUMNS.items():
        if column in row:
            value = round(decimal(row[column]) * factor, 3)
            if not value > 0:
                raise NotUnderstood(f"perftest measured {value:g} {unit} on {rail}")
            return RowMeasurement(field, value, unit, up, rail, hardware)
    raise NotUnderstood(f"perftest's table has none of the columns {', '.join(_COLUMNS)}")
