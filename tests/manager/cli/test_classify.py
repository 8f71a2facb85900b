"""`specon classify` tells of any log what it is and how its job went, or clearly why it cannot."""

import errno
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from specon_manager.__main__ import main
from specon_manager.backends.kube.objects.annotation_reader import read_options
from specon_manager.cli.study.classification import annotations
from specon_manager.cli.study.course import Course, KeptSamples, Mark, divide_by_count, divide_by_time
from specon_manager.cli.study.curve_view import draw
from specon_manager.cli.study.likeliest import FormatGuess
from specon_sidecar.classify import Category, ClassifierSettings
from specon_sidecar.event_files.event_reader import FORMAT as EVENT_FILES
from specon_sidecar.formats.detect import Evidence
from specon_sidecar.formats.metric_choice import LONGEST_NAME
from specon_sidecar.formats.name_words import fold
from specon_sidecar.formats.sample import Sample
from specon_sidecar.formats.table import FORMATS
from support.logs.event_files import append, event_file, simple, tensor


def loss(step, end=0.3):
    return end + 2 * math.exp(-step / 50)


def text(steps, start=1):
    return "".join(f"epoch {n // 100} step {n} loss: {loss(n):.5f}\n" for n in range(start, steps + 1))


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "train.log"
    path.write_text("loading\n" * 10 + text(1000))
    return path


def classify(capsys, path, *arguments):
    """Run the command; return its exit code, output and errors."""
    code = main(["classify", os.fspath(path), *arguments])
    told = capsys.readouterr()
    return code, told.out, told.err


def as_json(capsys, tmp_path, path, *arguments):
    file = tmp_path / "out.json"
    code, _, errors = classify(capsys, path, *arguments, "--json", os.fspath(file))
    assert errors == ""
    return code, json.loads(file.read_bytes())


def test_finished_log_is_told_whole(capsys, log):
    """Format with its evidence, metric, counts, both ends, the drawing, the verdict and what came of it."""
    code, out, errors = classify(capsys, log)
    assert (code, errors) == (0, "")
    assert "format    key-value, by its first 3 samples at 3 steps" in out
    assert "metric    'loss', less is better (as its name says)" in out
    assert "1,010 lines, 1,000 samples, 10 lines without one" in out
    assert "first     2.2604 at step 1, epoch 0" in out
    assert "verdict   converged after 50 intervals" in out
    assert "judged    by horizon" in out
    assert "have been movable from step 4" in out
    drawn = [line for line in out.splitlines() if " |" in line]
    assert len(drawn) == 16
    assert "o" in "".join(drawn[:8])
    assert drawn[-1].endswith("ccc")


def test_a_log_of_epochs_is_promised_a_move(capsys, tmp_path):
    """Where a log counts epochs alone each of them is a step, as the sidecar reports it."""
    path = tmp_path / "train.log"
    path.write_text("".join(f"Epoch {n}/1000, Loss: {loss(n):.5f}\n" for n in range(1, 1001)))
    _, out, _ = classify(capsys, path)
    assert "first     2.2604 at epoch 1\n" in out
    assert "have been movable from epoch" in out
    assert "each epoch counts as a step" in out


@pytest.mark.parametrize("form", ["<{}> train/loss={:.5f}\n", "Epoch {}.5, Loss: {:.5f}\n"])
def test_a_log_without_steps_is_promised_no_move(capsys, tmp_path, form):
    """The manager would refuse it, since no resume could be proven; a pattern that reads steps mends it."""
    path = tmp_path / "train.log"
    path.write_text("".join(form.format(n, loss(n)) for n in range(1, 1001)))
    _, out, _ = classify(capsys, path)
    assert "verdict   converged" in out
    assert "would     never have been moved: its log names no steps" in out
    assert "--pattern with (?P<step>...)" in out
    pattern = r"(?P<step>\d+)\D.*[=:] ?(?P<value>\S+)"
    assert "have been movable from step" in classify(capsys, path, "--pattern", pattern)[1]


