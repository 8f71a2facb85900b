"""Replicas and moves written into a status and read back; statuses that were edited to nonsense."""

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.backends.kube.records import migration_status, progress_record, records
from specon_manager.backends.kube.records.external import MoveState
from specon_manager.backends.kube.records.migration_record import read_migration
from specon_manager.backends.kube.records.progress_record import read_progress
from specon_manager.backends.kube.records.records import with_record
from specon_manager.model.cluster import Phase, Replica
from specon_manager.model.progress import Progress
from specon_manager.model.transactions import Kind, Transaction, TransactionState, Witness
from specon_sidecar.classify import Category
from specon_sidecar.classify.curve import Estimate
from specon_sidecar.wire import Checkpoint
from support.kube.custom_resources import CRDS, FIRST_CRDS, migration_of, progress_of, served

R = "default/mnist/worker/0"

# Quarters of seconds: what the API keeps of a time is exact to the microsecond.
times = st.integers(1, 2**34).map(lambda quarters: quarters / 4)
counts = st.integers(0, 2**62)
small = st.integers(0, 2**31 - 1)
texts = st.text(min_size=1, max_size=64)
amounts = st.integers(0, 999_999).map(lambda number: number / 1000)  # six digits
estimates = st.builds(Estimate, value=amounts, uncertainty=amounts)
checkpoints = st.builds(
    Checkpoint,
    step=counts,
    path=texts,
    digest=st.none() | st.text("0123456789abcdef", min_size=64, max_size=64),
)


def fields_of(kind):
    return st.sampled_from([field.encode_name for field in msgspec.structs.fields(kind)])


def maybe(strategy):
    return st.none() | strategy


progresses = st.builds(
    Progress,
    category=st.sampled_from(Category),
    category_since=times,
    reason=texts,
    metric=maybe(texts),
    value=maybe(amounts),
    step=maybe(counts),
    step_at=maybe(times),
    total_steps=maybe(counts),
    gain=maybe(amounts),
    expected_gain=maybe(estimates),
    remaining_seconds=maybe(estimates),
    checkpoint=maybe(checkpoints),
    cpu_per_step=maybe(amounts),
    reported_at=maybe(times),
)
replicas = st.builds(
    Replica,
    name=st.just(R),
    job=st.just("default/mnist"),
    phase=st.sampled_from(Phase),
    node=maybe(texts),
    incarnation=maybe(texts),
    former=maybe(texts),
    starts=small,
    progress=progresses,
    crashes=small,
    moves=small,
    attempts=small,
    disrupted=small,
    unproven=texts,
    moved_for=st.lists(texts, unique=True, max_size=5).map(tuple),
    cooldown_until=times,
    ended_at=maybe(times),
    note=texts,
)
witnesses = st.builds(
    Witness,
    incarnation=maybe(texts),
    checkpoint=maybe(checkpoints),
    checkpoint_at=maybe(times),
    answered=st.booleans(),
    began_step=maybe(counts),
    step_gap=small,
    last_step=maybe(counts),
    last_step_at=maybe(times),
    first_step=maybe(counts),
    resumed_from=maybe(counts),
    proven=st.booleans(),
    downtime=maybe(amounts),
    steps_lost=maybe(counts),
)


@st.composite
def moves(draw):
    state = draw(st.sampled_from(TransactionState))
    leaving = draw(st.sampled_from(["", "uid-1"])) if state is TransactionState.LEAVING else None
    return Transaction(
        id=f"move-{draw(st.integers(0, 10**15 - 1))}",
        kind=Kind.MOVE,
        job="default/mnist",
        before={R: draw(texts)},
        after={R: draw(texts)},
        policy=draw(texts),
        purpose=draw(texts),
        reason=draw(texts),
        state=state,
        proposed_at=draw(times),
        deadline=draw(times),
        attempt=draw(st.sampled_from([1, 2])),
        witnesses={R: draw(witnesses)},
        held=() if state is TransactionState.PROPOSED else (R,),
        asks=draw(st.integers(1, 9)),
        ending={} if leaving is None else {R: leaving},
        repeats=draw(small),
        stuck=draw(st.sampled_from(["", "it hangs"])) if leaving is not None else "",
        changing_at=draw(maybe(times)),
        gone_at=draw(maybe(times)),
        running_at=draw(maybe(times)),
        ended_at=draw(maybe(times)),
        note=draw(texts.filter(lambda text: not text.startswith(("stuck: ", "refused: ")))),
    )


