"""The fields that `--output json` promises in docs/commands.md are those of the records."""

import re
from pathlib import Path

import msgspec
import pytest

from specon_manager.cli.act.drain import Drained, Stays
from specon_manager.cli.act.migrate import MigrateAnswer
from specon_manager.cli.act.pause import PauseAnswer
from specon_manager.cli.begin.doctor import Diagnosis
from specon_manager.cli.begin.init import Written
from specon_manager.cli.begin.line import ProposedLine
from specon_manager.cli.look.bundle import BundleFile, SupportBundle
from specon_manager.cli.look.explain import Explained, Movable
from specon_manager.cli.look.queue import QueueListing
from specon_manager.cli.look.transactions import Changes, Moves
from specon_manager.cli.remote.log_end import LogEnd
from specon_manager.cli.remote.remote import Remark
from specon_manager.model.expected_start import ExpectedStart
from specon_manager.views.decisions import DecisionRow
from specon_manager.views.findings import Finding
from specon_manager.views.queues import QueueRow, WaitingRow
from specon_manager.views.replicas import PauseRow, ReplicaRow, Top
from specon_manager.views.report import Report
from specon_manager.views.transactions import TransactionRow, Way

PAGE = Path(__file__).parents[3] / "docs" / "commands.md"
ROWS = {
    "`init`": (Written, {"lines": ProposedLine}),
    "`doctor`": (Diagnosis, {"findings": Finding}),
    "`report`": (Report, {}),
    "`top`": (Top, {"paused": PauseRow}),
    "of each replica": (ReplicaRow, {}),
    "`moves`": (Moves, {}),
    "`changes`": (Changes, {}),
    "of each move and change": (TransactionRow, {"ways": Way}),
    "`queue`": (QueueListing, {"queues": QueueRow, "waiting": WaitingRow}),
    "`migrate`": (MigrateAnswer, {}),
    "`drain`": (Drained, {"stay": Stays}),
    "`explain`": (
        Explained,
        {
            "decisions": DecisionRow,
            "remarks": Remark,
            "start": ExpectedStart,
            "movable": Movable,
            "logs": LogEnd,
        },
    ),
    "`pause`, `resume`": (PauseAnswer, {}),
    "`support-bundle`": (SupportBundle, {"parts": BundleFile}),
}


@pytest.mark.parametrize("row", ROWS)
def test_the_fields_of_a_record_are_documented(row):
    """All of them and no other, those of the records inside in brackets."""
    kind, inside = ROWS[row]
    section = PAGE.read_text().partition("## JSON")[2]
    line = next(line for line in section.splitlines() if line.startswith(f"| {row} |"))
    cell = line.split("|", 2)[2].partition(";")[0]
    for name, part in inside.items():
        words = re.search(rf"`{name}` \(([^)]*)\)", cell)[1]
        assert re.findall(r"`(\w+)`", words) == fields(part)
    outside = re.sub(r"\([^)]*\)", "", cell)
    assert re.findall(r"`(\w+)`", outside) == fields(kind)


def fields(kind):
    return [field.name for field in msgspec.structs.fields(kind)]
