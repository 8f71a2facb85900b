"""What sidecars of version 0.1 wrote is read as they meant it: pods keep them for weeks."""

import json
import math
import os
import zlib
from pathlib import Path

import msgspec
import pytest

from specon_sidecar.classify import Category
from specon_sidecar.observing.resume import begin
from specon_sidecar.observing.state_file import load, save
from specon_sidecar.settings import Settings
from specon_sidecar.wire import decode_acknowledgement, decode_instructions, decode_report, encode
from support.local.former_wire import Acknowledgement, Instructions, Report, as_formerly
from support.logs.event_files import append, event_file, tensor

WRITTEN = Path(__file__).parent / "written_before"
LOG = "".join(
    f"step={n}/900 loss={0.3 + 2 * math.exp(-n / 50):.5f} val_loss={0.4 + 2 * math.exp(-n / 60):.5f}\n"
    for n in range(1, 301)
)


def place_of(path, offset):
    status, head = path.stat(), path.read_bytes()[max(0, offset - 64) : offset]
    return {
        "device": status.st_dev,
        "inode": status.st_ino,
        "offset": offset,
        "check": zlib.crc32(head),
    }


@pytest.mark.parametrize(
    ("name", "decode"),
    [
        ("report.json", decode_report),
        ("acknowledgement.json", decode_acknowledgement),
        ("instructions.json", decode_instructions),
    ],
)
def test_messages(name, decode):
    """A message of then is one of now, and written again it is the same to the byte."""
    written = (WRITTEN / name).read_bytes().strip()
    assert encode(decode(written)) == written


@pytest.mark.parametrize(
    ("name", "known"),
    [("report.json", Report), ("acknowledgement.json", Acknowledgement), ("instructions.json", Instructions)],
)
def test_the_frozen_messages_are_those_of_then(name, known):
    """With which a proxy of the end-to-end tests leaves out what version 0.1 did not know."""
    written = (WRITTEN / name).read_bytes().strip()
    assert as_formerly(written, known) == (written, 0)


@pytest.mark.parametrize("name", ["state.json", "state-event-files.json"])
def test_states(tmp_path, name):
    """A state of then is one of now, and saved again it says the same."""
    state = load(WRITTEN / name)
    save(state, tmp_path / "state")
    then = json.loads((WRITTEN / name).read_bytes())
    # Fields of now, which did not exist then.
    then |= {"former": None, "kept": [], "gaps": []}
    then |= {"judgement": then["judgement"] | {"until_converged": None}}
    assert json.loads((tmp_path / "state").read_bytes()) == then


def test_a_sidecar_goes_on_from_a_state_of_then(tmp_path):
    """The next sidecar takes up the place in the log, the counters and the curve."""
    log, file = tmp_path / "train.log", tmp_path / "state"
    log.write_text(LOG)
    state = json.loads((WRITTEN / "state.json").read_bytes())
    state["place"] = place_of(log, state["place"]["offset"])
    assert state["place"]["offset"] == log.stat().st_size
    file.write_text(json.dumps(state))
    observer, start = begin(Settings(log=str(log), state_file=str(file), incarnation="uid-1"), 0.0)
    assert (start.offset, start.check) == (len(LOG), state["place"]["check"])
    assert (observer.lines, observer.samples, observer.step) == (300, 300, 300)
    assert (observer.format, observer.judgement.category) == (
        "key-value",
        Category(state["judgement"]["category"]),
    )


def test_event_files_go_on_from_a_state_of_then(tmp_path):
    """The places of event files are kept by name."""
    board, file = tmp_path / "board", tmp_path / "state"
    append(event_file(board / "train"), *(tensor(n, epoch_loss=1 / n) for n in range(1, 60)))
    path = next((board / "train").iterdir())
    state = json.loads((WRITTEN / "state-event-files.json").read_bytes())
    (offset,) = (place["offset"] for place in state["event_files"].values())
    name = os.fspath(path.relative_to(board))
    state["event_files"] = {name: place_of(path, offset)}
    file.write_text(json.dumps(state))
    observer, files = begin(Settings(log=str(board), state_file=str(file), incarnation="uid-1"), 0.0)
    assert {one: msgspec.to_builtins(place) for one, place in files.positions.items()} == state["event_files"]
    assert (observer.samples, list(files.read())) == (59, [])