def test_json_holds_the_promised_keys(capsys, log, tmp_path):
    """The document has what other programs rely on, and its numbers are those of the log."""
    code, found = as_json(capsys, tmp_path, log)
    assert code == 0
    promised = {"format", "evidence", "metric", "goal", "lines", "samples", "unparsed", "first", "last"}
    assert promised | {"watching_at", "converged_at", "category", "curve"} <= set(found)
    assert (found["format"], found["metric"], found["goal"]) == ("key-value", "loss", "min")
    assert (found["lines"], found["samples"], found["unparsed"]) == (1010, 1000, 10)
    place = {"step", "epoch", "value", "category"}
    assert all(place <= set(found[key]) for key in ("first", "last", "watching_at", "converged_at"))
    assert (found["first"]["step"], found["first"]["value"]) == (1, pytest.approx(loss(1), abs=1e-5))
    assert (found["last"]["step"], found["last"]["category"]) == (1000, "converged")
    assert found["watching_at"]["step"] < found["converged_at"]["step"] < 500
    assert len(found["curve"]) == 50


@pytest.mark.parametrize("classifier", ["specon", "horizon"])
def test_classifier_can_be_chosen(capsys, log, tmp_path, classifier):
    """Each classifier of the sidecar judges here, too."""
    _, found = as_json(capsys, tmp_path, log, "--classifier", classifier)
    assert found["classifier"]["classifier"] == classifier
    assert found["category"] == "converged"


def test_intervals_and_alpha_count(capsys, log, tmp_path):
    """A finer division and a stricter threshold are what was asked for."""
    _, found = as_json(capsys, tmp_path, log, "--intervals", "20", "--alpha", "1e-9")
    assert found["intervals"] == 20
    assert found["classifier"]["alpha"] == 1e-9


def test_csv_is_read(capsys, tmp_path):
    """A table with a header line is a log."""
    path = tmp_path / "metrics.csv"
    path.write_text("step,loss\n" + "".join(f"{n},{loss(n)}\n" for n in range(200)))
    code, found = as_json(capsys, tmp_path, path)
    assert (code, found["format"], found["samples"]) == (0, "csv", 200)


def test_event_files_are_read(capsys, tmp_path):
    """A directory of event files is one log; of several runs the last one counts, which is told."""
    append(event_file(tmp_path / "run_1", 0), *(simple(n, loss=9.0) for n in range(10)))
    path = event_file(tmp_path / "run_2" / "train", 60)
    append(path, *(tensor(n, epoch_loss=loss(n)) for n in range(1, 601)))
    code, found = as_json(capsys, tmp_path, tmp_path)
    assert (code, found["format"], found["metric"]) == (0, "event-files", "train/epoch_loss")
    assert (found["samples"], found["category"]) == (600, "converged")
    assert "2 runs" in found["notes"][0]
    _, alone = as_json(capsys, tmp_path, path)
    assert (alone["metric"], alone["samples"]) == ("epoch_loss", 600)


def test_directory_prefers_the_structured_log(capsys, tmp_path, log):
    """Beside a text log and event files, a table with a loss is what is read."""
    append(event_file(tmp_path / "tb"), *(simple(n, loss=9.0) for n in range(10)))
    assert as_json(capsys, tmp_path, tmp_path)[1]["format"] == "event-files"
    (tmp_path / "version_0").mkdir()
    (tmp_path / "version_0" / "metrics.csv").write_text("step,loss\n1,2\n2,1.5\n3,1\n")
    _, found = as_json(capsys, tmp_path, tmp_path)
    assert found["format"] == "csv"
    assert found["why"] == "a table with a column to follow"


def test_a_directory_with_a_newer_binary_file_has_its_log_read(capsys, tmp_path, log):
    """What is no text is no log, whatever its name says."""
    (tmp_path / "core.log").write_bytes(bytes(range(256)) * 400)
    _, found = as_json(capsys, tmp_path, tmp_path)
    assert found["path"] == str(log)


def test_the_journal_of_a_manager_is_no_log(capsys, tmp_path, log):
    """Where `specon local` has run, its state lies beside the trainer's log."""
    (tmp_path / "jobs.specon").mkdir()
    (tmp_path / "jobs.specon" / "journal.jsonl").write_text('{"type":"step","now":1.0}\n')
    _, found = as_json(capsys, tmp_path, tmp_path)
    assert found["path"] == str(log)


def test_a_format_that_is_nearly_known_is_guessed(capsys, log):
    """Nobody reads through sixty names for one that lacks a letter."""
    code, _, errors = classify(capsys, log, "--format", "hugingface")
    assert code == 2
    assert "format 'hugingface' is unknown; did you mean hugging-face?" in errors


