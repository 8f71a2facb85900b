"""For all tests."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import settings

# How long an example takes depends on what else the machine does; what is slow is for the benchmarks to find.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_make_parametrize_id(val: Any, argname: str) -> str | None:
    """Name binary values by their argument, so that the workers of a parallel run collect the same names.

    An archive, for one, holds the second it was made in.
    """
    return argname if isinstance(val, bytes) and not val.isascii() else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say once for each reason how many tests it skipped: a line for each test would hide what failed."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", ())
        if isinstance(report.longrepr, tuple)
    )
    if reasons:
        terminalreporter.section("skipped")
    for reason, number in reasons.most_common():
        terminalreporter.write_line(f"{number} skipped: {reason}")
