"""A trainer that has saved waits as long as its sidecar wants it to, and no longer."""

import os
import time

import msgspec
import pytest

from specon_sidecar.checkpoints.checkpoint_request import Checkpoints, Identity
from specon_sidecar.checkpoints.checkpoint_watch import CheckpointWatch
from specon_sidecar.checkpoints.pause_lease import PauseLease, file_keeper, lease_file
from specon_sidecar.classify import Category, ClassifierSettings
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.table import make_reader
from specon_sidecar.observing.observer import Observer
from specon_sidecar.parse import CheckpointMode
from specon_sidecar.wire import CheckpointInstruction
from support.clocks.sleeping_time import VirtualTime

IDENTITY = Identity("ns/job/worker/0", "uid")
PAUSE = 30.0


class Process:
    alive = True


class Scene:
    """A sidecar's part that asks a trainer, which saves at once unless told otherwise."""

    def __init__(self, folder, mode=None):
        self.checkpoints = folder / "checkpoints"
        self.checkpoints.mkdir()
        mode = mode or CheckpointMode("file", str(folder / "save"))
        self.file = lease_file(mode, self.checkpoints)
        self.clock, self.process = VirtualTime(), Process()
        self.saves, self.found, self.step = True, [], 0
        self.subject = Checkpoints(
            mode=mode,
            watch=CheckpointWatch(self.checkpoints, settle=0.1),
            process=self.process,
            step=lambda: 9,
            clock=self.clock,
            asker=self.ask,
            lease=PauseLease(lambda: file_keeper(mode, self.checkpoints)),
        )

    async def ask(self, mode, process, instruction):
        self.found.append(self.content())
        self.step += 1
        if self.saves:
            (self.checkpoints / f"step-{self.step}.bin").write_bytes(b"weights")

    def content(self):
        return self.file.read_text() if self.file is not None and self.file.exists() else None

    def grow_old(self):
        os.utime(self.file, (1, 1))

    def age(self):
        return time.time() - self.file.stat().st_mtime

    async def obtain(self, name="move-1", pause=PAUSE):
        return await self.subject.obtain(
            CheckpointInstruction(id=name, seconds_left=5.0, pause=pause), IDENTITY
        )


@pytest.fixture
def scene(tmp_path):
    return Scene(tmp_path)


async def test_the_lease_is_there_before_the_trainer_is_asked(scene):
    """It names the request; the answer says that the trainer pauses."""
    answer = await scene.obtain()
    assert (answer.done, answer.checkpoint.step, answer.paused) == (True, 1, True)
    assert scene.found == ["move-1\n"]
    assert scene.content() == "move-1\n"
    assert scene.age() < 5


async def test_the_lease_is_renewed_until_the_pause_is_over(scene):
    """Its time is that of the last renewal: one whose sidecar died grows old."""
    await scene.obtain()
    for _ in range(29):
        scene.grow_old()
        await scene.clock.sleep(1.0)
        await scene.subject.keep_pause()
        assert scene.age() < 5
    await scene.clock.sleep(1.0)
    await scene.subject.keep_pause()
    assert scene.content() is None
    assert (await scene.obtain()).paused is False  # the same answer, and what is true now


async def test_it_is_renewed_while_the_checkpoint_is_waited_for(scene):
    """The pause counts from the answer on, for a large checkpoint takes its time."""
    scene.saves = False
    scene.clock.at(3.0, lambda: (scene.checkpoints / "step-7.bin").write_bytes(b"weights"))
    scene.clock.at(2.0, scene.grow_old)
    answer = await scene.obtain()
    assert answer.checkpoint.step == 7
    await scene.subject.keep_pause()
    assert scene.age() < 5
    assert scene.subject.paused(0.0, scene.clock.now() + 10) == pytest.approx(10, abs=0.1)


async def test_no_pause_was_asked_for(scene):
    """Then there is no lease."""
    answer = await scene.obtain(pause=0.0)
    assert (answer.done, answer.paused, scene.found) == (True, False, [None])


async def test_a_refusal_keeps_nobody_waiting(scene):
    """What could not be had is not worth a pause."""
    scene.saves = False
    answer = await scene.obtain()
    assert (answer.done, answer.paused) == (False, False)
    assert (scene.found, scene.content()) == (["move-1\n"], None)


async def test_a_release_is_for_the_request_that_it_names(scene):
    """A late one does not end a later pause."""
    await scene.obtain("move-2")
    await scene.subject.release("move-1")
    assert scene.content() == "move-2\n"
    await scene.subject.release("move-2")
    assert scene.content() is None
    await scene.subject.release("move-2")


@pytest.mark.parametrize("pause", [PAUSE, 0.0])
async def test_a_later_request_ends_the_pause_of_an_earlier(scene, pause):
    """Its trainer trains on by a step, and saves anew."""
    await scene.obtain("move-1")
    answer = await scene.obtain("move-2", pause)
    assert (answer.checkpoint.step, answer.paused) == (2, pause > 0)
    assert scene.found == ["move-1\n", "move-2\n" if pause else None]


async def test_the_end_of_the_trainer_ends_the_lease(scene):
    """Nobody is left to wait."""
    await scene.obtain()
    scene.process.alive = False
    await scene.subject.keep_pause()
    assert scene.content() is None


