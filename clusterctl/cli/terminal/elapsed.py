"""Write durations for people."""

from __future__ import annotations


def spoken(duration_s: float, *, tenths: bool = True) -> str:
    """Return ``7.2 s`` (``7 s`` without tenths), ``1 min 05 s`` or ``2 h 03 min``."""
    if duration_s < 60:
        return f"{duration_s:.1f} s" if tenths else f"{int(duration_s)} s"
    minutes, seconds = divmod(int(duration_s), 60)
    if minutes < 60:
        return f"{minutes} min {seconds:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"
