"""Objects that a manager of version 0.1 wrote in the middle of a transaction: an upgrade, and the way back.

`version_0_1/in-flight.jsonl.gz` has them as commit 015021b wrote them, a line for each state of a move or a
change.
"""

import gzip
import json
from pathlib import Path

import pytest

from specon_manager.core.step import step
from specon_manager.model import events as ev
from specon_manager.model.transactions import TransactionState
from support.decisions.cluster import SETTINGS
from support.kube.custom_resources import (
    CRDS,
    FIRST_CRDS,
    migration_of,
    progress_of,
    restored_from,
    served,
    training_jobs_of,
)

FILE = Path(__file__).parent / "version_0_1" / "in-flight.jsonl.gz"
CASES = {line["case"]: line for line in map(json.loads, gzip.decompress(FILE.read_bytes()).splitlines())}
STATES = {"Evicting": TransactionState.LEAVING, "Restoring": TransactionState.COMING}
"""Those of a move that are called otherwise now; names outside stay."""
IRRELEVANT = {"updatedAt", "manager"}
DEFAULTS = {"attempt": 1, "beneficiary": "", "note": "", "repeats": 0, "restart": False}
"""Of the text of a change: version 0.1 takes these where it does not say otherwise."""


def of_kind(case, kind):
    return [each for each in case["objects"] if each["kind"] == kind]


def upgraded(case, schema=FIRST_CRDS):
    """Return what a manager of now makes of the objects, as a server with that schema has them."""
    progresses, migrations, jobs = (
        [served(schema, each) for each in of_kind(case, kind)]
        for kind in ("TrainingProgress", "Migration", "TrainingJob")
    )
    return restored_from(progresses, migrations, SETTINGS, now=case["now"], jobs=jobs)


@pytest.mark.parametrize("schema", [FIRST_CRDS, CRDS], ids=["first", "present"])
@pytest.mark.parametrize("name", CASES)
def test_a_transaction_goes_on_after_an_upgrade(name, schema):
    """In the state in which it was, of the same replicas, with nothing closed or complained of."""
    kind, state, *_ = name.split()
    restored = upgraded(CASES[name], schema)
    assert not restored.problems
    assert not restored.closings
    (flying,) = restored.state.transactions.values()
    assert (flying.kind.value, flying.state) == (kind, STATES.get(state) or TransactionState(state))
    _, orders = step(restored.state, ev.ManagerStarted("again", SETTINGS), CASES[name]["now"])
    assert {getattr(order, "transaction", "") or flying.id for order in orders} <= {flying.id, flying.request}


@pytest.mark.parametrize("name", CASES)
def test_what_is_written_after_an_upgrade_a_manager_of_then_reads_as_its_own(name):
    """The old schema takes every object, and each field that version 0.1 wrote says what it said."""
    case = CASES[name]
    restored = upgraded(case).state
    moves = [each for each in restored.transactions.values() if not each.whole]
    written = [
        *(progress_of(each, now=case["now"]) for each in restored.replicas.values()),
        *(
            migration_of(
                each, restored.replicas[each.replica], now=case["now"], state=restored, first_schema=True
            )
            for each in moves
            if of_kind(case, "Migration")
        ),
        *training_jobs_of(restored, now=case["now"], first_schema=True),
    ]
    now = {(item["kind"], item["metadata"]["name"]): served(FIRST_CRDS, item) for item in written}
    for former in case["objects"]:
        key = former["kind"], former["metadata"]["name"]
        missing = differing(former["status"], now[key]["status"])
        assert not missing, (key, missing)


def differing(former, present, path=""):
    """Return the fields of the former status that are not there any more, or say something else."""
    found = []
    for field, said in former.items():
        here = f"{path}.{field}"
        if field in IRRELEVANT:
            continue
        value, there = said, present.get(field)
        if field == "record" and isinstance(said, str):  # JSON in a text
            value, there = json.loads(said), json.loads(there or "{}")
        if isinstance(value, dict) and isinstance(there, dict):
            found += differing(value, there, here)
        elif there != value and not (there is None and DEFAULTS.get(field) == value):
            found.append((here, value, there))
    return found
