"""Checkpoints in parts: all that the index names has to be there, and whole."""

import os
import pickle
import shutil
import tracemalloc
import warnings
from pathlib import Path
from threading import Event

import pytest

from specon_sidecar.checkpoints.checkpoint_request import Checkpoints, Identity
from specon_sidecar.checkpoints.checkpoint_watch import CheckpointWatch, UnverifiedCheckpoint
from specon_sidecar.checkpoints.find import fingerprint
from specon_sidecar.checkpoints.parts import PartsError, pairs, stretches
from specon_sidecar.checkpoints.verify import CancelledError, UnreadableError, verify
from specon_sidecar.parse import CheckpointMode
from specon_sidecar.wire import CheckpointInstruction
from support.clocks.sleeping_time import VirtualTime

NAMES = [".metadata", "__0_0.distcp", "__0_1.distcp"]


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """Return a checkpoint as torch writes it, with tensors in two parts."""
    import torch  # noqa: PLC0415 - takes seconds, and most tests need none
    from torch.distributed import checkpoint  # noqa: PLC0415 - as above

    folder = tmp_path_factory.mktemp("parts") / "step-00000005"
    writer = checkpoint.FileSystemWriter(folder, thread_count=2)
    state = {"offset": torch.arange(900.0), "length": torch.ones(40), "w": torch.ones(900), "step": 5}
    with warnings.catch_warnings(action="ignore"):  # that it is one process
        checkpoint.save(state, storage_writer=writer, no_dist=True)
    return folder


@pytest.fixture
def folder(written, tmp_path):
    """Return a copy of it that may be damaged."""
    copy = tmp_path / "checkpoints" / written.name
    shutil.copytree(written, copy)
    return copy


def sizes(folder):
    return {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def digest(folder, cancelled=None):
    candidate = UnverifiedCheckpoint(path=folder, step=5, fingerprint=fingerprint(folder))
    return verify(candidate, cancelled or Event()).digest


def complete(folder):
    watch = CheckpointWatch(folder.parent, settle=0.1)
    for now in (0.0, 1.0):
        found = watch.scan(now)
    return [each.path.name for each in found]


def test_a_real_one_is_whole(folder):
    """Each part is covered from its begin to its end by what the index names."""
    assert sorted(path.name for path in folder.iterdir()) == NAMES
    for part, found in stretches(sizes(folder)).items():
        ends = [0, *(offset + length for offset, length in sorted(pairs(found)))]
        assert [offset for offset, _ in sorted(pairs(found))] == ends[:-1]
        assert ends[-1] == part.stat().st_size
    assert complete(folder) == ["step-00000005"]
    assert len(digest(folder)) == 64


@pytest.mark.parametrize("protocol", range(2, 6))
def test_the_index_is_read_whatever_the_version_of_the_pickle(folder, protocol):
    """Trainers of other versions of Python write others."""
    expected = stretches(sizes(folder))
    index = folder / ".metadata"
    index.write_bytes(pickle.dumps(pickle.loads(index.read_bytes()), protocol))
    assert stretches(sizes(folder)) == expected


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("__0_1.distcp", "step-00000005: lacks __0_1.distcp, which its .metadata names"),
        (".metadata", "step-00000005: has parts and no .metadata, which is written last"),
    ],
)
def test_a_missing_part_makes_it_incomplete_and_unreadable(folder, missing, words):
    """However long ago the others settled, until it comes; a marker changes nothing about it."""
    content = (folder / missing).read_bytes()
    (folder / missing).unlink()
    assert complete(folder) == []
    with pytest.raises(UnreadableError, match=f"^{words}$"):
        digest(folder)
    (folder / missing).write_bytes(content)
    assert complete(folder) == ["step-00000005"]


def test_a_marker_does_not_stand_for_a_missing_part(folder):
    """Its writer was wrong."""
    (folder / "done").touch()
    watch = CheckpointWatch(folder.parent, marker="done")
    assert watch.scan(0.0)
    (folder / "__0_1.distcp").unlink()
    os.utime(folder / "done")
    assert not watch.scan(1.0)


def test_a_part_that_is_cut_off_is_told_by_its_size(folder):
    """The index says how long it has to be."""
    part = folder / "__0_0.distcp"
    part.write_bytes(part.read_bytes()[:-1])
    assert complete(folder) == []
    with pytest.raises(UnreadableError, match=r"__0_0.distcp has \d+ bytes, its .metadata tells \d+"):
        digest(folder)