nonsense = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@given(replicas, times)
def test_a_replica_comes_back_from_its_training_progress(replica, now):
    """Everything that a later manager needs; sessions and weights begin anew."""
    read, problems = read_progress(progress_of(replica, now=now, checkpoint_at=now))
    assert not problems
    assert read is not None
    assert read.replica == replica
    assert read.updated_at == now
    assert read.checkpoint_at == (None if replica.progress.checkpoint is None else now)


@given(moves(), replicas, times)
def test_a_move_comes_back_from_its_migration(move, replica, now):
    """The whole record, and what was known of its replica at the time."""
    item = served(CRDS, migration_of(move, replica, now=now))
    read, problems = read_migration(item)
    assert not problems
    assert read.transaction == move
    assert read.ours
    assert with_record(Replica(name=R, job="default/mnist"), read.status.record) == with_record(
        Replica(name=R, job="default/mnist"), records.record_of(replica)
    )
    assert read.status.destination == move.destination


KEPT = (
    "id",
    "kind",
    "job",
    "before",
    "after",
    "policy",
    "purpose",
    "reason",
    "state",
    "proposed_at",
    "deadline",
    "attempt",
    "held",
    "asks",
    "changing_at",
    "gone_at",
    "running_at",
    "ended_at",
    "stuck",
    "downtime",
    "steps_lost",
    "checkpoint",
)


@given(moves(), replicas, times)
def test_the_first_schema_takes_every_move_and_keeps_what_it_needs(move, replica, now):
    """Also that it was refused and that it is stuck; the gaps of its log and repetitions are lost."""
    item = served(FIRST_CRDS, migration_of(move, replica, now=now, first_schema=True))
    read, problems = read_migration(item)
    assert not problems
    back = read.transaction
    assert {name: getattr(back, name) for name in KEPT} == {name: getattr(move, name) for name in KEPT}
    assert back.note == ("" if move.stuck else move.note)
    witness, was = back.witnesses[R], move.witnesses[R]
    for name in ("checkpoint", "last_step", "last_step_at", "first_step", "resumed_from"):
        assert getattr(witness, name) == getattr(was, name), name
    # As old as can be, where it is not known: what hangs on it is asked for anew rather than acted upon.
    if was.checkpoint is not None:
        assert witness.checkpoint_at == move.changing_at


@given(replicas, times)
def test_the_first_schema_takes_what_is_known_of_every_replica(replica, now):
    """What it does not name is dropped, and begins anew."""
    item = served(FIRST_CRDS, progress_of(replica, now=now))
    read, problems = read_progress(item)
    assert not problems
    assert read.replica == msgspec.structs.replace(replica, disrupted=0, unproven="")


@given(
    st.dictionaries(
        fields_of(progress_record.ProgressStatus),
        nonsense,
    )
)
def test_nonsense_in_a_training_progress_is_told_and_not_believed(status):
    """Whatever somebody wrote: what can be read is read, each other field is named with its value."""
    item = {**progress_record.progress_object(R), "status": status}
    read, problems = read_progress(item)
    assert read is not None
    assert read.replica.name == R
    taken = set(records.status_of(progress_record.progress_status(read.replica, now=1.0)))
    for problem in problems:
        field = problem.field.removeprefix("status.")
        assert field in status
        assert str(problem).startswith(f"TrainingProgress default/mnist-worker-0: status.{field}: ")
        assert field not in taken or field in {"phase", "category", *_NEVER_ABSENT}


_NEVER_ABSENT = {"starts", "crashes", "moves", "failedMoves", "disrupted", "movedFor", "updatedAt"}


@given(
    nonsense
    | st.dictionaries(
        fields_of(migration_status.MigrationStatus),
        nonsense,
    ),
    nonsense,
    nonsense,
)
def test_nonsense_in_a_migration_never_raises(status, spec, labels):
    """Without a replica, a state and two nodes it records no move."""
    metadata = {"name": "m", "namespace": "default", "labels": labels, "creationTimestamp": labels}
    read, _ = read_migration({"metadata": metadata, "spec": spec, "status": status})
    if read.transaction is not None:
        assert read.replica is not None
        assert read.status.state is not None


