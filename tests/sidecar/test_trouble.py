"""Why there is no sample is said in words that name what was seen and what to set."""

import asyncio
import json
import time

import pytest

from specon_sidecar.classify import Category, ClassifierSettings
from specon_sidecar.following.log_choice import choose_log
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.table import make_reader
from specon_sidecar.observing.follow import LogFollower
from specon_sidecar.observing.observer import Observer
from specon_sidecar.observing.trouble import Sight, explain
from specon_sidecar.run import Sidecar
from specon_sidecar.settings import Settings
from specon_sidecar.wire import decode_report, encode
from support.logs.event_files import event_file

FILE = Sight("file", "/data/train.log")


def observe(*lines, format_="auto", **options):
    observer = Observer(ClassifierSettings(), make_reader(format_, FormatOptions(**options)), 0.0)
    observer.take([line.encode() if isinstance(line, str) else line for line in lines], 1.0)
    return observer


def told(observer, sight=FILE, oversized=0, **options):
    trouble = explain(observer, sight, FormatOptions(**options), oversized)
    return None if trouble is None else trouble.text


def test_a_log_that_is_not_understood_shows_its_lines():
    """The first and the last line are shown, with the annotations and keys of a job file that help."""
    said = told(observe("loading\x1b[31m data", "x", "it 7 toll 3.5"))
    assert said.startswith(
        r"no line of /data/train.log is understood: 'loading\x1b[31m data' ... 'it 7 toll 3.5'; "
    )
    for key in ("specon.io/metric", "specon.io/format", "specon.io/pattern", "job file"):
        assert key in said


def test_what_was_set_is_named():
    """Where a metric or a pattern was set, that is what no line has."""
    assert "names the metric 'cost'" in told(observe("loss=1", metric="cost"), metric="cost")
    pattern = r"cost (?P<value>\d+)"
    assert "where the pattern wants it: 'loss=1'" in told(observe("loss=1", pattern=pattern), pattern=pattern)


def test_too_few_numbers_are_no_strange_log():
    """A log whose format is not decided yet is told by its likeliest reading."""
    said = told(observe("step=1 loss=2.5"))
    assert "the likeliest is key-value with the metric 'loss'; specon.io/format" in said
    assert "understood" not in said


@pytest.mark.parametrize(
    ("sight", "oversized", "said"),
    [
        (Sight("missing", "/data/x/log", " (/data is there)"), 0, "no log at /data/x/log (/data is there)"),
        (Sight("directory", "/data"), 0, "no log in the folder /data"),
        (Sight("unreadable", "/data/l", "Permission denied"), 0, "/data/l cannot be read: Permission denied"),
        (Sight("events", "/data"), 0, "no scalar in the event files at /data"),
        (Sight("empty", "/data/l"), 0, "the log /data/l is empty"),
        (Sight("file", "/data/l", unfinished=77), 0, "77 bytes and no line with an end in /data/l"),
        (Sight("file", "/data/l"), 0, "nothing was added to /data/l since the trainer started"),
        (Sight("file", "/data/l"), 3, "every line of /data/l is too long"),
    ],
)  # fmt: skip
def test_a_log_without_lines_is_told_by_what_is_there(sight, oversized, said):
    """Without a line the path is what to look at."""
    text = told(observe(), sight, oversized)
    assert text.startswith(said)
    assert text.endswith("set specon.io/log-path (log in a job file, --log) to what the trainer writes")


def test_a_sample_or_a_verdict_ends_it():
    """What is read is no trouble, and neither is a log that is known for what it is."""
    read = observe(*(f"step={n} loss={1 / n}" for n in range(1, 5)))
    assert told(read) is None
    gan = observe(*(f"step {n} Loss_D: {n % 7}.5 Loss_G: {n % 5}.5" for n in range(100)))
    assert (gan.samples, told(gan)) == (0, None) or gan.unclassifiable is not None


@pytest.mark.parametrize("line", ["\udc80" * 9, "é漢" * 90, "\\" * 300, "'" * 300])
def test_any_line_and_any_path_fit_the_wire(line):
    """The reason of a report is bounded text, and the sample that comes takes it away."""
    observer = observe(line.encode("utf-8", "surrogatepass"))
    observer.trouble = told(observer, Sight("file", f"/{line}" * 30))
    assert len(observer.trouble) <= 512
    report = observer.report(2.0, replica="ns/job/worker/0", incarnation="a", session="s")
    assert decode_report(encode(report)).reason == observer.trouble
    assert (report.category, report.samples, report.lines) == (Category.UNKNOWN, 0, 1)
    observer.take([f"step={n} loss={1 / n}".encode() for n in range(1, 5)], 3.0)
    report = observer.report(4.0, replica="ns/job/worker/0", incarnation="a", session="s")
    assert (report.samples, report.reason) == (4, "no interval with a sample yet")


