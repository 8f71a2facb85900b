"""The picture of simulations."""

from __future__ import annotations

import builtins
import itertools
import struct
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_lab.commands.node_chart import average_held, stack
from specon_lab.commands.simulation_plot import check_picture, mean_by_bin, plot_runs
from specon_lab.engine.outcome import Stay, UsePoint
from specon_lab.results.report import condense
from support.lab.outcomes import filled, job, outcome

pytest.importorskip("matplotlib")


def size(path):
    """Return width and height of a PNG in pixels."""
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", head[16:24])


def words(path):
    """Return all text of an SVG whose letters are kept as comments of their shapes."""
    parser = ET.XMLParser(target=ET.TreeBuilder(insert_comments=True))  # our own file
    tree = ET.parse(path, parser)  # our own file
    return [(element.text or "").strip() for element in tree.iter() if element.tag is ET.Comment]


def runs(*policies, **fields):
    return [condense(filled(**fields), policy, seed=seed) for seed in (0, 1) for policy in policies]


def test_five_policies_make_a_picture(tmp_path):
    """1400 pixels wide, and higher with each policy."""
    one, five = tmp_path / "1.png", tmp_path / "5.png"
    plot_runs(one, runs("a"), title="by-hand", nodes=["node-0", "node-1"])
    plot_runs(five, runs("a", "b", "c", "d", "e"), title="by-hand", nodes=["node-0", "node-1"])
    assert size(one)[0] == size(five)[0] == 1400
    assert size(five)[1] > size(one)[1]


def test_the_picture_says_what_it_shows(tmp_path):
    """Title, policies, units, nodes and jobs are written in it."""
    path = tmp_path / "run.svg"
    plot_runs(path, runs("specon", "srpt"), title="by-hand: 6 jobs", nodes=["node-0", "node-1"])
    expected = {
        "by-hand: 6 jobs",
        "Completion times, all seeds",
        "Utilisation, seed 0",
        "specon, seed 0",
        "srpt, seed 0",
        "completion time (s)",
        "node-0",
        "node-1",
        "job-0",
    }
    assert expected <= set(words(path))


def test_a_crowd_of_stays_becomes_a_map(tmp_path):
    """The bars of 100 nodes would be invisible; the scale says what is counted."""
    path = tmp_path / "crowd.svg"
    nodes = [f"node-{number}" for number in range(100)]
    plot_runs(path, runs("specon", count=200, nodes=100), title="crowd", nodes=nodes)
    shown = words(path)
    assert "replicas" in shown
    assert "job-0" not in shown
    assert "node-0" in shown


def test_names_are_no_formulas(tmp_path):
    """A dollar sign in a name is a dollar sign."""
    path = tmp_path / "dollar.svg"
    plot_runs(path, runs("a$b$c"), title="$\\frac{$", nodes=["node-0"])
    assert "a$b$c" in words(path)


def test_a_run_of_which_nothing_completed_is_drawn_too(tmp_path):
    """No completion time, no use, no stay."""
    path = tmp_path / "empty.png"
    run = condense(outcome(job(0, None)), "specon", seed=0)
    plot_runs(path, [run], title="empty", nodes=["node-0"])
    assert size(path)[0] == 1400


def test_no_run_makes_no_picture(tmp_path):
    """It is an error of the caller."""
    with pytest.raises(ValueError, match="runs: there is none to draw"):
        plot_runs(tmp_path / "x.png", [], title="", nodes=[])


def test_an_unknown_format_is_found_before_anything_runs(tmp_path):
    """It names those that there are."""
    with pytest.raises(ValueError, match=r"x\.docx: the format is not one of .*png"):
        check_picture(tmp_path / "x.docx")


def test_without_matplotlib_it_says_what_to_install(monkeypatch, tmp_path):
    """One sentence with the command."""
    original = builtins.__import__

    def refuse(name, *rest):
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError(name=name)
        return original(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'specon\[simulate\]'"):
        check_picture(tmp_path / "x.png")


stays = st.lists(
    st.builds(
        lambda node, start, length, name: Stay(
            replica=f"default/job-{name}/worker/0", node=f"node-{node}", start=start, end=start + length
        ),
        st.integers(0, 3),
        st.floats(0, 1000),
        st.floats(0, 100),
        st.integers(0, 9),
    ),
    max_size=30,
)


@given(stays)
def test_stays_never_overlap_in_a_lane(all_stays):
    """Each is drawn once, in a lane of its node, beside what ran there at the same time."""
    lanes = stack(all_stays, ["node-0"])
    assert len(lanes.stays) == len(all_stays)
    bands = {name: range(first, first + count) for name, first, count in lanes.nodes}
    by_lane = {}
    for stay, lane in lanes.stays:
        assert lane in bands[stay.node]
        by_lane.setdefault(lane, []).append(stay)
    for row in by_lane.values():
        row.sort(key=lambda stay: (stay.start, stay.end))
        assert all(one.end <= other.start for one, other in itertools.pairwise(row))


@given(stays)
def test_a_map_counts_every_second_of_every_stay(all_stays):
    """The counts times the length of a span are the seconds that were stayed."""
    end = max((stay.end for stay in all_stays), default=0.0)
    total = sum(stay.end - stay.start for stay in all_stays)
    counts = average_held(stack(all_stays, []), end)
    spans = len(counts[0]) if counts else 1
    assert sum(map(sum, counts)) * end / spans == pytest.approx(total, abs=1e-6)


def test_use_is_averaged_over_spans():
    """A step function: 0 until 5, then 1 until 10, then a half."""
    points = [
        UsePoint(at=at, allocated=value, used=0.0, waiting=0, running=0)
        for at, value in ((0.0, 0.0), (5.0, 1.0), (10.0, 0.5))
    ]
    assert mean_by_bin(points, "allocated", 20.0, 4) == pytest.approx([0.0, 1.0, 0.5, 0.5])
    assert mean_by_bin(points, "allocated", 20.0, 2) == pytest.approx([0.5, 0.5])
    assert mean_by_bin([], "allocated", 20.0, 2) == [0.0, 0.0]
