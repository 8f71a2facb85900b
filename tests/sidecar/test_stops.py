"""A trainer that is stopped so that others can train is judged by the time that it had."""

import json
import math

import pytest

from specon_sidecar.classify import Category, ClassifierSettings
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.table import make_reader
from specon_sidecar.observing.observer import Observer
from specon_sidecar.trainer.stops import TrainingTime, stops_in
from support.clocks.sleeping_time import VirtualTime

SHARE = 0.25
PERIOD = 8.0


class Scene:
    """A trainer of a line a second that runs in the first part of each period, and its observer."""

    def __init__(self, folder, share=SHARE, classifier="horizon"):
        self.clock, self.share = VirtualTime(), share
        self.file = folder / "stopped.json"
        self.training = TrainingTime(self.clock, lambda: stops_in(self.file))
        settings = ClassifierSettings(interval=10.0, classifier=classifier)
        self.observer = Observer(settings, make_reader("auto", FormatOptions()), self.training.now())
        self.steps = 0

    def tell(self):
        periods, at = divmod(self.clock.time, PERIOD)
        run = self.share * PERIOD
        since = self.clock.time - at + run if at > run else None
        self.file.write_text(json.dumps({"seconds": periods * (PERIOD - run), "since": since}))

    async def train(self, steps, loss):
        """Train on to so many steps; the sidecar judges at the end of each of its intervals."""
        due = self.training.now() + 10.0
        while self.steps < steps:
            await self.clock.sleep(0.5)
            self.tell()
            now = self.training.now()
            while self.steps < min(steps, int(now)):
                self.steps += 1
                line = f"step={self.steps}/2000 loss={loss(self.steps):.6f}\n"
                self.observer.take([line.encode()], now)
            if now >= due:
                self.observer.tick(now)
                due += 10.0


def falling(step):
    return 0.1 + 2 * math.exp(-step / 500)


@pytest.fixture
def scene(tmp_path):
    return Scene(tmp_path)


async def test_the_clock_stands_still_while_the_trainer_is_stopped(scene):
    """In a period with a quarter for the trainer a quarter passes, and it never goes back."""
    times = []
    for _ in range(200):
        await scene.clock.sleep(0.5)
        scene.tell()
        times.append(scene.training.now())
    assert times == sorted(times)
    assert times[-1] == pytest.approx(SHARE * scene.clock.time, abs=2.0)
    assert scene.training.stopped == pytest.approx((1 - SHARE) * scene.clock.time, abs=2.0)


@pytest.mark.parametrize(
    "content", ["", "[]", '{"seconds": -1}', '{"seconds": 1e99}', '{"since": 3}', "x" * 5000]
)
async def test_what_is_no_account_changes_nothing(scene, content):
    """Garbage in its place is as if nothing had been said since."""
    await scene.clock.sleep(50.0)
    scene.tell()
    known = scene.training.stopped
    scene.file.write_text(content)
    assert scene.training.stopped == known
    scene.file.write_text(json.dumps({"seconds": 0.0, "since": None}))  # less than before
    assert scene.training.stopped == known
    scene.file.unlink()
    assert scene.training.stopped == known


async def test_an_interval_is_over_when_the_trainer_had_its_time(scene):
    """A sidecar that waits for an interval of ten seconds waits for four times that."""
    tick = 0.5

    async def sleep(seconds):
        for _ in range(round(seconds / tick)):
            scene.clock.time += tick
            scene.tell()

    scene.clock.sleep = sleep
    await scene.training.sleep_until(10.0, tick)
    assert scene.training.now() >= 10.0
    assert scene.clock.time == pytest.approx(34.0, abs=2.0)


@pytest.mark.parametrize("classifier", ["horizon", "specon"])
async def test_a_job_in_turns_is_judged_like_one_that_runs_on(tmp_path, classifier):
    """Its pace, its gains by interval and its category are those of a job that is never stopped."""
    reports = []
    for share in (1.0, SHARE):
        scene = Scene(tmp_path, share, classifier)
        await scene.train(300, falling)
        reports.append(scene.observer.report(scene.training.now(), replica="a", incarnation="a", session="a"))
    alone, sliced = reports
    assert alone.category is sliced.category is not Category.UNKNOWN
    assert sliced.gain == pytest.approx(alone.gain, rel=0.05)
    assert sliced.remaining_seconds.value == pytest.approx(alone.remaining_seconds.value, rel=0.05)
    assert sliced.remaining_seconds.value == pytest.approx(1700, rel=0.05)


async def test_an_end_of_a_stop_that_was_not_told_is_none_for_ever(scene):
    """Where the disk was full when the trainer was continued its sidecar judges on all the same."""
    scene.file.write_text(json.dumps({"seconds": 3.0, "since": 0.0}))
    await scene.clock.sleep(100.0)
    assert scene.training.stopped == 13.0
    assert scene.training.now() == 87.0


async def test_a_job_that_hardly_runs_is_not_silent(scene):
    """Stopped for most of the time it is neither called slow nor converged for that."""
    await scene.train(100, falling)
    for _ in range(600):
        await scene.clock.sleep(0.5)
        scene.file.write_text(json.dumps({"seconds": scene.clock.time - 100.0, "since": None}))
    silent = scene.observer.tick(scene.training.now())
    assert silent.category is Category.PROGRESSING
