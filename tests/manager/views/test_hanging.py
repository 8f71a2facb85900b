"""That a replica hangs is seen first, everywhere, in the same words; its log only where its owner asks."""

import json

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from specon_manager.cli.look.explain import explanation
from specon_manager.cli.look.top_table import heading
from specon_manager.runtime.report_metrics import ReportMetrics
from specon_manager.views.happenings import happenings
from specon_manager.views.page import picture
from specon_manager.views.replicas import top_of
from specon_manager.views.view import View
from specon_manager.views.words import Trouble, word_for
from specon_sidecar.wire import Checkpoint, Hang
from support.decisions.changed_worlds import W0, W1, runs
from support.decisions.cluster import DIGEST

HANG = Hang(age=1.0, silent=75.0, usual=1.5, processes="2 processes (2 S)", lines=("step 7 \x1b[31mloss",))


@pytest.fixture
def seen():
    """Return the states before and after both workers of a gang hang, and when that is."""
    with runs("restart", on_hang="restart") as cluster:
        before = cluster.state
        cluster.now += 80
        for name in (W0, W1):
            saved = Checkpoint(step=90, path="/c", digest=DIGEST)
            cluster.report(name, step=None, hang=HANG, checkpoint=saved)
        yield before, cluster.state, cluster.now


def view_of(state, now):
    return View(state=state, now=now, transactions=(), waiting=(), caveats=())


def test_top_shows_it_first(seen):
    """Whatever the category."""
    _, state, now = seen
    top = top_of(view_of(state, now), where="here")
    assert top.hung == 2
    assert [row.hung for row in top.replicas[:2]] == [True, True]
    assert any("HUNG: 2" in line.plain for line in heading(top, sort="category", reverse=False))


def test_explain_says_what_shows_it_and_what_is_done(seen):
    """With the last lines of the log, and nothing in them that steers a terminal."""
    _, state, _ = seen
    lines = explanation(state, W0, [])
    assert "  it hangs: no step for 1m15s, usually 1.5 s; 2 processes (2 S)" in lines
    assert "  it is restarted from its last verified checkpoint" in lines
    assert lines[lines.index("  the last lines of its log:") + 1].startswith("    step 7 ")
    assert "\x1b" not in "".join(lines)


def test_the_page_and_the_lines_of_a_run_say_it_without_the_log(seen):
    """Others see these, too."""
    before, state, now = seen
    shown = picture(state, now, lambda _name, _most: ())
    assert shown["counts"]["words"]["hung"] == 2
    assert "step 7" not in json.dumps(shown)
    told = happenings(before, state, began=now, now=now)
    assert sum("hangs: no step for" in line for line in told) == 2
    assert "step 7" not in "".join(told)


def test_the_metric_counts_those_that_hang_and_no_log_is_a_label(seen):
    """A gang with a missing member does not count."""
    _, state, now = seen
    registry = CollectorRegistry()
    metrics = ReportMetrics(registry)
    metrics.count(state, now)
    assert registry.get_sample_value("specon_replicas_hung") == 2
    torn = state.with_replica(msgspec.structs.replace(state.replicas[W1], phase="Pending", lost_at=now))
    assert word_for(state, state.replicas[W0]) is Trouble.HUNG
    assert word_for(torn, torn.replicas[W0]) is not Trouble.HUNG
    metrics.forget()
    assert registry.get_sample_value("specon_replicas_hung") == 0