def test_printed_times_divide_where_asked(capsys, tmp_path):
    """With times in the log and an interval, the intervals are those of the run."""
    path = tmp_path / "log.jsonl"
    lines = (f'{{"step":{n},"loss":{loss(n)},"time":{1_795_000_000 + n}}}\n' for n in range(1, 301))
    path.write_text("".join(lines))
    _, found = as_json(capsys, tmp_path, path, "--interval", "10")
    assert found["intervals"] == 30


def test_interval_without_times_is_told(capsys, log):
    """A log without times cannot be divided by them: it is told, not guessed."""
    assert "the samples have no times" in classify(capsys, log, "--interval", "10")[1]


def test_goal_of_an_accuracy_is_max(capsys, tmp_path):
    """The name of the metric says which way is better; a flag overrules it."""
    path = tmp_path / "log"
    path.write_text("".join(f"step {n} accuracy: {1 - loss(n, 0) / 3:.4f}\n" for n in range(1, 301)))
    assert as_json(capsys, tmp_path, path)[1]["goal"] == "max"
    assert "more is better (as --goal says)" in classify(capsys, path, "--goal", "max")[1]


def test_adversarial_losses_are_not_classifiable(capsys, tmp_path):
    """A GAN is recognised and refused, with the reason."""
    path = tmp_path / "log"
    path.write_text("".join(f"step {n} Loss_D: {n % 7}.5 Loss_G: {n % 5}.5\n" for n in range(100)))
    code, found = as_json(capsys, tmp_path, path)
    assert (code, found["category"]) == (0, "not-classifiable")
    assert "GAN" in found["reason"]


def test_unrecognised_log_gets_the_likeliest_readings(capsys, tmp_path):
    """Where nothing is recognised the three likeliest readings are shown, with the annotations to set."""
    path = tmp_path / "log"
    path.write_text(
        "".join(f"step {n} badness={5 / n:.4f} foo: {n % 3} bar: 1 qux: {n % 7}\n" for n in range(1, 300))
    )
    code, out, _ = classify(capsys, path)
    assert code == 1
    assert 'specon.io/metric: "badness"' in out
    assert 'specon.io/format: "key-value"' in out
    assert "  3. " in out
    assert "  4. " not in out
    code, found = as_json(capsys, tmp_path, path)
    assert (code, found["recognised"]) == (1, False)
    assert found["readings"][0]["annotations"]["specon.io/format"] == "key-value"
    assert classify(capsys, path, "--metric", "badness")[0] == 0


def test_a_script_is_told_from_its_log(capsys, tmp_path):
    """Somebody who names the script instead of its log is told so, and gets no annotations for it."""
    script = tmp_path / "train.py"
    script.write_text('for step in range(10):\n    print(f"step {step} loss {1 / (step + 1)}")\n')
    out = classify(capsys, script)[1]
    assert "a .py file is a script; name the log that it prints" in out
    assert "specon.io/" not in out


def test_unrecognised_tags_get_their_annotation(capsys, tmp_path):
    """Event files without a loss name their tags."""
    append(event_file(tmp_path), *(simple(n, quality__x=1 / n) for n in range(1, 20)))
    code, out, _ = classify(capsys, tmp_path)
    assert code == 1
    assert 'specon.io/metric: "quality/x"' in out
    assert "specon.io/format" not in out


NAMES = [
    "loss",
    "my  loss",
    'the "loss"',
    "back\\slash",
    "a: b",
    "perte d'été",
    "x\ny",
    "bell\a",
    "n" * LONGEST_NAME,
]


@pytest.mark.parametrize("name", NAMES)
def test_admission_accepts_what_is_advised(name):
    """Whatever a reading's annotations are, the webhook takes them, and they mean that reading."""
    for format_ in (*(one for one in FORMATS if FORMATS[one].detectable), EVENT_FILES):
        evidence = Evidence(format_, 3, 3, None, None, 1.0)
        options = read_options(annotations(FormatGuess(format_, name, evidence)))
        assert (options.format or EVENT_FILES) == format_
        assert options.metric is None if "\a" in name else fold(options.metric) == fold(name)


