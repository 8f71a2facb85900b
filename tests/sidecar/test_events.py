"""Event files are followed through all that can happen to them, and give the samples of one tag."""

import asyncio
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_sidecar.event_files import events
from specon_sidecar.event_files.event_line import EventLine, decode, encode
from specon_sidecar.event_files.event_reader import EventReader
from specon_sidecar.event_files.event_tail import EventTail
from specon_sidecar.event_files.events import EventFiles
from specon_sidecar.following import log_choice
from specon_sidecar.formats.parser import FormatOptions
from support.logs.event_files import BEGUN, append, event_file, record, simple, tensor, version

DEADLINE = 10
INTERVAL = 0.02
both = pytest.mark.parametrize("mode", ["inotify", "polling"])


def samples(path, metric=None, **options):
    """Return the samples of all that is there now, and who read them."""
    files = EventFiles(path, **options)
    reader = EventReader(FormatOptions(metric=metric))
    found = [one for lines in files.read() for one in reader.read(lines)]
    return [*found, *reader.finish()], files, reader


def values(path, metric=None, **options):
    return [round(one.value, 6) for one in samples(path, metric, **options)[0]]


def curve(tag="loss", steps=range(1, 6), write=simple):
    return [write(step, **{tag: 1 / step}) for step in steps]


FIVE = [1.0, 0.5, 0.333333, 0.25, 0.2]


def test_pytorch_files_give_samples_with_step_and_time(tmp_path):
    """What PyTorch's own writer writes is read: value, step, and the wall time of the writer."""
    import torch  # noqa: PLC0415 - slow to import
    from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - the same

    with SummaryWriter(os.fspath(tmp_path)) as writer:
        for step in range(1, 6):
            writer.add_scalar("accuracy", step / 5, step, walltime=BEGUN + step)
            writer.add_scalar("Loss/train", 1 / step, step, walltime=BEGUN + step)
            writer.add_histogram("weights", torch.tensor([1.0, 2.0, 3.0]), step)
        writer.add_text("note", "loss: 7")
    found, files, reader = samples(tmp_path)
    assert [round(one.value, 6) for one in found] == FIVE
    assert {one.name for one in found} == {"Loss/train"}
    assert [one.step for one in found] == [1, 2, 3, 4, 5]
    assert [one.time for one in found] == [BEGUN + step for step in range(1, 6)]
    assert (reader.chosen, reader.goal, files.counters.corrupt) == ("event-files", "min", 0)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
def test_keras_files_give_samples_of_the_training(tmp_path, dtype):
    """TensorFlow 2 writes tensors, and the splits in directories: training counts, validation does not."""
    from numpy import dtype as numpy_dtype  # noqa: PLC0415 - comes with tensorboard

    for split, offset in (("validation", 100), ("train", 0)):
        path = event_file(tmp_path / split)
        for step in range(4):
            append(
                path,
                tensor(step, dtype=numpy_dtype(dtype), epoch_loss=[offset + step]),
                tensor(step, epoch_learning_rate=0.1),
            )
    found, _, reader = samples(tmp_path)
    assert [one.value for one in found] == [0, 1, 2, 3]
    assert {one.name for one in found} == {"train/epoch_loss"}
    assert "validation/epoch_loss" in reader.tags


@pytest.mark.parametrize("value", [b"text", [1.0, 2.0], [[1.0], [2.0]]], ids=["text", "vector", "matrix"])
def test_what_is_no_scalar_is_no_sample(tmp_path, value):
    """Texts, histograms and other tensors with more than one number are left out."""
    path = event_file(tmp_path)
    append(path, *(tensor(step, loss=value) for step in range(5)))
    assert values(tmp_path) == []


def test_best_tag_is_chosen_though_it_comes_last(tmp_path):
    """Parts of a loss that are written before it do not become the curve's first value."""
    path = event_file(tmp_path)
    for step in range(1, 6):
        append(path, simple(step, box_loss=50.0), simple(step, lr=1.0), simple(step, loss=1 / step))
    assert values(tmp_path) == FIVE


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("epoch_loss", 1.0),
        ("eval/epoch_loss", 2.0),
        ("Epoch_Accuracy", 3.0),
        ("a/train/epoch_loss", 1.0),
    ],
)
def test_configured_metric_wins(tmp_path, metric, expected):
    """A configured name is the whole name, or the tag alone, where the training's split is taken."""
    validation, train = event_file(tmp_path / "a" / "eval"), event_file(tmp_path / "a" / "train")
    append(validation, *(tensor(step, epoch_loss=2.0) for step in range(5)))
    append(train, *(tensor(step, epoch_loss=1.0, epoch_accuracy=3.0) for step in range(5)))
    assert values(tmp_path, metric) == [expected] * 5