def test_an_earlier_incarnation_does_not_make_the_log_understood():
    """A log whose history was read is not undecided: what this incarnation writes is not understood."""
    observer = Observer(ClassifierSettings(), make_reader("auto", FormatOptions()), 0.0)
    observer.take_history([f"step={n} loss={1 / n}".encode() for n in range(1, 9)], 0.0)
    observer.end_history(0.0)
    observer.take([b"something else"], 1.0)
    assert "is understood: 'something else'" in told(observer)


async def test_the_place_of_a_log_is_looked_at(tmp_path):
    """Each thing that may be at the path is seen for what it is."""
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("no end")
    (tmp_path / "folder").mkdir()
    event_file(tmp_path / "board")

    def look(name):
        settings = Settings(log=str(tmp_path / name))
        return LogFollower(settings, choose_log(settings.log), None).look()

    assert look("empty").kind == "empty"
    assert look("folder").kind == "directory"
    assert look("board").kind == "events"
    assert look("train.log") == Sight("missing", str(tmp_path / "train.log"))
    assert str(tmp_path) in look("a/b/train.log").detail
    assert look("text/log").kind == "unreadable"
    assert look("text") is None  # not read yet


async def test_a_line_without_its_end_is_seen(tmp_path):
    """What was read of a log is no line before its end comes."""
    (tmp_path / "text").write_text("no end")
    settings = Settings(log=str(tmp_path / "text"), poll_interval=0.02, watch="polling")
    follower = LogFollower(settings, choose_log(settings.log), None)

    async def follow():
        return [lines async for lines in follower.batches()]

    following = asyncio.create_task(follow())
    async with asyncio.timeout(30):
        while (sight := follower.look()) is None:  # noqa: ASYNC110 - a task makes it true
            await asyncio.sleep(0.02)
        assert sight == Sight("file", str(tmp_path / "text"), unfinished=6)
        follower.stop()
        assert await following == [[b"no end"]]


async def test_a_sidecar_says_it_once_and_again_where_it_changes(tmp_path, caplog):
    """The log of the sidecar has one line for a path without a log, and one for lines that say nothing."""
    log = tmp_path / "train.log"
    settings = Settings(log=str(log), poll_interval=0.02, watch="polling", explain_after=0.1)
    sidecar = Sidecar(settings, None, lambda _: None)
    running = asyncio.create_task(sidecar.run())
    async with asyncio.timeout(30):
        while len(caplog.messages) < 1:  # noqa: ASYNC110 - a task logs it
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.5)
        log.write_text("hello\n")
        while len(caplog.messages) < 2:  # noqa: ASYNC110 - the same
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.5)
        sidecar.stop()
        await running
    assert [text.partition(f" {log}")[0] for text in caplog.messages] == ["no log at", "no line of"]


async def test_a_helper_that_speaks_late_has_reported(tmp_path):
    """A framework that takes long to import was said to have no helper until somebody looked again."""
    log, socket = tmp_path / "train.log", tmp_path / "hook" / "s"
    log.write_text("".join(f"step={step}/100 loss={9 - step}\n" for step in range(1, 9)))
    given = Settings(log=str(log), poll_interval=0.02, watch="polling", explain_after=1.0, hook=str(socket))
    sidecar = Sidecar(given, None, lambda _: None)
    running = asyncio.create_task(sidecar.run())
    async with asyncio.timeout(60):
        while "never reported" not in sidecar.snapshot().report.reason:  # noqa: ASYNC110 - a task says it
            await asyncio.sleep(0.02)
        reader, writer = await asyncio.open_unix_connection(str(socket))
        token = socket.with_name("token").read_text().strip()
        hello = {"version": 1, "pid": 1, "token": token, "rank": 0, "world": 1, "saves": True}
        writer.write(json.dumps({"hello": hello}).encode() + b"\n")
        await reader.readline()
        assert "never reported" not in sidecar.snapshot().report.reason
        writer.close()
        sidecar.stop()
        await running


async def test_a_trainer_that_is_stopped_for_others_has_the_time_that_it_runs_to_write(tmp_path, caplog):
    """A job that waits for its turn was said to have an empty log; while it runs the time counts."""
    account = tmp_path / "stopped.json"
    account.write_text(json.dumps({"seconds": 0.0, "since": time.monotonic()}))
    settings = Settings(
        log=str(tmp_path / "train.log"),
        poll_interval=0.02,
        watch="polling",
        explain_after=0.1,
        stopped_file=str(account),
    )
    sidecar = Sidecar(settings, None, lambda _: None)
    running = asyncio.create_task(sidecar.run())
    async with asyncio.timeout(30):
        await asyncio.sleep(0.5)
        assert caplog.messages == []
        account.write_text(json.dumps({"seconds": 0.5, "since": None}))
        while not caplog.messages:  # noqa: ASYNC110 - a task logs it
            await asyncio.sleep(0.02)
        sidecar.stop()
        await running
