"""`specon reproduce`, from the command to tables, JSON and pages."""

from __future__ import annotations

import json

import msgspec
import pytest

from specon_lab.commands import reproduce, reproduction_run
from specon_lab.commands.reproduction_page import CLOCK_MARK
from specon_lab.commands.reproduction_run import make_plan, tasks_of
from specon_lab.reproduction.table import NAMES
from specon_manager.__main__ import main
from support.lab.reproductions import TINY, interrupt, refuse, with_measure

pytest.importorskip("scipy")


@pytest.fixture
def known(monkeypatch):
    """Let `tiny` be the only reproduction that there is; tests may put another in its place."""

    def make(*reproductions):
        by_name = {each.name: each for each in reproductions}
        monkeypatch.setattr(reproduce, "NAMES", tuple(by_name))
        monkeypatch.setattr(reproduce, "reproduction_named", by_name.__getitem__)

    make(TINY)
    return make


def run(*arguments):
    return main(["reproduce", "tiny", "--jobs", "1", *arguments])


TABLES = """\
A. Author, B. Author: On the Smallest of Things, Proc. of Nowhere 2020

Table 1
                         paper  literal  default    ±  difference    error  verdict     note
first in, first out (s)    4.0      3.5        -  1.2        -0.5  -12.5 %  reproduced  [1]
the bound                2,000        -        6    -      -1,994  -99.7 %  missed      [1]
share (%)                    -        -     12.5    -           -        -  no figure
       a | b (s)      c
one        1,234      -
other       0.25  101.0
  [1] it | differs
  Nothing could be read off the bars.

The last page is missing.

"""


def test_the_tables_hold_the_papers_figures_and_ours(known, capsys):
    """Both modes, spread, difference, error, verdict, notes, figures side by side; the counts come last."""
    assert run() == 0
    out, err = capsys.readouterr()
    *lines, last = out.splitlines(keepends=True)
    assert "".join(f"{line.rstrip()}\n" for line in lines) == TABLES
    assert last.startswith(
        "tiny: 1 of 2 figures reproduced, 1 row without a verdict; "
        "1 of 2 that a paper prints are off by more than 25 %; 4 runs, "
    )
    assert "4 of 4 runs: tiny fifo, seed 1" in err


