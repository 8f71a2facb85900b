"""What the replicas of a gang are told of their place, and how a job file becomes a gang."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.backends.local.gangs import place_of
from specon_manager.backends.local.jobs import JobFileError, job_spec, read_job, read_job_file
from specon_manager.backends.local.pod_files import job_directory
from specon_manager.model.actions import StartReplica
from specon_manager.model.resources import Resources

JOB = "default/a"
PS = f"{JOB}/ps/0"
WORKERS = [f"{JOB}/worker/{index}" for index in range(9)]


def order(replica, *gang, start=1):
    return StartReplica(replica=replica, start=start, node="n", template={}, reason="test", gang=gang)


def job(**fields):
    return read_job(json.dumps({"name": "a", "command": "true", **fields}).encode())


def test_ranks_have_no_gaps():
    """Whichever workers a gang has, their ranks are 0, 1, 2 in their order; servers are not counted."""
    gang = (PS, WORKERS[0], WORKERS[2], WORKERS[7])
    places = [place_of(order(name, *gang)) for name in gang]
    assert [(each.role, each.index, each.rank, each.workers) for each in places] == [
        ("ps", 0, 0, 3),
        ("worker", 0, 0, 3),
        ("worker", 2, 1, 3),
        ("worker", 7, 2, 3),
    ]
    assert [each.environment.get("RANK") for each in places] == [None, "0", "1", "2"]
    assert places[3].environment["SPECON_GANG"] == " ".join(gang)
    assert places[3].placeholders["rank"] == "2"


def test_a_replica_alone_is_the_first_of_one():
    """Where no gang is named there is no world for torch to join."""
    place = place_of(order(WORKERS[0], start=4))
    assert (place.rank, place.workers, place.placeholders["start"]) == (0, 1, "4")
    assert not {"RANK", "WORLD_SIZE"} & place.environment.keys()


@given(st.sets(st.sampled_from(WORKERS), min_size=1), st.booleans())
def test_each_worker_has_a_rank_of_its_own(workers, server):
    """Ranks are a permutation of 0 to the number of workers; the same order gives the same place."""
    gang = (*([PS] if server else []), *sorted(workers))
    places = [place_of(order(name, *gang)) for name in sorted(workers)]
    assert [each.rank for each in places] == list(range(len(workers)))
    assert {each.workers for each in places} == {len(workers)}
    assert places == [place_of(order(name, *gang)) for name in sorted(workers)]


def test_a_gang_is_described_whole():
    """All replicas that it may have are named, servers first; the numbers are those of the file."""
    spec = job_spec(job(workers=2, min_workers=1, max_workers=3, ps=1, requests={"cpu": 0.5}))
    assert spec.replicas == (PS, *WORKERS[:3])
    assert (spec.wanted_workers, spec.fewest_workers, spec.elastic) == (2, 1, True)
    assert (spec.resizing, spec.transacted) == ("restart", True)
    assert spec.requests_of(PS) == Resources(cpu=0.5)
    assert (spec.coupled, spec.savers, spec.immovable) == (True, "lead", "")


def test_workers_that_train_by_themselves_are_moved_one_by_one():
    """Each saves for itself, in its own folder, and the others go on when their number changes."""
    alone = job(workers=2, max_workers=3, replicas="independent", savers="all")
    spec = job_spec(alone)
    assert (spec.coupled, spec.savers, spec.resizing) == (False, "all", "live")
    assert alone.checkpoints == "{directory}/checkpoints"


def test_a_job_of_one_replica_moves_and_has_a_fixed_number():
    """It is not elastic; its owner decides whether it is moved, as before."""
    spec = job_spec(job())
    assert (spec.replicas, spec.elastic, spec.immovable) == ((WORKERS[0],), False, "")
    assert (spec.workers, spec.min_workers, spec.resizing) == (None, None, "none")


def test_a_gang_of_a_fixed_number_is_not_resized():
    """Without bounds its number of workers is the only one."""
    spec = job_spec(job(workers=4, ps=2))
    assert (spec.fewest_workers, spec.elastic, spec.resizing) == (4, False, "none")
    assert spec.unscalable


def test_what_policies_weigh_is_handed_on():
    """Class, utility, queue, priority, kind and the requests of servers."""
    spec = job_spec(
        job(
            **{"class": "trial"},
            utility=3,
            queue="q",
            priority=-5,
            kind="bert",
            ps=1,
            ps_requests={"cpu": 2},
            resizing="live",
        )
    )
    assert (spec.job_class, spec.utility, spec.queue, spec.priority) == ("trial", 3.0, "q", -5)
    assert spec.kind == "bert"
    assert spec.requests_of(PS) == Resources(cpu=2.0)


def test_the_template_of_a_gang_is_the_job():
    """What the backend needs comes back from the template unchanged, its class by the name in files."""
    given_job = job(**{"class": "trial"}, workers=2, max_workers=3)
    template = job_spec(given_job).template
    assert template["class"] == "trial"
    assert msgspec.convert(template, type(given_job)) == given_job


def test_checkpoints_of_several_replicas_are_in_the_folder_of_the_job():
    """Those of one are in its own, as ever; a path that the file gives is taken."""
    assert job().checkpoints == "{directory}/checkpoints"
    assert job(ps=1).checkpoints == "{job_directory}/checkpoints"
    assert job(workers=3, checkpoint_path="/x").checkpoints == "/x"


def test_the_replicas_of_a_job_share_a_folder(tmp_path):
    """Whatever their role, and no other job has it."""
    folders = {job_directory(tmp_path, name) for name in (PS, *WORKERS)}
    assert folders == {tmp_path / "default.a"}
    assert job_directory(tmp_path, "default/a.b/worker/0") != job_directory(tmp_path, WORKERS[0])


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ("workers: 2, min_workers: 3", "min_workers: must be at most workers (2), not 3"),
        ("workers: 3, max_workers: 2", "max_workers: must be at least workers (3), not 2"),
        ("workers: 0", "workers: "),
        ("ps: -1", "ps: "),
        ("resizing: sometimes", "resizing: "),
        ("class: important", "class: "),
        ("job_class: trial", "job_class: is not known"),
        ("workers: 2, log: /x", "log: each replica writes its own"),
        ("log: '{rnk}'", "the placeholder {rnk}"),
    ],
)
def test_a_wrong_number_or_name_is_refused(fields, named):
    """The mistake names the field and the value."""
    with pytest.raises(JobFileError) as caught:
        read_job_file(f"jobs: [{{name: a, command: 'true', {fields}}}]")
    assert any(named in mistake for mistake in caught.value.mistakes), caught.value.mistakes