def test_adversarial_losses_are_refused(tmp_path):
    """Two losses against each other never converge: the reader says so instead of taking one."""
    path = event_file(tmp_path)
    for step in range(8):
        append(path, simple(step, D_loss=1.0), simple(step, G_loss=2.0))
    found, _, reader = samples(tmp_path)
    assert found == []
    assert "GAN" in reader.unclassifiable


def test_restart_goes_on_in_a_new_file(tmp_path):
    """A restarted trainer begins a new file: the curve goes on with it, whatever order the names have."""
    append(event_file(tmp_path, 200, name="a"), *curve(steps=range(6, 9)))
    append(event_file(tmp_path, 100, name="b"), *curve(steps=range(1, 6)))
    found, files, _ = samples(tmp_path)
    assert [one.step for one in found] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert files.counters.files == 2


def test_run_that_began_last_is_followed(tmp_path):
    """A directory of its own is a run of its own: of several, the last one begun goes on alone."""
    old, new = event_file(tmp_path / "version_0"), event_file(tmp_path / "version_1", 60)
    append(old, *curve("train_loss"))
    append(new, simple(6, train_loss=7.0), simple(7, train_loss=7.5))
    files, reader = EventFiles(tmp_path), EventReader(FormatOptions())
    found = [one.value for lines in files.read() for one in reader.read(lines)]
    assert found[-2:] == [7.0, 7.5]
    append(old, simple(8, train_loss=0.0))
    append(new, simple(8, train_loss=8.0))
    assert [one.value for lines in files.read() for one in reader.read(lines)] == [8.0]


def test_latest_run_alone_is_read_where_asked(tmp_path):
    """A verdict on a directory of several runs is one on the last of them, and says so."""
    notes = []
    append(event_file(tmp_path / "b" / "train", 50), *curve("epoch_loss"))
    append(event_file(tmp_path / "a" / "train", 90), *curve("epoch_loss", range(1, 4)))
    append(event_file(tmp_path / "a" / "validation", 80), *curve("epoch_loss"))
    assert values(tmp_path, latest_run=True, on_problem=notes.append) == FIVE[:3]
    assert "2 runs" in notes[0]
    assert notes[0].endswith(os.fspath(tmp_path / "a"))


def test_torn_record_waits_for_its_rest(tmp_path):
    """No byte of an unfinished record counts before the record is whole, wherever it was cut."""
    whole = [version(), *curve()]
    path = tmp_path / "events.out.tfevents.1.host"
    last = b"".join(whole[:-1])
    for cut in range(len(whole[-1])):
        path.write_bytes(last + whole[-1][:cut])
        files, reader = EventFiles(path), EventReader(FormatOptions())
        first = [one.step for lines in files.read() for one in reader.read(lines)]
        assert first == [1, 2, 3, 4]
        append(path, whole[-1][cut:])
        assert [one.step for lines in files.read() for one in reader.read(lines)] == [5]
        assert files.counters.corrupt == 0


def test_damaged_record_is_counted_and_passed_over(tmp_path):
    """A flipped bit costs its own record alone."""
    path = event_file(tmp_path)
    append(path, *curve())
    data = path.read_bytes()
    for place in range(len(version()), len(data) - 60):
        broken = bytearray(data)
        broken[place] ^= 0x10
        other = tmp_path / "broken" / path.name
        other.parent.mkdir(exist_ok=True)
        other.write_bytes(broken)
        found, files, _ = samples(other)
        assert files.counters.corrupt == 1
        assert len(found) == 4
        assert found[-1].step == 5


