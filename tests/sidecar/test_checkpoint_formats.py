"""Checkpoints as frameworks write them: found, told apart from what lies beside them, whole or not."""

import json
import os
import shutil
import tracemalloc
import zipfile
from pathlib import Path
from random import Random
from threading import Event

import pytest

from specon_sidecar.checkpoints import find
from specon_sidecar.checkpoints.checkpoint_watch import CheckpointWatch, UnverifiedCheckpoint, candidate_at
from specon_sidecar.checkpoints.find import fingerprint
from specon_sidecar.checkpoints.table import TABLE
from specon_sidecar.checkpoints.verify import Budget, UnreadableError, verify, verify_path
from support.checkpoints.writers import WRITERS, files_in, safetensors, torch_zip, transformers

NAMED = sorted(set(WRITERS) - {"backup-and-restore", "single"})


def found(root, *, step=777, marker=None):
    """Return what counts as complete once everything has settled, oldest first."""
    watch = CheckpointWatch(root, settle=0.0, marker=marker)
    watch.scan(0.0, step)
    return watch.scan(10.0, step)


@pytest.mark.parametrize("name", WRITERS)
def test_what_a_framework_saves_is_found_with_its_step_and_is_whole(tmp_path, name):
    """Wherever in the folder that was named it lies; what tells no step has that of the log."""
    saved = WRITERS[name](tmp_path, 400)
    (one,) = found(tmp_path)
    assert (one.path, one.told) == (saved, name in NAMED)
    assert one.step == (400 if name in NAMED else 777)
    assert one.declared.name == {"single": "file"}.get(name, name)
    assert verify(one, Event()).read == "whole"
    assert verify_path(saved, Budget()).digest == verify(one, Event()).digest


@pytest.mark.parametrize("name", WRITERS)
def test_without_any_one_of_its_files_it_does_not_count(tmp_path, name):
    """What a framework cannot go on from is none, however long nothing has changed."""
    for gone in files_in(WRITERS[name](tmp_path / "whole", 400)):
        kept = gone.name in {
            "config.json",
            "manifest.ocdbt",
            "0a1b",
            "training_args.bin",
            "_CHECKPOINT_METADATA",
        }
        if kept or gone.name.startswith("model_optim"):
            continue  # nothing says that these have to be there: the marker does
        shutil.rmtree(tmp_path / "torn", ignore_errors=True)
        shutil.copytree(tmp_path / "whole", tmp_path / "torn", copy_function=shutil.copy2)
        (tmp_path / "torn" / gone.relative_to(tmp_path / "whole")).unlink()
        assert found(tmp_path / "torn") == [], gone.name