@pytest.mark.parametrize(
    ("line", "advised"),
    [
        ('step {n} badness={n}.5 the "toll": {n} foo: 1 bar: {m} qux: 2\n', 3),
        ("hello world {n}\n", 1),
    ],
)
def test_admission_accepts_what_is_printed(capsys, tmp_path, line, advised):
    """What stands on the screen is YAML of a manifest, and each block of it is accepted by the webhook."""
    (tmp_path / "log").write_text("".join(line.format(n=n, m=n % 3) for n in range(1, 300)))
    _, out, _ = classify(capsys, tmp_path / "log")
    blocks, within = [], False
    for row in out.splitlines():
        is_annotation = row.strip().startswith("specon.io/")
        if is_annotation and not within:
            blocks.append({})
        within = is_annotation
        if is_annotation:
            blocks[-1] |= yaml.safe_load(row)
    assert len(blocks) == advised
    assert all(read_options(block).format for block in blocks)


def test_text_without_numbers_shows_its_lines(capsys, tmp_path):
    """A log of prose is answered with the way out and an example of it, harmless on a terminal."""
    path = tmp_path / "log"
    path.write_text("hello \x1b[31mworld\n" * 30)
    code, out, _ = classify(capsys, path)
    assert code == 1
    assert "hello" in out
    assert "\x1b" not in out
    assert "regular-expression" in out


def sparse(path, size=10 << 30):
    path.write_bytes(b"")
    os.truncate(path, size)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda path: None, "No such file"),
        (lambda path: path.write_bytes(b""), "is empty"),
        (lambda path: path.write_bytes(bytes(range(256)) * 100), "no text log"),
        (lambda path: path.write_bytes(b"\x1f\x8b" + bytes(50)), "compressed"),
        (lambda path: path.write_bytes(b"x" * 200_000), "no line of at most 65536 bytes"),
        (sparse, "nothing but zeros"),
        (lambda path: path.mkdir(), "no log in this directory"),
        (os.mkfifo, "neither a file nor a directory"),
        (lambda path: path.symlink_to(path), "symbolic links"),
    ],
    ids=["missing", "empty", "binary", "gzip", "endless-line", "sparse", "directory", "pipe", "loop"],
)
def test_what_is_no_log_is_refused(capsys, tmp_path, make, told):
    """Anything but a log ends with a clear message that names it, and the code 2."""
    path = tmp_path / "thing"
    make(path)
    code, out, errors = classify(capsys, path)
    assert (code, out) == (2, "")
    assert errors.startswith(f"specon: {path}: ")
    assert told in errors


def test_line_of_ten_gigabytes_is_stepped_over(capsys, tmp_path):
    """A sparse line without an end takes neither time nor memory; what is before and after it counts."""
    path = tmp_path / "log"
    path.write_text(text(2000))
    with path.open("r+b") as file:
        file.seek(10 << 30)
        file.write(b"\n" + text(2500, start=2001).encode())
    begun = time.process_time()
    _, found = as_json(capsys, tmp_path, path)
    assert time.process_time() - begun < 20
    assert found["last"]["step"] == 2500


@pytest.mark.parametrize("what", ["file", "directory", "event file"])
def test_what_may_not_be_read_is_refused(capsys, tmp_path, log, monkeypatch, what):
    """A missing permission is named as such, under any user that runs the tests."""

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    path = {"file": log, "directory": tmp_path, "event file": event_file(tmp_path)}[what]
    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(os, "scandir", refuse)
    code, _, errors = classify(capsys, path)
    assert (code, errors) == (2, f"specon: {path}: Permission denied\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--format", "nope"],
        ["--pattern", "("],
        ["--metric", " "],
        ["--json", "/nonexistent/x"],
        ["--plot", "/nonexistent/x.png"],
        ["--plot", "/tmp/x.nope"],
    ],
)
def test_wrong_flags_are_named(capsys, log, arguments):
    """A wrong value is a mistake to mend: its flag is named, code 2."""
    code, _, errors = classify(capsys, log, *arguments)
    assert code == 2
    assert arguments[0] in errors


@pytest.mark.parametrize("arguments", [["--alpha", "2"], ["--intervals", "0"], ["--interval", "x"]])
def test_wrong_numbers_are_refused(log, arguments):
    """A number out of its bounds ends at once."""
    with pytest.raises(SystemExit, match="2"):
        main(["classify", os.fspath(log), *arguments])


