"""A checkpoint that is asked for over the socket: what the trainer says it saved is verified where it is."""

import msgspec
import pytest

from specon_sidecar.checkpoints.checkpoint_request import Checkpoints, Identity
from specon_sidecar.checkpoints.checkpoint_watch import CheckpointWatch
from specon_sidecar.checkpoints.find import Fingerprint, fingerprint
from specon_sidecar.checkpoints.pause_lease import PauseLease
from specon_sidecar.checkpoints.volumes import describe_misplacement
from specon_sidecar.hook.messages import Refused, Saved
from specon_sidecar.parse import CheckpointMode
from specon_sidecar.trainer.process import CannotAskError
from specon_sidecar.wire import CheckpointInstruction
from support.clocks.sleeping_time import VirtualTime

IDENTITY = Identity("ns/job/worker/0", "uid")


class Asked:
    """Stands for the hook, and for the trainer behind it."""

    def __init__(self):
        self.calls, self.held, self.answers, self.absent = [], [], {}, ""

    def ask(self, request, pause):
        if self.absent:
            raise CannotAskError(self.absent)
        self.calls.append((request, pause))

    def answer(self, request):
        return self.answers.get(request) if self.calls else None

    def hold(self, request):
        self.held.append(request)

    def release(self, request):
        self.held.append(f"not {request}")


class Scene:
    def __init__(self, watch=None, mode="hook", volumes=None):
        self.hook, self.clock = Asked(), VirtualTime()
        self.subject = Checkpoints(
            mode=CheckpointMode(mode),
            watch=watch,
            process=None,
            step=lambda: 9,
            clock=self.clock,
            lease=PauseLease(lambda: self.hook),
            hook=self.hook,
            volumes=volumes,
        )

    async def obtain(self, pause=0.0):
        instruction = CheckpointInstruction(id="one", seconds_left=5.0, pause=pause)
        return await self.subject.obtain(instruction, IDENTITY)


async def test_what_was_saved_is_verified_where_it_is(tmp_path):
    """No checkpoint path is declared; the step is the trainer's word; all ranks are held before and after."""
    scene = Scene()
    (tmp_path / "any-name").write_bytes(b"weights")
    scene.hook.answers["one"] = Saved(str(tmp_path / "any-name"), 31, "one")
    answer = await scene.obtain(pause=30.0)
    assert (answer.done, answer.checkpoint.step, answer.checkpoint.verified, answer.paused) == (
        True,
        31,
        True,
        True,
    )
    assert answer.checkpoint.path == str(tmp_path / "any-name")
    assert scene.hook.calls[0] == ("one", 30.0)
    assert scene.hook.held == ["one"]
    await scene.subject.keep_pause()
    await scene.subject.release("one")
    assert scene.hook.held == ["one", "one", "not one"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Refused("one", "disk full"), "could not save: disk full"),
        (Saved("/nowhere/c", 3, "one"), "is it on a volume that the sidecar has, too"),
    ],
)
async def test_what_cannot_be_is_answered_at_once(answer, reason):
    """A trainer that cannot save, and a path that is not here: nobody waits for the deadline, or pauses."""
    scene = Scene()
    scene.hook.answers["one"] = answer
    told = await scene.obtain(pause=30.0)
    assert not told.done
    assert reason in told.reason
    assert scene.hook.held[-1] == "not one"
    assert scene.clock.now() < 1


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize(
    "place", ["/proc/self/environ", "/dev/shm", "elsewhere/c", "data/link", "data/../elsewhere/c"]
)
async def test_what_goes_with_the_trainer_is_no_checkpoint(tmp_path, place, given):
    """What lies outside of the volumes is refused, links followed; with none named, what the kernel shows."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "c").write_bytes(b"weights")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "link").symlink_to(tmp_path / "elsewhere" / "c")
    scene = Scene(volumes=(str(tmp_path / "data"),) if given else None)
    saved = scene.hook.answers["one"] = Saved(str(tmp_path / place), 3, "one")
    await scene.subject.hear(saved)
    answer = await scene.obtain()
    if given or place.startswith("/"):
        assert "outlives" in answer.reason
        assert (scene.subject.told, scene.subject.newest) == ((), None)
        assert await scene.subject.verify_told(saved, 5) is None
    else:
        assert answer.done


async def test_what_lies_on_a_volume_is_a_checkpoint(tmp_path):
    """Whatever links lead to the volume; one that was named below /dev is one, too."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "c").write_bytes(b"weights")
    (tmp_path / "volume").symlink_to(tmp_path / "data")
    scene = Scene(volumes=("/elsewhere", str(tmp_path / "volume")))
    scene.hook.answers["one"] = Saved(str(tmp_path / "data" / "c"), 3, "one")
    assert (await scene.obtain()).done
    assert not describe_misplacement("/dev/shm/c", ("/dev/shm",))
    assert describe_misplacement("/dev/shm/c", ("/",))
    assert "(nothing)" in describe_misplacement("/etc/passwd", ())