def test_quick_makes_fewer_runs(known, capsys):
    """And JSON says so."""
    assert run("--quick", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["command"] == "specon reproduce tiny --quick"
    assert (found["schema"], found["quick"], found["complete"]) == (1, True, True)
    assert [(each["key"], each["seed"]) for each in found["reproductions"][0]["runs"]] == [
        ("fifo", 0),
        ("srpt", 0),
    ]


def test_json_is_the_same_however_many_processes_there_are(known, capsys, tmp_path):
    """Nothing in it is about the computer or the day."""
    one, other = tmp_path / "1.json", tmp_path / "2.json"
    assert run("--json", str(one)) == 0
    assert main(["reproduce", "tiny", "--jobs", "2", "--json", str(other)]) == 0
    assert one.read_bytes() == other.read_bytes()
    found = json.loads(one.read_bytes())["reproductions"][0]
    assert found["counts"] == {
        "reproduced": 1,
        "missed": 1,
        "without_verdict": 1,
        "compared": 2,
        "far": 1,
    }
    assert [set(each["measures"]) for each in found["runs"]] == [{"completed", "seed"}] * 4
    assert "Table 1" in capsys.readouterr().out


def test_a_page_is_the_same_each_time_but_for_the_line_that_says_so(known, tmp_path, capsys):
    """It names the command, the version and the seeds, and every row with its tolerance and note."""
    pages = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        assert run("--pages", str(tmp_path / folder)) == 0
        pages.append((tmp_path / folder / "tiny.md").read_text().splitlines())
    differing = [one for one, other in zip(*pages, strict=True) if one != other]
    assert all(CLOCK_MARK in line for line in differing)
    assert sum(CLOCK_MARK in line for line in pages[0]) == 1
    text = "\n".join(pages[0])
    assert "$ specon reproduce tiny\n" in text
    assert "4 runs, seeds 0 to 1." in text
    assert (
        "**1 of 2 figures reproduced**, 1 row without a verdict; 1 of 2 that a paper prints are off" in text
    )
    assert "| other | 0.25 | 101.0 |" in text
    assert "| within 1000 % | it \\| differs |" in text
    assert "\nNothing could be read off the bars.\n" in text
    assert text.endswith("The last page is missing.")
    capsys.readouterr()


def test_a_run_that_breaks_takes_nothing_from_the_other_keys(known, capsys, tmp_path):
    """Exit code 1, the place is named, its figure is unknown, and no page is written."""
    known(with_measure(refuse, "srpt", 0))
    assert run("--pages", str(tmp_path)) == 1
    out, err = capsys.readouterr()
    assert "specon: tiny srpt, seed 0: LookupError: nothing to measure in poisson (" in err
    assert [line.split()[2:5] for line in out.splitlines() if line.startswith("the bound")] == [
        ["2,000", "-", "-"]
    ]
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_shows_what_is_complete(known, capsys, tmp_path):
    """Exit code 130; a key that lacks a seed is left out, JSON says so, and no page is written."""
    known(with_measure(interrupt, "fifo", 1))
    path = tmp_path / "x.json"
    assert run("--output", str(tmp_path), "--json", str(path)) == 130
    out, err = capsys.readouterr()
    assert "specon: interrupted after 3 of 4 runs" in err
    shown = {line[:9]: line.split() for line in out.splitlines()}
    assert shown["first in,"][4:7] == ["(s)", "4.0", "-"]
    assert shown["the bound"][2:5] == ["2,000", "-", "6"]
    assert "3 of 4 runs, " in out.splitlines()[-1]
    found = json.loads(path.read_bytes())
    assert (found["complete"], len(found["reproductions"][0]["runs"])) == (False, 3)
    assert [each.name for each in tmp_path.iterdir()] == ["x.json"]


def test_tables_that_cannot_be_made_are_told(known, capsys):
    """Exit code 1, with the place; the other papers have theirs."""
    broken = msgspec.structs.replace(TINY, name="broken", sections=lambda _: [{}["row"]])
    known(broken, TINY)
    assert main(["reproduce", "all", "--quick", "--jobs", "1"]) == 1
    out, err = capsys.readouterr()
    assert "specon: broken: no tables: KeyError: 'row' (" in err
    assert "broken: 0 of 0 figures reproduced" in out
    assert "tiny: 1 of 2 figures reproduced" in out


def test_a_picture_is_drawn_for_each_paper(known, capsys, tmp_path):
    """NAME.png in the folder."""
    pytest.importorskip("matplotlib")
    assert run("--quick", "--plot", str(tmp_path)) == 0
    assert (tmp_path / "tiny.png").read_bytes()[:4] == b"\x89PNG"
    capsys.readouterr()


def test_a_further_picture_is_drawn_of_what_was_measured(known, capsys, tmp_path, monkeypatch):
    """For a paper that has one; quick runs are too few for it."""
    pytest.importorskip("matplotlib")
    drawn = []
    monkeypatch.setattr(reproduce, "_FURTHER", {"tiny": ("more", lambda *given: drawn.append(given))})
    assert run("--quick", "--plot", str(tmp_path)) == 0
    assert drawn == []
    assert run("--plot", str(tmp_path)) == 0
    [(measures, path)] = drawn
    assert path == tmp_path / "more.png"
    assert {key: len(seeds) for key, seeds in measures.items()} == {"fifo": 2, "srpt": 2}
    capsys.readouterr()


def test_the_largest_runs_come_first():
    """So that no process is left alone with a long one at the end."""
    assert [(task.run.key, task.run.seed) for task in tasks_of([make_plan(TINY, quick=False)])] == [
        ("srpt", 0),
        ("srpt", 1),
        ("fifo", 0),
        ("fifo", 1),
    ]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--jobs", "0"], "--jobs: 0 is less than 1"),
        (["--pages", "nowhere"], "--pages: there is no directory nowhere"),
        (["--plot", "nowhere"], "--plot: there is no directory nowhere"),
        (["--json", "nowhere/x.json"], "--json: nowhere/x.json: there is no directory nowhere"),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_runs(known, flags, message, capsys, monkeypatch):
    """Exit code 2; the flag and the value are named."""
    monkeypatch.setattr(reproduction_run, "simulate", None)
    assert main(["reproduce", "tiny", *flags]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"specon: {message}\n")


def test_traces_are_looked_for_in_the_folder(capsys, tmp_path, known):
    """Where none is there it is told; and only our own policy is run on them."""
    known(msgspec.structs.replace(TINY, name="ours"), TINY)
    assert main(["reproduce", "ours", "--traces", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"specon: --traces: traces: {tmp_path} holds none of ")
    assert main(["reproduce", "tiny", "--traces", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "specon: --traces: tiny is not about traces, ours is\n"


def test_an_unknown_paper_is_refused_with_the_known_ones(capsys):
    """As every wrong argument is: exit code 2."""
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "nobody"])
    assert ended.value.code == 2
    assert all(name in capsys.readouterr().err for name in NAMES[:1])
