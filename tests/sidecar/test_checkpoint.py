import asyncio
import os
import signal
import sys
import time
import zipfile
from random import Random
from subprocess import PIPE, Popen
from threading import Event

import pytest

from specon_sidecar.checkpoints.ask import ask
from specon_sidecar.checkpoints.checkpoint_request import Checkpoints, Identity
from specon_sidecar.checkpoints.checkpoint_watch import (
    CheckpointWatch,
    UnverifiedCheckpoint,
)
from specon_sidecar.checkpoints.find import TooManyEntriesError, fingerprint
from specon_sidecar.checkpoints.table import OWN_FILE, step_in_name
from specon_sidecar.checkpoints.verify import CancelledError, UnreadableError, verify
from specon_sidecar.parse import CheckpointMode
from specon_sidecar.trainer.process import CannotAskError, TrainerProcess
from specon_sidecar.wire import CheckpointInstruction
from support.clocks.sleeping_time import VirtualTime

IDENTITY = Identity("ns/job/worker/0", "uid")
PERIODIC = CheckpointMode("periodic")


def write(path, content=b"\x80weights", *, renamed=False):
    """Write a file whose modification is in the past; only a renamed one has a later change of its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    if renamed:
        os.utime(path, ns=(0, path.stat().st_ctime_ns - 10**9))
    else:
        ahead = time.time_ns() + 10**9
        os.utime(path, ns=(ahead, ahead))


def complete(watch, at=(0.0, 1.0)):
    """Return the names that are complete after scans at these times."""
    for now in at:
        found = watch.scan(now)
    return [candidate.path.name for candidate in found]


def candidate_of(path):
    return UnverifiedCheckpoint(path=path, step=1, fingerprint=fingerprint(path))


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("checkpoint-500", 500),
        ("ckpt_0001000.pt", 1000),
        ("model-epoch=3-step=1200-loss=0.12.ckpt", 1200),
        ("epoch=3-loss=0.25.ckpt", None),
        ("epoch_3.pt", None),
        ("model-v2.pt", None),
        ("net_G_400.pth", 400),
        ("version-7.pt", None),
        ("global_step300", 300),
        ("iter_0000100", 100),
        ("ckpt.700", 700),
        ("last.pt", None),
    ],
)
def test_step_in_name(name, step):
    """The number after `step` and its like counts, else that at the end of the stem; an epoch is no step."""
    assert step_in_name(OWN_FILE.steps, name) == step


def test_a_file_is_complete_when_it_settled(tmp_path):
    """Without marker and rename, a file that did not change for the settle time is complete."""
    write(tmp_path / "ckpt-1.pt")
    watch = CheckpointWatch(tmp_path, settle=0.5)
    assert complete(watch, (0.0, 0.4)) == []
    assert complete(watch, (0.5,)) == ["ckpt-1.pt"]


def test_growth_begins_the_settle_time_anew(tmp_path):
    """A file that still grows is not complete, however old it is."""
    write(tmp_path / "ckpt-1.pt")
    watch = CheckpointWatch(tmp_path, settle=0.5)
    watch.scan(0.0)
    write(tmp_path / "ckpt-1.pt", b"\x80more weights")
    assert complete(watch, (0.5, 0.9)) == []
    assert complete(watch, (1.0,)) == ["ckpt-1.pt"]


def test_a_renamed_file_is_complete_after_two_quiet_scans(tmp_path):
    """A rename is the trainer's own word: two scans 50 ms apart are enough."""
    write(tmp_path / "ckpt-1.pt", renamed=True)
    watch = CheckpointWatch(tmp_path, settle=60.0)
    assert complete(watch, (0.0, 0.04)) == []
    assert complete(watch, (0.05,)) == ["ckpt-1.pt"]


@pytest.mark.parametrize("name", [".hidden", "a.tmp", "a.part", "a.partial", "a~", "ckpt.lock"])
def test_names_of_unfinished_files_are_ignored(tmp_path, name):
    """Hidden and temporary names are no checkpoints."""
    write(tmp_path / name)
    assert complete(CheckpointWatch(tmp_path)) == []


