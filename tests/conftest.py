"""For all tests."""

import gc
import signal
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from support.clocks import fair_time

# Before anything of ours is imported.
fair_time.install()
# How long an example takes depends on what else the machine does; what is slow is for the benchmarks to find.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
LONG = pytest.StashKey[int]()
"""How many long tests are left out."""


def pytest_configure() -> None:
    """Let Ctrl-C end what tests start, also in a run that a shell put into the background.

    Such a shell has it ignored, and whatever is started inherits that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_make_parametrize_id(val: Any, argname: str) -> str | None:
    """Name binary values by their argument, so that the workers of a parallel run collect the same names.

    An archive, for one, holds the second it was made in.
    """
    return argname if isinstance(val, bytes) and not val.isascii() else None


def pytest_collection_finish() -> None:
    """Set aside what is there of twelve thousand tests: a collection of garbage took half a second with it.

    It fell into whatever test ran at that moment, and some measure their processor time.
    """
    gc.collect()
    gc.freeze()


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Count the long tests that are left out; the worker of a parallel run tells the others' number."""
    for item in items:
        if item.get_closest_marker("long") is not None:
            item.config.stash[LONG] = item.config.stash.get(LONG, 0) + 1
            getattr(item.config, "workeroutput", {})["long"] = item.config.stash[LONG]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Hear of a worker's number: each has collected the same tests."""
    node.config.stash[LONG] = getattr(node, "workeroutput", {}).get("long", 0)


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
    if long := terminalreporter.config.stash.get(LONG, 0):
        terminalreporter.section("left out")
        terminalreporter.write_line(f"{long} long tests: `make test-long` runs them")