async def test_nobody_there_is_the_reason(tmp_path):
    """The answer says that a helper never spoke; a regular checkpoint in the declared folder still counts."""
    scene = Scene()
    scene.hook.absent = "the trainer's helper never reported"
    assert "never reported" in (await scene.obtain()).reason
    (tmp_path / "c").mkdir()
    scene = Scene(CheckpointWatch(tmp_path / "c", settle=0.1))
    scene.hook.absent = "the trainer's helper never reported"
    scene.clock.at(1.0, lambda: (tmp_path / "c" / "step-7.bin").write_bytes(b"weights"))
    assert (await scene.obtain()).checkpoint.step == 7


async def test_own_checkpoints_are_not_taken_for_the_answer(tmp_path):
    """A regular one that comes while the trainer was asked is not where it will pause."""
    scene = Scene(CheckpointWatch(tmp_path, settle=0.1))
    (tmp_path / "asked").mkdir()
    scene.clock.at(1.0, lambda: (tmp_path / "step-7.bin").write_bytes(b"weights"))
    (tmp_path / "asked" / "w").write_bytes(b"weights")
    saved = Saved(str(tmp_path / "asked"), 9, "one")
    scene.clock.at(2.0, lambda: scene.hook.answers.update(one=saved))
    assert (await scene.obtain()).checkpoint.step == 9


@pytest.mark.parametrize("marker", [None, "{name}.done"])
async def test_what_was_written_again_is_not_what_was_told(tmp_path, marker):
    """The next save, torn, is no proof of this step: neither at once, nor for who comes after."""
    last = tmp_path / "last.bin"
    last.write_bytes(b"a" * 1000)
    (tmp_path / "last.bin.done").write_text("100")
    scene = Scene(CheckpointWatch(tmp_path, marker=marker, settle=0.5))
    saved = Saved(str(last), 100, "one")
    await scene.subject.hear(saved)
    assert (await scene.subject.verify_newest(5)).step == 100
    last.write_bytes(b"b" * 12)
    assert await scene.subject.verify_newest(5) is None
    scene.hook.answers["one"] = saved
    assert "was changed after its step 100 was told" in (await scene.obtain()).reason
    successor = Scene()
    successor.subject.note_saved(Saved(str(last), 100), scene.subject.recall_fingerprint(saved))
    assert await successor.subject.verify_told(Saved(str(last), 100), 5) is None
    await successor.subject.hear(Saved(str(last), 150))
    assert await successor.subject.verify_told(Saved(str(last), 100), 5) is None


async def test_what_an_older_sidecar_kept_of_a_checkpoint_still_counts(tmp_path):
    """It kept no sum of times; what it kept is compared."""
    folder = tmp_path / "step-9"
    folder.mkdir()
    (folder / "a").write_bytes(b"weights")
    known = Fingerprint(*msgspec.structs.astuple(fingerprint(folder))[:5])
    scene = Scene()
    scene.subject.note_saved(Saved(str(folder), 9), known)
    assert (await scene.subject.verify_newest(5)).step == 9


async def test_what_was_not_there_when_it_was_told_is_no_checkpoint(tmp_path):
    """Who says so before it is written has said nothing of its end."""
    scene = Scene()
    await scene.subject.hear(Saved(str(tmp_path / "late"), 4))
    (tmp_path / "late").write_bytes(b"weights")
    assert await scene.subject.verify_newest(5) is None


async def test_what_is_told_counts_for_a_trainer_that_is_asked_in_another_way(tmp_path):
    """Without a declared folder the next one that its helper tells of is the answer."""
    scene = Scene(mode="periodic")
    (tmp_path / "c").write_bytes(b"weights")
    scene.subject.note_saved(Saved(str(tmp_path / "c"), 1))
    scene.clock.at(1.0, lambda: scene.subject.note_saved(Saved(str(tmp_path / "c"), 2)))
    assert (await scene.obtain()).checkpoint.step == 2
    assert [saved.step for saved in scene.subject.told] == [2]