@pytest.mark.parametrize(
    ("name", "replica"),
    [("mnist-worker-0", "other/mnist/worker/0"), ("another", R), ("mnist-worker-0", "mnist"), ("x", None)],
)
def test_a_training_progress_speaks_only_of_the_replica_it_is_called_by(name, replica):
    """One that somebody made in his namespace tells nothing of another's replicas."""
    item = {"metadata": {"namespace": "default", "name": name}, "spec": {"replica": replica}}
    read, (problem,) = read_progress(item)
    assert read is None
    assert problem.field == "spec.replica"
    assert repr(replica) in problem.text


def test_a_migration_moves_only_replicas_of_its_namespace():
    """The right to create Migrations in one namespace moves nothing in another."""
    item = {"metadata": {"namespace": "mine", "name": "m"}, "spec": {"replica": R}}
    read, (problem,) = read_migration(item)
    assert read.replica is None
    assert str(problem) == f"Migration mine/m: replica: {R!r} is no replica of the namespace mine"


def test_a_label_makes_no_move_ours_unless_it_is_one_of_our_ids():
    """Other values are as if there were none: the object is somebody's request."""
    metadata = {"namespace": "default", "name": "m", "labels": {migration_status.MOVE_LABEL: "evil"}}
    assert not read_migration({"metadata": metadata})[0].ours


def test_long_words_are_cut_to_what_the_schema_takes():
    """A reason of any length is no reason for the API server to refuse the status."""
    replica = Replica(name=R, job="default/mnist", note="x" * 5000, moved_for=tuple(map(str, range(100))))
    status = progress_of(replica, now=1.0)["status"]
    assert len(status["message"]) == 1024
    assert status["message"].endswith("...")
    assert list(status["movedFor"]) == [str(number) for number in range(36, 100)]


@pytest.mark.parametrize(
    ("file", "path", "record"),
    [
        ("trainingprogresses", (), progress_record.ProgressStatus),
        ("trainingprogresses", ("checkpoint",), records.CheckpointStatus),
        ("migrations", (), migration_status.MigrationStatus),
        ("migrations", ("record",), records.ReplicaRecord),
        ("migrations", ("averages",), migration_status.Averages),
    ],
)
def test_the_schema_has_exactly_the_fields_that_are_written(file, path, record):
    """The API server drops what a schema does not name, without a word."""
    schema = _status_schema(file)
    for name in path:
        schema = schema["properties"][name]
    assert set(schema["properties"]) == {field.encode_name for field in msgspec.structs.fields(record)}


def test_the_schema_has_exactly_the_states_categories_and_phases_there_are():
    """Another one could not be written."""
    progress, migration = _status_schema("trainingprogresses"), _status_schema("migrations")
    assert set(progress["properties"]["phase"]["enum"]) == {phase.value for phase in Phase}
    assert set(progress["properties"]["category"]["enum"]) == {category.value for category in Category}
    assert set(migration["properties"]["state"]["enum"]) == {state.value for state in MoveState}
    record = migration["properties"]["record"]
    assert record["properties"]["phase"] == progress["properties"]["phase"]


@pytest.mark.parametrize("file", ["trainingprogresses", "migrations"])
def test_every_text_and_list_of_the_schemas_is_bounded(file):
    """No object can be made as large as the API server takes."""
    (version,) = yaml.safe_load((CRDS / f"{file}.yaml").read_text())["spec"]["versions"]
    unbounded = []

    def look(schema, at):
        kind = schema.get("type")
        if kind == "string" and not schema.keys() & {"maxLength", "enum", "pattern", "format"}:
            unbounded.append(at)
        if kind == "array" and "maxItems" not in schema:
            unbounded.append(at)
        for name, inner in schema.get("properties", {}).items():
            look(inner, f"{at}.{name}")

    for part in ("spec", "status"):
        look(version["schema"]["openAPIV3Schema"]["properties"][part], part)
    assert not unbounded


def _status_schema(file):
    (version,) = yaml.safe_load((CRDS / f"{file}.yaml").read_text())["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]["properties"]["status"]
