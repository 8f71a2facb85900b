"""A state as its custom resources have it, and the state that a later manager makes of them."""

from pathlib import Path

import msgspec

from fakekube import schemas
from specon_manager.backends.kube.objects.names import migration_name
from specon_manager.backends.kube.records.job_record import (
    read_training_job,
    training_job_name,
    training_job_spec,
    training_job_status,
)
from specon_manager.backends.kube.records.job_record import to_first_schema as job_as_first_schema
from specon_manager.backends.kube.records.migration_record import read_migration
from specon_manager.backends.kube.records.migration_status import (
    migration_object,
    migration_status,
    to_first_schema,
)
from specon_manager.backends.kube.records.progress_record import (
    progress_object,
    progress_status,
    read_progress,
)
from specon_manager.backends.kube.records.records import status_of
from specon_manager.backends.kube.records.restore import Restored, restore
from specon_manager.core.state import State
from specon_manager.model.cluster import job_of
from specon_manager.model.transactions import Kind, Transaction, TransactionState, Witness

CREATED = "2026-01-01T00:00:00Z"
CRDS = Path(__file__).parents[3] / "charts" / "specon" / "crds"
FIRST_CRDS = Path(__file__).parents[2] / "manager" / "backends" / "kube" / "records" / "version_0_1"
"""The definitions as version 0.1 brought them: Helm does not upgrade them."""


def served(folder, item):
    """Return an object as a server with the definitions in that folder keeps it; refuses what they refuse."""
    sent = msgspec.json.decode(msgspec.json.encode(item))
    kept, causes = schemas.read(folder)[_PLURALS[item["kind"]]](None, sent)
    assert not causes, causes
    return kept


_PLURALS = {
    "TrainingProgress": "trainingprogresses",
    "Migration": "migrations",
    "TrainingJob": "trainingjobs",
}


def a_move(name="move-1", state=TransactionState.PROPOSED, replica="default/mnist/worker/0", **fields):
    """Return a move of a replica from node-0 to node-1."""
    given = {"target": "node-1", **fields}
    return Transaction(
        id=name,
        kind=Kind.MOVE,
        job=job_of(replica),
        before={replica: "node-0"},
        after={replica: given.pop("target")},
        policy="specon",
        purpose="migrate",
        reason="test",
        state=state,
        proposed_at=1.0,
        deadline=2.0,
        witnesses={replica: Witness(incarnation="uid-1")},
        **given,
    )


def progress_of(replica, *, now, **changes):
    """Return a TrainingProgress as the API has it."""
    item = progress_object(replica.name)
    item["metadata"] |= {"uid": f"uid-of-{replica.name}", "creationTimestamp": CREATED}
    return {**item, "status": status_of(progress_status(replica, now=now, **changes))}


def migration_of(move, replica, *, now, state=None, first_schema=False, **changes):
    """Return a Migration as the API has it."""
    item = migration_object(move)
    item["metadata"] |= {"uid": f"uid-of-{move.id}", "resourceVersion": "1", "creationTimestamp": CREATED}
    given = {"hostname": None, "manifest": None, "manager": "one", **changes}
    measured = (state or State()).measured
    status = migration_status(move, replica, measured=measured, now=now, **given)
    status = to_first_schema(status) if first_schema else status
    return {**item, "status": status_of(status)}


def objects_of(state, *, now):
    """Return the TrainingProgress and Migration objects of a state, every one of them up to date."""
    progresses = [progress_of(replica, now=now) for replica in state.replicas.values()]
    moves = [m for m in (*state.history, *state.transactions.values()) if not m.whole]
    migrations = [migration_of(m, state.replicas.get(m.replica), now=now, state=state) for m in moves]
    assert len({migration_name(move) for move in moves}) == len(moves)
    return progresses, migrations


def training_job_of(job, state, *, now, first_schema=False, **changes):
    """Return a TrainingJob as the API has it."""
    name = training_job_name(job.name)
    history = [
        each
        for each in state.history
        if each.job == job.name and each.whole and each.state is not TransactionState.REFUSED
    ]
    status = training_job_status(job, state, manager="one", now=now, **{"history": history, **changes})
    if first_schema:
        status = job_as_first_schema(status) or status
    return {
        "kind": "TrainingJob",
        "metadata": {
            "name": name.name,
            "namespace": name.namespace,
            "uid": f"uid-of-{job.name}",
            "resourceVersion": "1",
            "creationTimestamp": CREATED,
        },
        "spec": training_job_spec(job),
        "status": status_of(status),
    }


def training_jobs_of(state, *, now, **changes):
    """Return the TrainingJobs of a state, every one of them up to date."""
    return [training_job_of(job, state, now=now, **changes) for job in state.jobs.values()]


def restored_from(progresses, migrations, settings, *, now, jobs=()) -> Restored:
    """Return what a later manager makes of such objects."""
    read = [found for found, _ in map(read_progress, progresses) if found is not None]
    recorded = [found for found, _ in map(read_training_job, jobs) if found is not None]
    return restore(read, [read_migration(item)[0] for item in migrations], settings, now, recorded=recorded)