def test_a_declared_marker_is_the_only_proof(tmp_path):
    """With a marker declared only it counts, and an old marker is that of old content."""
    write(tmp_path / "ckpt-1.pt", renamed=True)
    watch = CheckpointWatch(tmp_path, marker="{name}.done")
    assert complete(watch) == []
    write(tmp_path / "ckpt-1.pt.done", b"77")
    assert [(one.path.name, one.step) for one in watch.scan(2.0)] == [("ckpt-1.pt", 77)]
    write(tmp_path / "ckpt-1.pt", b"\x80new")
    os.utime(tmp_path / "ckpt-1.pt.done", (0, 0))
    assert complete(watch, (3.0, 9.0)) == []


def test_a_directory_is_one_checkpoint_with_its_marker_inside(tmp_path):
    """A directory such as checkpoint-500 counts as a whole."""
    write(tmp_path / "checkpoint-500" / "model.bin")
    watch = CheckpointWatch(tmp_path, marker="_SUCCESS")
    assert complete(watch) == []
    write(tmp_path / "checkpoint-500" / "_SUCCESS")
    assert [(one.path.name, one.step) for one in watch.scan(5.0)] == [("checkpoint-500", 500)]


def test_a_file_deep_in_a_directory_that_grows_keeps_it_incomplete(tmp_path):
    """Every file of a directory counts for its settling."""
    write(tmp_path / "checkpoint-5" / "deep" / "shard-0.bin")
    watch = CheckpointWatch(tmp_path, settle=0.5)
    watch.scan(0.0)
    write(tmp_path / "checkpoint-5" / "deep" / "shard-0.bin", b"longer than before")
    assert complete(watch, (0.6,)) == []
    assert complete(watch, (1.1,)) == ["checkpoint-5"]


def test_step_is_declared_beside_the_checkpoint(tmp_path):
    """NAME.json with a step wins over the name, and is no checkpoint itself."""
    write(tmp_path / "model-v2.pt")
    write(tmp_path / "model-v2.pt.json", b'{"step": 900}')
    watch = CheckpointWatch(tmp_path)
    watch.scan(0.0)
    assert [(one.path.name, one.step) for one in watch.scan(1.0)] == [("model-v2.pt", 900)]


def test_step_of_a_nameless_checkpoint_is_that_of_the_log(tmp_path):
    """One file that is written again and again has the step of the log when it was seen first."""
    write(tmp_path / "last.pt")
    watch = CheckpointWatch(tmp_path / "last.pt")
    watch.scan(0.0, step=40)
    assert watch.scan(1.0, step=55)[0].step == 40


def test_a_checkpoint_of_a_log_of_epochs_is_at_an_epoch(tmp_path):
    """The step in its name is no place in that log: a move would wait for an epoch that never comes."""
    watch = CheckpointWatch(tmp_path)
    watch.scan(0.0, step=2, by_epochs=True)
    write(tmp_path / "step-00000060.pt")
    watch.scan(1.0, step=3, by_epochs=True)
    (found,) = watch.scan(2.0, step=4, by_epochs=True)
    assert (found.step, found.told) == (3, False)
    assert [(one.step, one.told) for one in watch.scan(3.0, step=4)] == [(60, True)]


def test_a_link_to_a_neighbour_is_not_another_checkpoint(tmp_path):
    """`latest` names a checkpoint that is there under its own name."""
    write(tmp_path / "ckpt-3.pt")
    (tmp_path / "latest").symlink_to("ckpt-3.pt")
    assert complete(CheckpointWatch(tmp_path)) == ["ckpt-3.pt"]


def test_a_missing_path_has_no_checkpoints(tmp_path):
    """The directory may appear late."""
    assert CheckpointWatch(tmp_path / "later").scan(0.0) == []


def test_too_many_entries_are_refused(tmp_path, monkeypatch):
    """A scan is bounded, and says so."""
    monkeypatch.setattr("specon_sidecar.checkpoints.find.MAX_ENTRIES", 3)
    for number in range(4):
        write(tmp_path / f"ckpt-{number}")
    with pytest.raises(TooManyEntriesError, match="more than 3"):
        CheckpointWatch(tmp_path).scan(0.0)


