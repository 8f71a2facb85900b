"""Every query of every panel on a real Prometheus that has scraped real managers."""

import asyncio
import time
from pathlib import Path

import pytest

from specon_manager.model.transactions import TransactionState
from specon_manager.runtime.job_metrics import CATEGORY_NUMBERS
from specon_manager.runtime.state_directory import read_address
from specon_sidecar.classify import Category
from specon_tools.observability.files import DASHBOARDS
from support.local.stage import MOVER, Stage
from support.packaging.programs import program
from support.watching.changed_metrics import ChangedJobs
from support.watching.prometheus import Prometheus
from support.watching.promql import filled_in
from support.watching.scraped_cluster import ScrapedCluster

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]

RULES = Path(__file__).parents[2] / "charts" / "specon" / "files" / "alerts.yaml"
RANGES = {"__rate_interval": "10s", "__range": "2m"}
CONVERGED = CATEGORY_NUMBERS[Category.CONVERGED]
IN_FLIGHT = 'specon_oldest_transaction_age_seconds{kind="move"} > 0'
SEEN = "seen"
"""The file without which the mover does not save: Prometheus has seen that it moves."""
HAPPENED = (
    'changes(specon_job_category{job_name="a"}[10m]) > 0',
    "changes(specon_job_moves[10m]) > 0",
    "increase(specon_move_downtime_seconds_count[10m]) > 0",
    "increase(specon_move_effects_total[10m]) > 0",
)
"""What is waited for, for its own sake or because it comes last."""
MAY_BE_ZERO = {
    "Converged now",
    "Core-hours held by converged jobs",
    "GPU-hours held by converged jobs",  # no node of this run has a GPU
    "Core-hours freed",
    "GPU-hours freed",
    "Paused",
    "Steps trained again",
    "Stuck",
    "Queued requests",
    "Waiting jobs",
    "Longest wait now",
    "Preemptions",
    "Scaled workers",
    "Pods without their sidecar",
    "Replicas without series",
    "Reports",  # some may be ignored
    "Silent replicas",
    "Hung replicas",
    "Lines of training logs",  # some may not be parsed
    "Crashes of replicas",
    "Share of requests that failed",
    "Events that were not written",
}
"""What need not happen in this run: there the panel shows that nothing did."""


@pytest.fixture
def stage(tmp_path):
    program("prometheus")  # before anything is started in vain
    folder = tmp_path / "local"
    folder.mkdir()
    stage = Stage(folder)
    yield stage
    stage.close()


async def until(holds, stage, seconds=150.0):
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, stage.story()
        await asyncio.sleep(0.1)
    return found


async def test_every_panel_shows_something(stage, tmp_path):
    """Local jobs converge and move; on a cluster in memory a manager leads, injects and hears of pods.

    That jobs are changed, and wait in queues, is made up. A panel without a number is one whose query is
    wrong. Rules are evaluated, and no label is renamed.
    """
    # Both want to leave as soon as somebody comes who grows: one may, the other one is refused.
    pinned = stage.job("pinned", migrate=False)
    mover = stage.job(MOVER, "--save-once", str(stage.folder / SEEN), submit_at=4)
    patience = {"deadlines": {"start": 60, "hold": 60, "checkpoint": 120, "verify": 120}}
    stage.write_jobs(pinned, {"name": "first", "command": "true"}, mover, **patience)
    manager = stage.manager(hurry=False)
    local = await until(lambda: read_address(stage.state), stage)
    with ChangedJobs() as changed:
        targets = {"local": local.port, "changed": changed.port}
        await _look(stage, manager, targets, tmp_path)


async def _look(stage, manager, targets, tmp_path):
    async with ScrapedCluster(tmp_path) as cluster:
        targets = {**targets, "cluster": cluster.metrics_port}
        async with Prometheus(tmp_path, targets=targets, rules=RULES) as prometheus:
            await cluster.train("a")
            await cluster.train("b")
            name = f"default/{MOVER}/worker/0"
            await until(lambda: manager.told_of(replica=name, category="converged"), stage)
            # What follows happens between two scrapes, so that it is a change.
            await prometheus.until(f'specon_job_category{{job_name="a"}} != {CONVERGED}')
            cluster.converge("a")
            await asyncio.to_thread(stage.submit_neighbour)
            await prometheus.until(IN_FLIGHT)
            (stage.folder / SEEN).touch()
            await until(lambda: manager.told_of(state=TransactionState.SUCCEEDED), stage)
            for happened in HAPPENED:
                await prometheus.until(happened)
            found = {name: await prometheus.figure(filled_in(expr, **RANGES)) for name, expr in queries()}
            lines = [
                f"{name}: {one.series} series, {one.points} points, at most {one.highest:.6g}"
                for name, one in found.items()
            ]
            (tmp_path / "panels.txt").write_text("\n".join(lines) + "\n")
            assert not [name for name, one in found.items() if not one.points]
            still = [name for name, one in found.items() if not one.highest > 0]
            assert {name.split(" / ")[1].partition(" [")[0] for name in still} <= MAY_BE_ZERO
            groups = (await prometheus.ask("rules"))["groups"]
            assert {rule["health"] for group in groups for rule in group["rules"]} == {"ok"}
            labels = await prometheus.ask("labels")
            assert "job_name" in labels
            assert not [label for label in labels if label.startswith("exported_")]


def queries():
    for dashboard in DASHBOARDS:
        for panel in dashboard.panels:
            for number, query in enumerate(panel.queries):
                yield f"{dashboard.uid} / {panel.title} [{number}]", query.expr
        for mark in dashboard.annotations:
            yield f"{dashboard.uid} / {mark.name} (annotation)", mark.expr
