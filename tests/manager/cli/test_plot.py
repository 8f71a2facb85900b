from __future__ import annotations

import builtins
import struct
import xml.etree.ElementTree as ET

import pytest

from specon_manager.cli.run.plot import plot
from specon_manager.cli.run.result import PlacementSpan, summarize
from specon_manager.core.state import State
from specon_manager.model.cluster import Phase
from specon_manager.model.transactions import TransactionState

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


def result_of(scene, *, placements=()):
    """Return the result of the scene."""
    return summarize(scene.state, began=1000.0, placements=placements)


def moved(scene, name="default/mnist"):
    """Return the result of a run in which one job was moved, one failed and one did not end."""
    replica = scene.job(name)
    scene.move(replica, TransactionState.SUCCEEDED, ended_at=1022.0, downtime=2.0)
    scene.end(replica, at=60.0)
    failed = scene.job("default/failed", at=3.0)
    scene.move(failed, TransactionState.ROLLED_BACK, id="move-2", ended_at=1020.0)
    scene.end(failed, at=40.0, phase=Phase.FAILED)
    scene.running(scene.job("default/endless", at=5.0))
    stays = [(replica, "node-0", 0, 20), (replica, "node-1", 22, 60), (failed, "node-0", 3, 40)]
    placements = [
        PlacementSpan(
            job=scene.state.replicas[who].job, replica=who, node=node, start=1000.0 + start, end=1000.0 + end
        )
        for who, node, start, end in stays
    ]
    return result_of(scene, placements=placements)


def test_a_picture_of_one_run_and_of_two(scene, tmp_path):
    """One run or two give a picture of 1400 by 900 pixels."""
    run = moved(scene)
    for count in (1, 2):
        path = tmp_path / f"{count}.png"
        plot(path, [run] * count)
        assert size(path) == (1400, 900)


def test_the_picture_says_what_it_shows(scene, tmp_path):
    """Titles, units, names of jobs and nodes, the averages and the marks are all written in it."""
    path = tmp_path / "run.svg"
    plot(path, [moved(scene)])
    shown = words(path)
    for expected in (
        "Completion time of each job, from submission to end",
        "completion time (s)",
        "time since the begin of the run (s)",
        "specon: average completion 60.0 s, makespan - s, moves that succeeded: 1",
        "mnist",
        "node-0",
        "node-1",
        "moved",
        "move undone or failed",
        "failed",
        "not ended",
        "60",
    ):
        assert expected in shown


def test_two_runs_share_their_colours_and_time_axis(scene, tmp_path):
    """Both runs have a chart with the policy's name, and the bars a legend of both."""
    run = moved(scene)
    path = tmp_path / "two.svg"
    plot(path, [run, run])
    assert sum(text.startswith("specon: average") for text in words(path)) == 2
    assert words(path).count("specon") == 2


@pytest.mark.parametrize(
    "name", ["default/$x_1$", "default/_hidden", "default/模型", "default/[b]", "default/a\nb", ""]
)
def test_odd_names_are_drawn_as_text(scene, tmp_path, name):
    """Formula signs, missing glyphs and leading underscores in a name neither fail nor warn."""
    path = tmp_path / "odd.png"
    plot(path, [moved(scene, name)])
    assert size(path) == (1400, 900)


def test_nothing_to_show_is_a_picture_too(scene, tmp_path):
    """A run without jobs, nodes or placements is drawn empty."""
    for number, state in enumerate([State(), scene.state]):
        path = tmp_path / f"{number}.png"
        plot(path, [summarize(state, began=1000.0)])
        assert size(path) == (1400, 900)


def test_many_lanes_make_the_picture_higher(scene, tmp_path):
    """Where there are more jobs at once than can be read in 900 pixels, the picture grows."""
    placements = []
    for number in range(60):
        name = scene.job(f"default/job-{number}")
        placements.append(
            PlacementSpan(job=f"default/job-{number}", replica=name, node="node-0", start=1000.0, end=1060.0)
        )
    path = tmp_path / "many.png"
    plot(path, [result_of(scene, placements=placements)])
    width, height = size(path)
    assert width == 1400
    assert height > 1200


def test_no_runs_are_an_error(tmp_path):
    """There is no picture of nothing."""
    with pytest.raises(ValueError, match="runs: there is none"):
        plot(tmp_path / "none.png", [])


def test_an_unknown_format_is_an_error(scene, tmp_path):
    """A suffix that names no format is refused, and the error names it."""
    with pytest.raises(ValueError, match="xyz"):
        plot(tmp_path / "run.xyz", [moved(scene)])


def test_without_matplotlib_the_extra_is_named(scene, tmp_path, monkeypatch):
    """Where the library is missing the error says what to install, and no file is made."""
    real = builtins.__import__

    def without(name, *arguments, **others):
        if name.split(".")[0] == "matplotlib":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *arguments, **others)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ModuleNotFoundError, match=r"specon\[demo\]"):
        plot(tmp_path / "run.png", [moved(scene)])
    assert list(tmp_path.iterdir()) == []