def test_what_cannot_be_looked_at_does_not_hinder_the_rest(tmp_path, monkeypatch, caplog):
    """A folder of somebody else, one with too many files, circles of links: each is told once."""
    monkeypatch.setattr("specon_sidecar.checkpoints.find.MAX_ENTRIES", 7)
    for number in range(8):
        write(tmp_path / "images" / f"{number}.png")
    write(tmp_path / "step-5" / "weights.bin")
    (tmp_path / "step-5" / "circle").symlink_to("circle")
    (tmp_path / "circle").symlink_to("circle")
    for name in ("lost+found", "private", "mine"):
        write(tmp_path / name / "ckpt-1.pt")
    write(tmp_path / "ckpt-3.pt")
    listed, denied = os.scandir, {str(tmp_path / "lost+found"), str(tmp_path / "private")}

    def scandir(path):
        if str(path) in denied:
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr("specon_sidecar.checkpoints.find.os.scandir", scandir)
    watch = CheckpointWatch(tmp_path)
    assert sorted(complete(watch)) == ["ckpt-1.pt", "ckpt-3.pt"]
    denied.add(str(tmp_path / "mine"))
    known = watch.known()
    assert sorted(complete(watch, (2.0, 3.0))) == ["ckpt-1.pt", "ckpt-3.pt"]
    assert watch.known() == known
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == len(set(told)) == 5
    for name in ("images: more than 7 entries", "private: Permission denied", "step-5", "circle"):
        assert any(name in each for each in told)
    assert not any("lost+found" in each for each in told)


def test_a_model_at_the_top_of_a_volume_is_a_checkpoint(tmp_path):
    """What the file system keeps there for itself is no part of it."""
    write(tmp_path / "weights.bin")
    before = fingerprint(tmp_path)
    write(tmp_path / "lost+found" / "#12")
    assert fingerprint(tmp_path).files == before.files == 1


def test_an_older_file_that_is_written_again_while_the_clock_goes_back_is_a_change(tmp_path):
    """The newest file is as it was, and so are all sizes: the content of the folder is not."""
    for number, name in enumerate(("a.bin", "b.bin")):
        write(tmp_path / "last" / name)
        os.utime(tmp_path / "last" / name, (1000 + number, 1000 + number))
    os.utime(tmp_path / "last", (1000, 1000))
    before = fingerprint(tmp_path / "last")
    write(tmp_path / "last" / "a.bin")
    os.utime(tmp_path / "last" / "a.bin", (900, 900))
    assert fingerprint(tmp_path / "last") != before


def test_a_marker_that_cannot_be_seen_is_none(tmp_path):
    """A link in a circle says of nothing that it is complete."""
    write(tmp_path / "ckpt-3.pt")
    (tmp_path / "ckpt-3.pt.done").symlink_to("ckpt-3.pt.done")
    write(tmp_path / "ckpt-4.pt")
    write(tmp_path / "ckpt-4.pt.done")
    assert complete(CheckpointWatch(tmp_path, marker="{name}.done")) == ["ckpt-4.pt"]


def test_digest_is_that_of_the_content(tmp_path):
    """SHA-256 of a file; of a directory it tells names and contents apart."""
    write(tmp_path / "a.bin", b"abc")
    assert verify(candidate_of(tmp_path / "a.bin"), Event()).digest.startswith("ba7816bf")
    digests = set()
    for folder, name, content in (("x", "1", b"a"), ("y", "2", b"a"), ("z", "1", b"b")):
        write(tmp_path / folder / name, content)
        digests.add(verify(candidate_of(tmp_path / folder), Event()).digest)
    assert len(digests) == 3


def zipped(path, content=b"tensor" * 1000):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data/0", content)
    return path.read_bytes()


@pytest.mark.parametrize("name", ["a.pt", "a.npz", "a.keras"])
def test_whole_archives_are_readable(tmp_path, name):
    """A zip archive with good checksums is verified."""
    zipped(tmp_path / name)
    assert len(verify(candidate_of(tmp_path / name), Event()).digest) == 64


COMPRESSIONS = {
    "stored": zipfile.ZIP_STORED,
    "deflate": zipfile.ZIP_DEFLATED,
    "bzip2": zipfile.ZIP_BZIP2,
    "lzma": zipfile.ZIP_LZMA,
}