async def test_the_end_of_the_sidecar_ends_the_lease(scene):
    """Nobody is left to release it."""
    await scene.obtain()
    scene.subject.cancel()
    assert scene.content() is None


async def test_a_file_of_others_in_its_place_is_not_renewed(scene):
    """The lease is over then, and the other one keeps its content and its time."""
    await scene.obtain()
    scene.file.write_text("move-2\n")
    scene.grow_old()
    await scene.subject.keep_pause()
    assert (scene.content(), scene.file.stat().st_mtime) == ("move-2\n", 1.0)
    assert (await scene.obtain()).paused is False


async def test_what_is_no_file_in_its_place_is_left_alone(scene):
    """The lease is over then: nothing is opened or waited for."""
    await scene.obtain()
    scene.file.unlink()
    os.mkfifo(scene.file)
    await scene.subject.keep_pause()
    assert (await scene.obtain()).paused is False
    assert scene.file.is_fifo()


async def test_a_link_in_its_place_is_replaced_and_never_followed(scene):
    """What it led to stays as it was."""
    other = scene.checkpoints.parent / "other"
    other.write_text("precious")
    scene.file.symlink_to(other)
    (scene.file.parent / f".{scene.file.name}.{os.getpid()}.tmp").symlink_to(other)
    assert (await scene.obtain()).paused
    assert not scene.file.is_symlink()
    await scene.subject.release("move-1")
    assert other.read_text() == "precious"


async def test_a_lease_that_cannot_be_written_costs_the_pause_and_not_the_checkpoint(tmp_path):
    """A folder that is read-only for the sidecar, for instance."""
    scene = Scene(tmp_path, CheckpointMode("file", str(tmp_path / "missing" / "save")))
    answer = await scene.obtain()
    assert (answer.done, answer.paused) == (True, False)


@pytest.mark.parametrize("mode", ["periodic", "http:http://localhost/save"])
async def test_other_ways_to_ask_know_no_pause(tmp_path, mode):
    """The checkpoint is obtained all the same."""
    kind, _, target = mode.partition(":")
    answer = await Scene(tmp_path, CheckpointMode(kind, target)).obtain()
    assert (answer.done, answer.paused) == (True, False)


async def test_a_signal_finds_its_lease_hidden_among_the_checkpoints(tmp_path):
    """It names no request to the trainer, and is taken for no checkpoint."""
    scene = Scene(tmp_path, CheckpointMode("signal", "USR1"))
    answer = await scene.obtain()
    assert (answer.checkpoint.step, answer.paused) == (1, True)
    assert (scene.checkpoints / ".pause").read_text() == "move-1\n"


def test_beside_the_one_file_that_is_the_checkpoint(tmp_path):
    """A file has no folder of its own."""
    (tmp_path / "model.pt").touch()
    mode = CheckpointMode("signal", "USR1")
    assert lease_file(mode, tmp_path / "model.pt") == tmp_path / ".pause"


def observer(**changes):
    settings = msgspec.structs.replace(ClassifierSettings(classifier="specon", interval=1.0), **changes)
    subject = Observer(settings, make_reader("auto", FormatOptions()), 0.0)
    subject.tick(1.0)
    return subject


def trained(subject, begin, end, step):
    """Let it log four steps a second."""
    for number in range(4 * (end - begin)):
        line = f"step={step + number}/1000 loss={5 / (step + number):.6f}".encode()
        subject.take([line], begin + (number + 0.5) / 4)
        if number % 4 == 3:
            subject.tick(begin + (number + 1) / 4)
    return step + 4 * (end - begin)


def test_a_trainer_that_pauses_is_not_taken_for_hung():
    """Its category and its reason stay; one that is silent unasked is stalled by then."""
    for paused, category in ((1.0, Category.PROGRESSING), (0.0, Category.STALLED)):
        subject = observer()
        trained(subject, 1, 6, 1)
        for second in range(7, 60):
            subject.tick(float(second), paused)
        assert subject.judgement.category is category


def test_a_pause_changes_neither_the_pace_nor_what_is_silence_afterwards():
    """Trained on, it is as if there had been none: the time that remains, the gain, the longest gap."""
    told = []
    for pause in (0, 40):
        subject = observer()
        step = trained(subject, 1, 9, 1)
        for second in range(9, 9 + pause):
            subject.tick(second + 1.0, 1.0)
        trained(subject, 9 + pause, 15 + pause, step)
        report = subject.report(15.0 + pause, replica="ns/j/worker/0", incarnation="u", session="s")
        told.append((report.remaining_seconds, report.gain, report.category, subject.curve.longest_gap))
    assert told[0] == told[1]


def test_a_trainer_that_trains_in_spite_of_the_lease_is_judged_as_ever():
    """What its log shows counts, not what it was asked."""
    subject, asked = observer(), observer()
    for one, paused in ((subject, 0.0), (asked, 1.0)):
        for second in range(1, 20):
            one.take([f"step={second}/100 loss={5 / second}".encode()], second + 0.5)
            one.tick(second + 1.0, paused)
    assert asked.judgement == subject.judgement
    assert asked.curve.remaining_seconds() == subject.curve.remaining_seconds()
