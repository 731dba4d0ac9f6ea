"""Read the documents of iperf3: the rate of one TCP stream, that of many, and the share of the one in the many."""

from __future__ import annotations

import re

from clusterctl.acceptance.model import MOST_JSON_BYTES, Parsed, RowMeasurement
from clusterctl.text.foreign import NotUnderstood, json_value
from clusterctl.text.visible import visible

MANY = 8
"""How many streams run together."""
_BEFORE = re.compile(r"^clusterctl: ([0-9]{1,3}) stream\(s\) over (TCP[ 0-9.A-Za-z/]{0,40})$", re.MULTILINE)
_FIELDS = {"1": "one_stream_gbit_per_s", str(MANY): "many_streams_gbit_per_s"}


def parse(text: str) -> Parsed:
    """Return both rates as the receiver counted them, and their ratio; raise NotUnderstood without both."""
    _, *parts = _BEFORE.split(text, maxsplit=len(_FIELDS))
    rates: dict[str, float] = {}
    version = ""
    for streams, document in zip(parts[::3], parts[2::3], strict=True):
        rates[streams], version = _rate(document, streams)
    if rates.keys() != _FIELDS.keys():
        raise NotUnderstood(f"iperf3 did not measure both 1 stream and {MANY} streams")
    hardware = parts[1]
    values = [
        RowMeasurement(field, rates[streams], "Gb/s", higher_is_better=True, hardware=hardware)
        for streams, field in _FIELDS.items()
    ]
    share = rates["1"] / rates[str(MANY)]
    values.append(
        RowMeasurement("one_stream_share", share, "of many", higher_is_better=True, hardware=hardware)
    )
    return Parsed(tuple(values), version=version)


def _rate(document: str, streams: str) -> tuple[float, str]:
    """Return the rate in Gb/s, and the version of iperf3."""
    found = json_value(document, most_bytes=MOST_JSON_BYTES)
    parts = found if isinstance(found, dict) else {}
    start, end = parts.get("start"), parts.get("end")
    received = end.get("sum_received") if isinstance(end, dict) else None
    value = received.get("bits_per_second") if isinstance(received, dict) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise NotUnderstood(f"iperf3 measured nothing with {streams} stream(s)")
    version = start.get("version", "") if isinstance(start, dict) else ""
    return value / 1e9, visible(str(version))[:40]