def test_a_wrong_byte_in_any_tensor_is_found(folder):
    """Each stretch is an archive with a checksum of its own, not the last of them alone."""
    for part, found in stretches(sizes(folder)).items():
        whole = part.read_bytes()
        for offset, length in pairs(found):
            damaged = bytearray(whole)
            damaged[offset + length // 2] ^= 1
            part.write_bytes(damaged)
            with pytest.raises(UnreadableError, match=f"{part.name}: damaged zip archive"):
                digest(folder)
        part.write_bytes(whole)


def test_one_inside_a_larger_checkpoint_counts_too(folder):
    """As frameworks put model and optimizer into folders of their own."""
    outer = folder.parent / "checkpoint-7"
    outer.mkdir()
    (outer / "state.json").write_text("{}")
    folder.rename(outer / "model")
    assert complete(outer) == ["checkpoint-7"]
    (outer / "model" / "__0_0.distcp").unlink()
    assert complete(outer) == []


@pytest.mark.parametrize("length", range(0, 900, 37))
def test_an_index_that_is_cut_off_is_damaged(folder, length):
    """It is looked through and never loaded, and raises nothing else."""
    index = folder / ".metadata"
    index.write_bytes(index.read_bytes()[:length])
    with pytest.raises(PartsError, match=r"damaged .metadata|names no part"):
        stretches(sizes(folder))


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x04X\xff\xff\xff\xffname",
        b"\x80\x04\x8b\xff\xff\xff\x7f1",
        b"I" + b"9" * 10_000 + b"\n.",
        b"\x80\x04\x8d" + b"\xff" * 8 + b"x.",
        b"g-1\n.",
        b"not a pickle",
    ],
)
def test_nonsense_instead_of_an_index_is_damaged(folder, content):
    """Whatever a trainer puts there."""
    (folder / ".metadata").write_bytes(content)
    with pytest.raises(PartsError, match=r"damaged .metadata|names no part"):
        stretches(sizes(folder))


def test_an_index_runs_nothing(folder, tmp_path):
    """A pickle could, if it were loaded."""

    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "was run"),)

    (folder / ".metadata").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(PartsError, match="names no part"):
        stretches(sizes(folder))
    assert not (tmp_path / "was run").exists()


def test_no_name_leads_out_of_the_folder(folder):
    """What is no name of a part is none: nothing is looked for elsewhere."""
    record = {"relative_path": "../__0_0.distcp", "offset": 0, "length": 5}
    (folder / ".metadata").write_bytes(pickle.dumps([record]))
    with pytest.raises(PartsError, match="names no part"):
        stretches(sizes(folder))


def test_a_huge_index_is_not_read(folder):
    """Its size says enough."""
    with (folder / ".metadata").open("r+b") as opened:
        opened.truncate((64 << 20) + 1)
    with pytest.raises(PartsError, match="bytes, more than"):
        stretches(sizes(folder))


def test_what_an_index_names_is_kept_in_little_memory(tmp_path):
    """All of it, also where a frame of the pickle begins amid one: large jobs have half a million."""
    name = "__0_0.distcp"
    named = [{"relative_path": name, "offset": 1000 * at, "length": 1000} for at in range(30_000)]
    (tmp_path / ".metadata").write_bytes(pickle.dumps(named))
    (tmp_path / name).touch()
    os.truncate(tmp_path / name, 30_000_000)
    tracemalloc.start()
    found = stretches(sizes(tmp_path))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(length for _, length in pairs(found[tmp_path / name])) == 30_000_000
    assert kept < 30_000 * 24 + 100_000


def test_a_file_of_that_name_may_mean_something_else(tmp_path):
    """Without parts beside it, and without names of any, it is not looked at."""
    (tmp_path / ".metadata").write_text("{}")
    (tmp_path / "weights.bin").write_bytes(b"weights")
    assert stretches(sizes(tmp_path)) == {}
    assert len(digest(tmp_path)) == 64


def test_an_index_without_any_of_its_parts_is_incomplete(folder):
    """They may be on the way to a disk of somebody else."""
    for part in folder.glob("*.distcp"):
        part.unlink()
    assert complete(folder) == []


def test_verifying_can_be_called_off(folder):
    """Also while the index is looked through."""
    cancelled = Event()
    cancelled.set()
    with pytest.raises(CancelledError):
        digest(folder, cancelled)


@pytest.mark.parametrize("comes", [True, False])
async def test_a_request_waits_for_the_last_part(folder, comes):
    """The ranks write at their own pace; a refusal names what did not come."""
    aside, clock = folder.parent.parent / "aside", VirtualTime()
    folder.rename(aside)
    subject = Checkpoints(
        mode=CheckpointMode("periodic"),
        watch=CheckpointWatch(folder.parent, settle=0.1),
        process=None,
        step=lambda: 5,
        clock=clock,
    )

    def write(*names):
        folder.mkdir(exist_ok=True)
        for name in names:
            shutil.copy(aside / name, folder)

    clock.at(0.5, lambda: write(".metadata", "__0_0.distcp"))
    if comes:
        clock.at(3.0, lambda: write("__0_1.distcp"))
    answer = await subject.obtain(
        CheckpointInstruction(id="i", seconds_left=6.0), Identity("n/j/worker/0", "u")
    )
    assert answer.done is comes
    if comes:
        assert (answer.checkpoint.step, Path(answer.checkpoint.path)) == (5, folder)
        assert 3.0 <= clock.now() < 3.5
    else:
        assert answer.reason == (
            "no new checkpoint within 6 s: step-00000005: lacks __0_1.distcp, which its .metadata names"
        )