def test_plot_draws_a_picture(capsys, log, tmp_path):
    """The picture is written in the format that its name says."""
    classify(capsys, log, "--plot", os.fspath(tmp_path / "out.png"))
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.processes
def test_follow_judges_as_the_log_grows(tmp_path):
    """A growing log is judged by the clock; Ctrl-C ends with the whole verdict."""
    path = tmp_path / "log"
    path.write_text("")
    command = [sys.executable, "-m", "specon_manager", "classify", os.fspath(path), "--follow"]
    with subprocess.Popen([*command, "--interval", "0.3"], stdout=subprocess.PIPE, text=True) as process:
        path.write_text(text(50))
        assert "step 50" in process.stdout.readline()
        with path.open("a") as file:
            file.write(text(300, start=51))
        while "step 300" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "300 lines, 300 samples" in rest


def test_kept_samples_are_bounded_and_in_order():
    """However many samples come, what is kept is bounded, spans them all, and keeps their mean."""
    kept = KeptSamples(most=64)
    for begin in range(0, 10_000, 100):
        kept.extend([Sample("loss", float(n), n) for n in range(begin, begin + 100)])
    samples = kept.all()
    assert len(samples) <= 64
    assert (kept.count, kept.first.step, kept.last.step, samples[-1].step) == (10_000, 0, 9999, 9999)
    steps = [sample.step for sample in samples]
    assert steps == sorted(steps)
    assert sum(sample.value for sample in samples[:-1]) / (len(samples) - 1) == pytest.approx(5000, rel=0.05)


def test_merged_samples_stay_not_a_number():
    """A run that ends in NaN still does when its samples are merged."""
    kept = KeptSamples(most=8)
    kept.extend([Sample("loss", 1.0 if n < 50 else math.nan, n) for n in range(100)])
    assert math.isnan(kept.all()[-1].value)


def test_division_by_count_loses_nothing():
    """Each sample is in exactly one part, and no part is empty."""
    samples = [Sample("loss", 1.0, n) for n in range(103)]
    parts = list(divide_by_count(samples, 50))
    assert [one for part in parts for one in part] == samples
    assert (len(parts), min(map(len, parts))) == (50, 2)
    assert len(list(divide_by_count(samples[:7], 50))) == 7


def test_division_by_time_has_empty_intervals():
    """A time without a sample is an interval without one; too many of them are refused."""
    samples = [Sample("loss", 1.0, time=1e9 + at) for at in (0, 1, 10, 31)]
    assert [len(part) for part in divide_by_time(samples, 10)] == [2, 1, 0, 1]
    with pytest.raises(ValueError, match="intervals"):
        list(divide_by_time([samples[0], Sample("loss", 1.0, time=5e9)], 0.1))


def test_reopened_verdict_is_counted():
    """A job that learnt again after it had converged is told."""
    course = Course(ClassifierSettings(classifier="specon"), "csv")
    for value in (2.0, 1.0, 0.99, 0.985, 0.5, 0.3):
        course.close_interval([Sample("loss", value)])
    assert [mark.category for mark in course.changes][-2:] == [Category.CONVERGED, Category.PROGRESSING]
    assert course.reopened == 1
    assert course.converged_at.value == 0.985


def test_drawing_fits_its_width_and_shows_each_category():
    """The drawing has the size that was asked for, its highest value on top, and letters for categories."""
    points = [Mark(n, None, 100.0 - n, Category.PROGRESSING) for n in range(50)]
    points += [Mark(n, None, 50.0, Category.CONVERGED) for n in range(50, 100)]
    points.append(Mark(100, None, None, Category.DIVERGING))
    lines = [line.plain for line in draw(points, width=60, height=10)]
    assert len(lines) == 11
    assert max(map(len, lines)) <= 60
    assert lines[0].startswith("      100 |o")
    assert lines[9].endswith("ccc")
    assert "converged" in lines[10]


@pytest.mark.parametrize("values", [[1.0], [0.0, 0.0], [1e308, -1e308], [1e-300, 1e300], []])
def test_drawing_takes_any_values(values):
    """No curve breaks the drawing."""
    points = [Mark(None, None, value, Category.UNKNOWN) for value in values]
    assert bool(list(draw(points, width=30, height=5))) is bool(values)