@pytest.mark.parametrize("name", sorted(set(WRITERS) - {"orbax"}))
def test_a_file_that_is_cut_off_anywhere_does_not_count(tmp_path, name):
    """By its header, its directory or its index."""
    saved = WRITERS[name](tmp_path, 400)
    for file in files_in(saved):
        whole, status = file.read_bytes(), file.stat()
        if file.name in {"config.json", "commit_success.txt"}:
            continue
        for length in {len(whole) // 3, len(whole) * 2 // 3, len(whole) - 1}:
            file.write_bytes(whole[:length])
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
            assert found(tmp_path) == [], f"{file.name} of {length}"
        file.write_bytes(whole)
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert len(found(tmp_path)) == 1


@pytest.mark.parametrize("name", ["deepspeed", "megatron"])
def test_only_the_one_that_the_tracker_names_counts(tmp_path, name):
    """The framework itself goes on from no other."""
    WRITERS[name](tmp_path, 400)
    tracker = next(path for path in tmp_path.iterdir() if path.name.startswith("latest"))
    said = tracker.read_text()
    WRITERS[name](tmp_path, 500)
    tracker.write_text(said)
    assert [one.step for one in found(tmp_path)] == [400]


def test_an_old_one_that_is_half_removed_is_not_the_newest(tmp_path):
    """A trainer that was killed while it removed it changed the folder last."""
    for step in (400, 500):
        (folder := WRITERS["orbax"](tmp_path, step)).touch()
        for file in files_in(folder):
            os.utime(file, ns=(step, step))
    (tmp_path / "400" / "default" / "manifest.ocdbt").unlink()
    (tmp_path / "400").touch()
    assert [one.step for one in found(tmp_path)][-1] == 500


def test_what_matches_nothing_is_no_checkpoint(tmp_path):
    """A number in a name makes no step: `version_0` was taken for step 0 once."""
    for name in (
        "version_0/hparams.yaml",
        "version_0/metrics.csv",
        "run_3/a.txt",
        "events.out.tfevents.17.h",
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("step: 12")
    (tmp_path / "config-3.json").write_text("{}")
    (tmp_path / "training_args.bin").write_bytes(torch_zip(1))
    assert found(tmp_path) == []


def test_the_model_beside_them_is_what_a_training_ends_with(tmp_path):
    """Nobody goes on from it, and it is newer than the last checkpoint."""
    transformers(tmp_path, 400)
    (tmp_path / "model.safetensors").write_bytes(safetensors(500))
    assert [one.step for one in found(tmp_path)] == [400]


def test_only_the_model_is_enough_where_the_arguments_say_so(tmp_path):
    """`save_only_model` leaves out optimizer, scheduler and random numbers."""
    saved = transformers(tmp_path, 400)
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        (saved / name).unlink()
    assert found(tmp_path) == []
    (saved / "training_args.bin").write_bytes(torch_zip(4, 64, save_only_model=True))
    assert [one.step for one in found(tmp_path)] == [400]


def test_an_owners_marker_stands_for_what_a_framework_would_have_written(tmp_path):
    """And makes a checkpoint of what has any name."""
    for name in ("checkpoint-5/config.json", "checkpoint-5/model.bin", "mine/model.bin"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"weights")
    assert found(tmp_path, marker="done") == []
    for folder in ("checkpoint-5", "mine"):
        (tmp_path / folder / "done").touch()
        ahead = (tmp_path / folder).stat().st_mtime_ns + 10**9
        os.utime(tmp_path / folder / "done", ns=(ahead, ahead))
    os.utime(tmp_path / "checkpoint-5", (1, 1))
    assert {one.path.name for one in found(tmp_path, marker="done")} == {"checkpoint-5", "mine"}


def test_depth_and_names_are_bounded(tmp_path):
    """A tree of folders is looked through as far as frameworks nest theirs."""
    deep = tmp_path.joinpath(*"abcdefgh")
    deep.mkdir(parents=True)
    (deep / "step-1.pt").write_bytes(torch_zip(1))
    assert found(tmp_path) == []
    (tmp_path / "a" / "b" / "step-1.pt").write_bytes(torch_zip(1))
    assert len(found(tmp_path)) == 1


def test_names_that_are_no_text_are_told_all_the_same(tmp_path):
    """A file may have any bytes for a name."""
    path = Path(os.fsdecode(bytes(tmp_path) + b"/step-\xff5.pt"))
    path.write_bytes(b"garbage")
    with pytest.raises(UnreadableError):
        verify_path(path, Budget())


GB = 10**9


def sparse(tmp_path, size=50 * GB):
    """Return a folder with safetensors of 50 GB that take no room on the disk."""
    folder = tmp_path / "step-7"
    folder.mkdir()
    shards = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
    for shard in shards:
        header = b'{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,%d]}}' % (size // 2)
        with (folder / shard).open("wb") as opened:
            opened.write(len(header).to_bytes(8, "little") + header)
            opened.truncate(8 + len(header) + size // 2)
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": dict(zip("ab", shards, strict=True))})
    )
    return folder


def read_so_far():
    """Return how many bytes this process has read, as the kernel counts."""
    return int(Path("/proc/self/io").read_text().split()[1])


def test_fifty_gigabytes_are_sampled(tmp_path):
    """At most one byte in a hundred is read, and the digest is that of what was read."""
    folder = sparse(tmp_path)
    before = read_so_far()
    first = verify_path(folder, Budget(seconds=1.0))
    assert first.read == "sampled"
    assert first.bytes_read <= read_so_far() - before <= 50 * GB // 100
    with (folder / "model-00002-of-00002.safetensors").open("r+b") as opened:
        opened.seek(-1, os.SEEK_END)
        opened.write(b"x")
    assert verify_path(folder, Budget(seconds=1.0)).digest != first.digest


def test_a_large_one_that_says_nothing_of_its_size_is_read_whole(tmp_path, monkeypatch):
    """A sample does not show its size; an owner's marker vouches for it."""
    monkeypatch.setattr("specon_sidecar.checkpoints.verify.WHOLE_BYTES", 1000)
    (tmp_path / "step-1.bin").write_bytes(bytes(10**6))
    candidate = UnverifiedCheckpoint(
        path=tmp_path / "step-1.bin", step=1, fingerprint=fingerprint(tmp_path / "step-1.bin")
    )
    assert verify(candidate, Event()).read == "whole"
    marked = UnverifiedCheckpoint(
        path=candidate.path,
        step=1,
        fingerprint=candidate.fingerprint,
        declared=candidate.declared,
        marked=True,
    )
    assert verify(marked, Event()).read == "sampled"
    assert verify(marked, Event(), Budget(whole=True)).read == "whole"


def test_a_slow_disk_makes_a_sample_of_what_would_have_been_read_whole(tmp_path):
    """After half of the time, where the format allows it."""
    (tmp_path / "step-1.pt").write_bytes(torch_zip(1, 4 << 20))
    times = iter(range(10**6))
    found_one = verify_path_at(tmp_path / "step-1.pt", lambda: float(next(times)))
    assert found_one.read == "sampled"


def verify_path_at(path, clock):
    candidate = UnverifiedCheckpoint(path=path, step=1, fingerprint=fingerprint(path))
    return verify(candidate, Event(), Budget(seconds=6.0), clock)


def test_an_archive_is_read_once(tmp_path):
    """Its checksums are compared while its digest is taken."""
    size = 30 << 20
    (tmp_path / "step-1.pt").write_bytes(torch_zip(1, size))
    before = read_so_far()
    assert verify_path(tmp_path / "step-1.pt", Budget(seconds=100)).read == "whole"
    assert read_so_far() - before < 1.2 * size


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("name", WRITERS)
def test_damage_of_any_kind_is_a_reason_and_never_a_traceback(tmp_path, name, sampled, monkeypatch):
    """Wherever bytes are wrong, in whatever format, read whole or sampled."""
    if sampled:
        monkeypatch.setattr("specon_sidecar.checkpoints.verify.WHOLE_BYTES", 0)
    damage, reasons = Random(f"{name}{sampled}"), set()
    saved = WRITERS[name](tmp_path, 400)
    for _ in range(int(os.environ.get("SPECON_FUZZ", "60"))):
        file = damage.choice(files_in(saved))
        whole, status = file.read_bytes(), file.stat()
        damaged = bytearray(whole)
        for _ in range(damage.randint(1, 4)):
            where = damage.choice([damage.randrange(len(whole)), damage.randrange(min(200, len(whole)))])
            where = damage.choice([where, len(whole) - 1 - min(where, len(whole) - 1)])
            damaged[where] = damage.choice([0, 255, damage.randrange(256)])
        file.write_bytes(damaged[: damage.choice([len(whole), damage.randrange(len(whole) + 1)])])
        try:
            verify_path(saved, Budget())
        except UnreadableError as error:
            reasons.add(str(error))
        found(tmp_path)
        file.write_bytes(whole)
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert all(0 < len(reason) <= 400 for reason in reasons)
    assert verify_path(saved, Budget())


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_sampled_archive_of_any_compression_may_be_damaged(tmp_path, compression, monkeypatch):
    """Also where its entries are only looked at."""
    monkeypatch.setattr("specon_sidecar.checkpoints.verify.WHOLE_BYTES", 0)
    path, damage, reasons = tmp_path / "step-1.npz", Random(7), set()
    with zipfile.ZipFile(path, "w", compression) as archive:
        for number in range(5):
            archive.writestr(f"w{number}.npy", bytes(range(256)) * 12)
    whole = path.read_bytes()
    for _ in range(150):
        damaged = bytearray(whole)
        damaged[damage.randrange(4, len(damaged))] ^= 1 << damage.randrange(8)
        path.write_bytes(damaged)
        try:
            verify_path(path, Budget())
        except UnreadableError as error:
            reasons.add(str(error))
    assert reasons
    assert "" not in reasons


def test_each_format_has_a_name_of_its_own():
    """The docs and the records name them."""
    assert len({declared.name for declared in TABLE}) == len(TABLE)


def test_a_folder_of_many_is_bounded(tmp_path, monkeypatch):
    """So is all that lies below it."""
    monkeypatch.setattr(find, "_MAX_IN_ALL", 5)
    for number in range(6):
        (tmp_path / f"run{number}").mkdir()
    with pytest.raises(find.TooManyEntriesError):
        found(tmp_path)


def indexed(tmp_path, index):
    """Return a checkpoint whose index of shards is this text."""
    folder = tmp_path / "step-5"
    folder.mkdir()
    (folder / "model.safetensors.index.json").write_text(index)
    return folder


@pytest.mark.parametrize(
    "index",
    [
        '{"weight_map": {"a": "b.safetensors"}, "more": [' + ",".join(["[]"] * 200_000) + "]}",
        '{"weight_map": ' + "[" * 30_000 + "]" * 30_000 + "}",
        '{"weight_map": {"a": "' + "b" * (9 << 20) + '"}}',
    ],
    ids=["beside", "deep", "long"],
)
def test_an_index_takes_little_memory_whatever_is_in_it(tmp_path, index):
    """What is not asked for is not decoded, and what is has its bound; the reason says which."""
    folder = indexed(tmp_path, index)
    tracemalloc.start()
    with pytest.raises(UnreadableError, match="step-5: "):
        verify_path(folder, Budget())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < len(index) * 3 + (4 << 20)


def look_in_no_time(path):
    """Return what is found; that others have the machine is no reason to look at a part only."""
    return verify(candidate_at(path), Event(), clock=lambda: 0.0)


def large_json(text):
    """Return a model of XGBoost in JSON with this text in it, larger than what is decoded."""
    trees = ['{"base_weights": [0.5, -1.5], "id": 7}'] * 150_000
    return ('{"learner": {"name": ' + json.dumps(text) + ', "trees": [' + ",".join(trees) + "]}}\n").encode()


@pytest.mark.parametrize("text", ["plain", '"{[\\', "\\" * 4001 + '"{', '{"' * 90_000])
def test_a_large_model_in_json_is_looked_at_in_little_memory(tmp_path, text):
    """The sidecar has 192 MiB for all that it does; a model that was cut off is torn, wherever that was."""
    content, file = large_json(text), tmp_path / "model_5.json"
    file.write_bytes(content)
    tracemalloc.start()
    assert look_in_no_time(file).read == "whole"
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 << 20
    cut = Random(1)
    for length in [*(cut.randrange(1 << 22, len(content)) for _ in range(3)), content.rindex(b"},{") + 1]:
        file.write_bytes(content[:length].rstrip())
        with pytest.raises(UnreadableError, match="not closed"):
            look_in_no_time(file)
