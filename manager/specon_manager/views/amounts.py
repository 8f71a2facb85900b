"""Losses, gains, steps and spans of time as they stand in tables, in as few characters as say enough."""

import math
from typing import Final

from specon_manager.model.progress import Progress
from specon_manager.model.resources import Resources

_MANY: Final = 100_000  # steps from which on they are counted in thousands
_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86400
_GIB: Final = 2.0**30


def value_text(value: float | None) -> str:
    """Return a loss or another metric; nothing where there is none."""
    if value is None:
        return ""
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if size and not 1e-3 <= size < 1e5:  # noqa: PLR2004 - what four decimals and seven digits can show
        return f"{value:.1e}"
    return f"{value:.4f}" if size < 10 else f"{value:.2f}"  # noqa: PLR2004 - one digit before the point


def gain_text(gain: float | None) -> str:
    """Return a gain, a part of one, in per cent."""
    if gain is None:
        return ""
    return f"{100 * gain:.2f}" if abs(gain) < 10 else f"{100 * gain:.0e}"  # noqa: PLR2004 - 1000 %


def steps_text(progress: Progress) -> tuple[str, float | None]:
    """Return the step, of how many where that is known, and which part of them is done."""
    if progress.step is None:
        return "", None
    if not progress.total_steps:
        return _count(progress.step), None
    done = min(1.0, max(0.0, progress.step / progress.total_steps))
    return f"{_count(progress.step)}/{_count(progress.total_steps)}", done


def span_text(seconds: float | None) -> str:
    """Return a span of time in its two largest units; nothing where there is none."""
    if seconds is None or not math.isfinite(seconds):
        return ""
    whole = max(0, int(seconds))
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m{whole % _MINUTE:02d}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h{whole % _HOUR // _MINUTE:02d}m"
    return f"{whole // _DAY}d{whole % _DAY // _HOUR:02d}h"


def _count(steps: int) -> str:
    return str(steps) if steps < _MANY else f"{steps / 1000:.0f}k"


def resources_text(amount: Resources) -> str:
    """Return processors, memory and GPUs in words, without those that are 0; `-` for nothing."""
    parts = [f"{amount.cpu:.4g} CPU"] if amount.cpu else []
    parts += [f"{amount.memory / _GIB:.4g} GiB"] if amount.memory else []
    parts += [f"{amount.gpu:.4g} GPU"] if amount.gpu else []
    return ", ".join(parts) or "-"