def test_manager_does_not_load_the_follower():
    """The command needs only the sidecar's pure parts and its reader of event files."""
    program = (
        "import sys; import specon_manager.cli.study.classify;"
        "strange = ('watchdog', 'specon_sidecar.following.tail', 'tensorboard');"
        "sys.exit(any(name in sys.modules for name in strange))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0


def test_total_and_what_said_it(capsys, tmp_path):
    """A total that stands at the head is told with its line, on the screen and as JSON."""
    path = tmp_path / "log"
    path.write_text("max_steps: 4000\n" + text(300))
    assert "total     4,000 steps (the line 'max_steps: 4000')" in classify(capsys, path)[1]
    _, found = as_json(capsys, tmp_path, path)
    assert found["total"] == {"steps": 4000, "epochs": None, "from": "the line 'max_steps: 4000'"}


def test_progress_without_a_total_says_so(capsys, tmp_path):
    """Nobody knows how much is left where no total was understood."""
    path = tmp_path / "log"
    path.write_text("".join(f"step {n} loss: {3 - n / 150}\n" for n in range(1, 301)))
    code, found = as_json(capsys, tmp_path, path)
    assert (code, found["category"], found["total"]) == (0, "progressing", None)
    assert "no total" in found["reason"]


def test_pattern_is_proposed_and_works(capsys, tmp_path):
    """Where no number has a name a pattern is proposed that was tried, and lines of a job file to paste."""
    path = tmp_path / "log"
    path.write_text(
        "".join(f"[pass {n} of 900] objective now at {900 - n}.5 (0.{n})\n" for n in range(1, 41))
    )
    code, out, _ = classify(capsys, path)
    assert code == 1
    assert "finds 40 samples, 899.5 at step 1 to 860.5 at step 40" in out
    assert '       format: "regular-expression"' in out
    _, found = as_json(capsys, tmp_path, path)
    code, found = as_json(capsys, tmp_path, path, "--pattern", found["proposal"]["pattern"])
    assert (code, found["samples"], found["last"]["step"]) == (0, 40, 40)


def test_trainer_state_of_the_last_checkpoint_is_found(capsys, tmp_path):
    """`out/` of the Hugging Face Trainer holds a state for each checkpoint."""
    for step in (10, 20):
        folder = tmp_path / "out" / f"checkpoint-{step}"
        folder.mkdir(parents=True)
        records = [{"epoch": n / 10, "loss": 3 - n / 10, "step": n} for n in range(1, step + 1)]
        state = {"log_history": records, "max_steps": 40, "num_train_epochs": 4}
        (folder / "trainer_state.json").write_text(json.dumps(state, indent=2))
        os.utime(folder / "trainer_state.json", (step, step))
    _, found = as_json(capsys, tmp_path, tmp_path / "out")
    assert (found["format"], found["samples"], found["last"]["step"]) == ("trainer-state", 20, 20)
    assert found["total"]["steps"] == 40


def test_loss_of_an_mlflow_store_is_found(capsys, tmp_path):
    """A file store has a file for each metric."""
    folder = tmp_path / "mlruns" / "0" / "run" / "metrics"
    folder.mkdir(parents=True)
    (folder / "lr").write_text("1795216890233 0.1 0\n")
    (folder / "train_loss").write_text("".join(f"{1795216890233 + n} {3 - n / 20} {n}\n" for n in range(30)))
    _, found = as_json(capsys, tmp_path, tmp_path / "mlruns")
    assert (found["format"], found["samples"], found["last"]["step"]) == ("mlflow", 30, 29)


def test_rising_curve_of_an_assumed_goal_is_not_diverging(capsys, tmp_path):
    """Whether less or more of an MLPerf accuracy is better nothing says."""
    path = tmp_path / "log"
    form = ':::MLLOG {{"key": "eval_accuracy", "value": {:.3f}, "metadata": {{"epoch_num": {}}}}}\n'
    path.write_text("".join(form.format(0.1 + n / 150, n) for n in range(100)))
    code, found = as_json(capsys, tmp_path, path)
    assert (code, found["category"]) == (0, "unknown")
    assert found["goal_from"].startswith("assumed")
    assert "assumed" in found["reason"]