def test_cut_record_in_the_middle_is_passed_over(tmp_path):
    """A write that a crash cut, with others behind it, costs no record but its own."""
    path = event_file(tmp_path)
    one, two, three, four, five = curve()
    append(path, one, two, three[: len(three) // 2], four, five)
    found, files, _ = samples(tmp_path)
    assert [one.step for one in found] == [1, 2, 4, 5]
    assert files.counters.corrupt == 1


def test_large_records_are_passed_over(tmp_path, monkeypatch):
    """Images are not read: the memory of a sidecar has a bound."""
    path = event_file(tmp_path)
    one, *others = curve()
    append(path, one, record(b"x" * (5 << 20)), *others)
    found, files, _ = samples(tmp_path)
    assert len(found) == 5
    assert files.counters.oversized == 1


def test_hole_of_zeros_is_given_up(tmp_path):
    """A file that ends in gigabytes of zeros takes no time, and is told once."""
    path, notes = event_file(tmp_path), []
    append(path, *curve())
    end = path.stat().st_size
    os.truncate(path, 10 << 30)
    assert values(tmp_path, on_problem=notes.append) == FIVE
    assert notes == [f"{path}: no record can be found behind byte {end}"]


@given(st.binary(max_size=300), st.integers(0, 300))
def test_no_bytes_make_it_raise(tmp_path_factory, data, cut):
    """Whatever stands in an event file, reading it raises nothing and ends."""
    path = tmp_path_factory.getbasetemp() / "events.out.tfevents.1"
    whole = version() + b"".join(curve())
    path.write_bytes(whole[:cut] + data + whole[cut:])
    found, _, _ = samples(path)
    assert len(found) <= 5


@given(st.binary(max_size=200))
def test_no_line_makes_the_reader_raise(data):
    """A line that is no event is no sample."""
    assert decode(data) is None or data.startswith(b'{"run"')
    assert EventReader(FormatOptions()).read([data, b'{"run":"' + data]) == []


def test_not_a_number_is_a_sample(tmp_path):
    """A diverged run writes NaN, and that is news."""
    path = event_file(tmp_path)
    append(path, *curve(), simple(6, loss=float("nan")), simple(7, loss=float("-inf")))
    found, _, _ = samples(tmp_path)
    assert [str(one.value) for one in found[-2:]] == ["nan", "-inf"]


def test_line_survives_the_way(tmp_path):
    """An event's line says all of it."""
    line = EventLine("train", 3, 1.5, {"a/b": 0.25, "c": "nan"})
    assert decode(encode(line)) == line


def test_replaced_file_is_read_from_its_beginning(tmp_path):
    """A file that shrank, or holds something else before our place, is another one."""
    path = event_file(tmp_path)
    append(path, *curve())
    files = EventFiles(tmp_path)
    list(files.read())
    path.write_bytes(version() + b"".join(curve(steps=range(11, 13))))
    assert [decode(line).step for lines in files.read() for line in lines] == [11, 12]
    path.write_bytes(version() + b"".join(curve(steps=range(21, 29))))
    assert [decode(line).step for lines in files.read() for line in lines] == list(range(21, 29))
    path.unlink()
    assert list(files.read()) == []
    assert files.counters.replaced == 2
    assert files.positions == {}


def test_unchanged_file_is_not_opened_again(tmp_path, monkeypatch):
    """A look at many finished files costs a stat each."""
    append(event_file(tmp_path), *curve())
    files = EventFiles(tmp_path)
    list(files.read())
    monkeypatch.setattr(events, "position_at", lambda *_: pytest.fail("it was read"))
    assert list(files.read()) == []


def test_positions_go_over_a_restart(tmp_path):
    """A reader that is told where another one was hands out only what came since."""
    path = event_file(tmp_path)
    append(path, *curve())
    first = EventFiles(tmp_path)
    list(first.read())
    append(path, *curve(steps=[6]))
    second = EventFiles(tmp_path, positions=first.positions)
    assert [decode(line).step for lines in second.read() for line in lines] == [6]


def test_many_entries_are_bounded_with_a_note(tmp_path, monkeypatch):
    """A directory too large to be seen whole is told, not followed for ever."""
    monkeypatch.setattr(log_choice, "MOST_ENTRIES", 20)
    for index in range(30):
        event_file(tmp_path, index)
    notes = []
    files = EventFiles(tmp_path, on_problem=notes.append)
    list(files.read())
    list(files.read())
    assert files.counters.files == 20
    assert len(notes) == 1
    assert "not all were looked at" in notes[0]


def test_many_files_are_bounded_with_a_note(tmp_path, monkeypatch):
    """Of too many event files the ones begun last are read."""
    monkeypatch.setattr(events, "MOST_FILES", 3)
    for index in range(5):
        append(event_file(tmp_path, index), *curve(steps=[index + 1]))
    notes = []
    files = EventFiles(tmp_path, on_problem=notes.append)
    assert [decode(line).step for lines in files.read() for line in lines] == [3, 4, 5]
    assert "5 event files" in notes[0]


def test_history_is_what_the_files_held_before(tmp_path):
    """The first bytes of the files in their order are history; what came since is not."""
    append(event_file(tmp_path, 0), *curve())
    files = EventFiles(tmp_path)
    size = files.size
    append(event_file(tmp_path, 60), *curve(steps=range(6, 9)))
    steps = [decode(line).step for lines in files.history(size) for line in lines]
    assert steps == [1, 2, 3, 4, 5]
    assert [decode(line).step for lines in files.read() for line in lines] == [6, 7, 8]


def test_long_history_is_read_at_its_ends(tmp_path, monkeypatch):
    """Only the first and the last part of a long history are read, and no sample comes twice."""
    monkeypatch.setattr(events, "_HISTORY_BYTES", 2000)
    for begin in range(1, 400, 100):
        append(event_file(tmp_path, begin), *curve(steps=range(begin, begin + 100)))
    files = EventFiles(tmp_path)
    steps = [decode(line).step for lines in files.history() for line in lines]
    assert steps[0] == 1
    assert steps[-1] == 400
    assert 20 < len(steps) < 200
    assert files.counters.corrupt == 0
    assert list(files.read()) == []


class Follower:
    """Runs an event tail in a task and lets a test wait for what it expects."""

    def __init__(self, path, mode):
        self.problems = []
        self.tail = EventTail(
            EventFiles(path, on_problem=self.problems.append),
            path,
            watch=mode,
            poll_interval=INTERVAL,
            on_problem=self.problems.append,
        )
        self.steps = []
        self._news = asyncio.Event()

    async def _run(self):
        async for lines in self.tail.batches():
            self.steps += [decode(line).step for line in lines]
            self._news.set()

    async def has(self, *steps):
        async with asyncio.timeout(DEADLINE):
            while len(self.steps) < len(steps):
                await self._news.wait()
                self._news.clear()
        assert self.steps == list(steps)

    async def __aenter__(self):
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_):
        self.tail.stop()
        async with asyncio.timeout(DEADLINE):
            await self._task


@both
async def test_follows_growing_and_new_files(tmp_path, mode):
    """Files that grow, new files and new directories are followed as they come; a stop reads to the end."""
    directory = tmp_path / "later"
    async with Follower(directory, mode) as follower:
        path = event_file(directory)
        append(path, *curve(steps=[1, 2]))
        await follower.has(1, 2)
        append(path, *curve(steps=[3]))
        await follower.has(1, 2, 3)
        append(event_file(directory / "train", 60), *curve(steps=[4]))
        await follower.has(1, 2, 3, 4)
        append(path, *curve(steps=[5]))
    assert follower.steps == [1, 2, 3, 4, 5]
    assert follower.problems == []


def test_package_is_imported_only_when_a_file_is_read(tmp_path):
    """A sidecar of a job without event files never loads tensorboard, nor needs it."""
    program = (
        "import sys; import specon_sidecar.run; from specon_sidecar.event_files.events import EventFiles;"
        f"list(EventFiles({os.fspath(tmp_path)!r}).read());"
        "sys.exit(any(name.split('.')[0] in ('tensorboard', 'numpy') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0


def test_missing_package_is_named(tmp_path, monkeypatch):
    """Without the package the error says what to install."""
    append(event_file(tmp_path), *curve())
    monkeypatch.setitem(sys.modules, "specon_sidecar.event_files.event_records", None)
    with pytest.raises(events.EventsError, match=r"pip install 'specon\[tensorboard\]'"):
        list(EventFiles(tmp_path).read())