@pytest.mark.parametrize("compression", COMPRESSIONS.values(), ids=COMPRESSIONS)
def test_damage_of_any_kind_is_a_reason(tmp_path, compression):
    """However an archive is compressed and wherever it is damaged, it is whole or unreadable."""
    path, damage = tmp_path / "a.pt", Random(1)
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("data/0", bytes(range(256)) * 40)
    whole = path.read_bytes()
    reasons = set()
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(damage.randint(1, 4)):
            damaged[damage.randrange(4, len(damaged))] = damage.randrange(256)
        path.write_bytes(damaged)
        try:
            verify(candidate_of(path), Event())
        except UnreadableError as error:
            reasons.add(str(error))
    assert reasons
    assert all(reason.startswith("a.pt: ") and len(reason) <= 300 for reason in reasons)


def safetensors(data=8, header=b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'):
    return len(header).to_bytes(8, "little") + header + b"\0" * data


@pytest.mark.parametrize(
    ("name", "damage", "reason"),
    [
        ("a.pt", lambda whole: whole[: len(whole) // 2], "damaged zip"),
        ("a.pt", lambda whole: whole.replace(b"tensor", b"tumour", 1), "damaged zip"),
        ("a.npz", lambda _: b"no archive", "damaged zip"),
        ("a.pth", lambda _: b"garbage", "neither a zip archive nor a pickle"),
        ("a.bin", lambda _: b"", "is empty"),
        ("a.safetensors", lambda _: safetensors(data=7), "its header tells"),
        ("a.safetensors", lambda _: safetensors(header=b'{"w": 1, '), "damaged header"),
        ("a.safetensors", lambda _: b"\xff" * 20, "do not hold a header"),
        ("dir/a.pt", lambda whole: whole[:-30], "damaged zip"),
    ],
)
def test_damaged_checkpoints_are_unreadable(tmp_path, name, damage, reason):
    """What cannot be restored is refused, with the reason."""
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(damage(zipped(path)))
    top = tmp_path / name.split("/", maxsplit=1)[0]
    with pytest.raises(UnreadableError, match=reason):
        verify(candidate_of(top), Event())


def test_whole_safetensors_and_pickles_are_readable(tmp_path):
    """The other containers of torch models are verified too."""
    write(tmp_path / "a.safetensors", safetensors())
    write(tmp_path / "b.pt", b"\x80\x02}q\x00.")
    for name in ("a.safetensors", "b.pt"):
        assert verify(candidate_of(tmp_path / name), Event())


def test_a_checkpoint_that_changes_while_it_is_read_is_unreadable(tmp_path):
    """The look before and the look after must agree."""
    write(tmp_path / "a.bin", b"abc")
    candidate = candidate_of(tmp_path / "a.bin")
    write(tmp_path / "a.bin", b"abcd")
    with pytest.raises(UnreadableError, match="changed"):
        verify(candidate, Event())


def test_verification_can_be_called_off(tmp_path):
    """A sidecar that ends does not read on."""
    write(tmp_path / "a.bin", b"abc")
    cancelled = Event()
    cancelled.set()
    with pytest.raises(CancelledError):
        verify(candidate_of(tmp_path / "a.bin"), cancelled)


class Asked:
    """Stands for the trainer that is asked; fails as often as told."""

    def __init__(self, action=lambda: None, failures=0):
        self.action, self.failures, self.count = action, failures, 0

    async def __call__(self, mode, process, instruction):
        self.count += 1
        if self.count <= self.failures:
            raise CannotAskError("does not catch SIGUSR1")
        self.action()


class Gone:
    alive = False


def checkpoints(path, clock, *, mode=PERIODIC, process=None, asker=None, **options):
    watch = None if path is None else CheckpointWatch(path, **options)
    asker = asker or Asked()
    return Checkpoints(mode=mode, watch=watch, process=process, step=lambda: 9, clock=clock, asker=asker)


def instruction(seconds=5.0, name="i1"):
    return CheckpointInstruction(id=name, seconds_left=seconds)


async def test_a_requested_checkpoint_is_verified_and_acknowledged(tmp_path):
    """The trainer is asked once; the answer has step, path and digest of what it wrote."""
    write(tmp_path / "ckpt-1.pt", b"\x80old")
    asker = Asked(lambda: write(tmp_path / "ckpt-7.bin"))
    answer = await checkpoints(tmp_path, VirtualTime(), asker=asker).obtain(instruction(), IDENTITY)
    assert (answer.done, answer.checkpoint.step, answer.id) == (True, 7, "i1")
    assert answer.checkpoint.verified
    assert asker.count == 1


async def test_periodic_waits_for_the_next_regular_checkpoint(tmp_path):
    """What was complete before the request is not what was asked for."""
    clock = VirtualTime()
    write(tmp_path / "ckpt-1.bin")
    clock.at(3.0, lambda: write(tmp_path / "ckpt-2.bin"))
    answer = await checkpoints(tmp_path, clock).obtain(instruction(10.0), IDENTITY)
    assert answer.checkpoint.step == 2
    assert 3.5 <= clock.now() < 4.0


async def test_the_same_file_written_anew_is_a_new_checkpoint(tmp_path):
    """One file that is overwritten is judged by its content, not by its name."""
    clock = VirtualTime()
    write(tmp_path / "last-5.bin")
    clock.at(1.0, lambda: write(tmp_path / "last-5.bin", b"newer weights"))
    assert (await checkpoints(tmp_path / "last-5.bin", clock).obtain(instruction(), IDENTITY)).done


async def test_no_new_checkpoint_is_refused_at_the_deadline(tmp_path):
    """The deadline bounds the wait, and the refusal says what was missing."""
    clock = VirtualTime()
    answer = await checkpoints(tmp_path, clock).obtain(instruction(2.0), IDENTITY)
    assert (answer.done, answer.reason) == (False, "no new checkpoint within 2 s")
    assert 2.0 <= clock.now() < 2.5


async def test_an_unreadable_checkpoint_is_waited_out(tmp_path):
    """A damaged one does not end the wait: a good one after it is taken."""
    clock = VirtualTime()
    clock.at(0.5, lambda: write(tmp_path / "ckpt-1.pt", b"garbage"))
    clock.at(2.0, lambda: write(tmp_path / "ckpt-2.bin"))
    answer = await checkpoints(tmp_path, clock).obtain(instruction(), IDENTITY)
    assert answer.checkpoint.step == 2


async def test_only_unreadable_checkpoints_are_refused_with_their_reason(tmp_path):
    """The refusal names the damage, for that is what the owner must know."""
    clock = VirtualTime()
    clock.at(0.5, lambda: write(tmp_path / "ckpt-1.pt", b"garbage"))
    answer = await checkpoints(tmp_path, clock).obtain(instruction(), IDENTITY)
    assert not answer.done
    assert "neither a zip archive nor a pickle" in answer.reason


async def test_asking_is_tried_again_until_it_works(tmp_path):
    """A trainer that cannot be asked yet is asked again, and only until it was."""
    asker = Asked(lambda: write(tmp_path / "ckpt-3.bin"), failures=3)
    answer = await checkpoints(tmp_path, VirtualTime(), asker=asker).obtain(instruction(), IDENTITY)
    assert answer.done
    assert asker.count == 4


async def test_a_trainer_that_was_never_asked_is_the_reason(tmp_path):
    """Where asking failed to the end, the refusal says how."""
    asker = Asked(failures=10**6)
    answer = await checkpoints(tmp_path, VirtualTime(), asker=asker).obtain(instruction(), IDENTITY)
    assert "does not catch SIGUSR1" in answer.reason


async def test_a_trainer_that_ended_is_not_waited_for(tmp_path):
    """Nothing new will come: refused long before the deadline."""
    clock = VirtualTime()
    answer = await checkpoints(tmp_path, clock, process=Gone()).obtain(instruction(600.0), IDENTITY)
    assert "the trainer ended" in answer.reason
    assert clock.now() < 2.0


async def test_the_same_instruction_has_one_effect_and_one_answer(tmp_path):
    """Seen twice, at once or later, it is carried out once and answered alike."""
    asker = Asked(lambda: write(tmp_path / "ckpt-7.bin"))
    subject = checkpoints(tmp_path, VirtualTime(), asker=asker)
    answers = await asyncio.gather(*(subject.obtain(instruction(), IDENTITY) for _ in range(2)))
    answers.append(await subject.obtain(instruction(), IDENTITY))
    assert answers == [answers[0]] * 3
    assert asker.count == 1


async def test_an_answer_that_is_asked_for_later_says_how_old_it_is(tmp_path):
    """The checkpoint is that of then, and the trainer has trained on."""
    clock = VirtualTime()
    subject = checkpoints(tmp_path, clock, asker=Asked(lambda: write(tmp_path / "ckpt-7.bin")))
    assert (await subject.obtain(instruction(), IDENTITY)).age == 0.0
    await clock.sleep(600.0)
    assert (await subject.obtain(instruction(), IDENTITY)).age == 600.0


async def test_sigterm_mode_tells_what_is_there_and_asks_nothing(tmp_path):
    """It saves when told to end: done, with the newest verified checkpoint if there is one."""
    clock = VirtualTime()
    subject = checkpoints(tmp_path, clock, mode=CheckpointMode("sigterm"))
    assert (await subject.obtain(instruction(name="a"), IDENTITY)).checkpoint is None
    write(tmp_path / "ckpt-4.bin")
    await subject.look()
    clock.time = 1.0
    answer = await subject.obtain(instruction(name="b"), IDENTITY)
    assert (answer.done, answer.checkpoint.step) == (True, 4)


@pytest.mark.parametrize(
    ("mode", "reason"), [("none", "no way to a checkpoint"), ("periodic", "no checkpoint path")]
)
async def test_undeclared_checkpoints_are_refused_at_once(mode, reason):
    """A job that declares nothing is told so, without waiting."""
    answer = await checkpoints(None, VirtualTime(), mode=CheckpointMode(mode)).obtain(instruction(), IDENTITY)
    assert reason in answer.reason


async def test_the_newest_is_complete_without_settling_once_the_trainer_ended(tmp_path):
    """Nobody is left to change anything: the last checkpoint need not settle."""
    subject = checkpoints(tmp_path, VirtualTime())
    write(tmp_path / "ckpt-4.bin")
    subject.note_trainer_end()
    assert (await subject.verify_newest(2.0)).step == 4


async def test_file_request_is_created_in_one_piece(tmp_path):
    """The trainer that polls for the file never sees half of it."""
    await ask(CheckpointMode("file", str(tmp_path / "save")), None, "i1")
    assert (tmp_path / "save").read_text() == "i1\n"
    assert [path.name for path in tmp_path.iterdir()] == ["save"]


async def test_file_request_that_cannot_be_created_says_why(tmp_path):
    """An error of the file system is a reason, not an exception that ends the sidecar."""
    with pytest.raises(CannotAskError, match="No such file"):
        await ask(CheckpointMode("file", str(tmp_path / "missing" / "save")), None, "i1")


CATCHES = """
import signal, sys
signal.signal(signal.SIGUSR1, lambda *_: (print("saved", flush=True), sys.exit()))
print("ready", flush=True)
signal.pause()
"""
CATCHES_NOT = 'import signal; print("ready", flush=True); signal.pause()'


@pytest.mark.processes
def test_signal_reaches_a_trainer_that_catches_it():
    """Signal mode sends exactly the declared signal."""
    with Popen([sys.executable, "-c", CATCHES], stdout=PIPE, text=True) as trainer:
        assert trainer.stdout.readline() == "ready\n"
        process = TrainerProcess(trainer.pid)
        assert process.usage().memory_bytes > 10**6
        asyncio.run(ask(CheckpointMode("signal", "USR1"), process, "i1"))
        assert trainer.stdout.readline() == "saved\n"
    assert not process.alive


@pytest.mark.processes
def test_signal_that_would_end_the_trainer_is_not_sent():
    """The default action of USR1 ends a process: one that does not catch it is not signalled."""
    with Popen([sys.executable, "-c", CATCHES_NOT], stdout=PIPE, text=True) as trainer:
        assert trainer.stdout.readline() == "ready\n"
        with pytest.raises(CannotAskError, match="does not catch SIGUSR1"):
            asyncio.run(ask(CheckpointMode("signal", "USR1"), TrainerProcess(trainer.pid), "i1"))
        assert trainer.poll() is None
        trainer.kill()


def test_another_process_with_the_same_id_is_not_the_trainer(tmp_path):
    """A process id is only trusted together with its start time."""
    fields = ["S", *["0"] * 18, "1000", "0", "5"]
    (tmp_path / "77").mkdir()
    stat = tmp_path / "77" / "stat"
    stat.write_text(f"77 (a) b) {' '.join(fields)}\n")
    process = TrainerProcess(77, proc=tmp_path)
    assert process.alive
    fields[19] = "2000"
    stat.write_text(f"77 (other) {' '.join(fields)}\n")
    assert not process.alive
    assert not process.catches(signal.SIGUSR1)
