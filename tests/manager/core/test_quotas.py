"""Quotas: what a queue may use, of its own and borrowed; what is cut, refused, and kept from the policy."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.core.admission_gate import find_barred_jobs, prepare
from specon_manager.core.plan import plan
from specon_manager.core.quotas import Usage, fit_quota
from specon_manager.model.actions import Admit, AdmitGang, Claim, Preempt, Refusal, ScaleOut
from specon_manager.model.cluster import Claimed, Phase
from specon_manager.model.queues import Queue
from specon_manager.model.resources import Resources
from support.decisions.gangs import gang, on, with_gang, worker
from support.decisions.told import state_of

NOW = 1000.0


def queue(name, cpu, **changes):
    limit = changes.pop("limit", None)
    limit = None if limit is None else Resources(cpu=limit)
    return Queue(name=name, quota=Resources(cpu=cpu), limit=limit, **changes)


def with_queues(state, *queues):
    return msgspec.structs.replace(state, queues={each.name: each for each in queues})


def workers(job, count):
    return [worker(job, index) for index in range(count)]


def running(state, job, count, *, node="node-0", **changes):
    return with_gang(state, gang(job, count, ps=0, **changes), on(node, *workers(job, count)))


def waiting(state, job, count, *, queued_at=0.0, **changes):
    return with_gang(state, gang(job, count, ps=0, **changes), {}, queued_at=queued_at)


def admission(job, count, node="node-1"):
    return AdmitGang(job=f"default/{job}", placement=on(node, *workers(job, count)), reason="room")


def of_a(**changes):
    """Return a job of queue a that is in no state."""
    state = waiting(state_of(), "asks", 1, queue="a", **changes)
    return state.jobs["default/asks"]


def verdict(state, *proposals):
    return [v.objection and v.objection.refusal for v in plan(state, proposals, NOW)]


@pytest.mark.parametrize(
    ("queues", "used", "asked", "words"),
    [
        ([queue("a", 2, borrow=False)], 0, 2, None),
        ([queue("a", 2, borrow=False)], 1, 2, "it uses 1 CPUs of its quota, 2 CPUs"),
        ([queue("a", 2), queue("b", 2)], 2, 2, None),
        ([queue("a", 2), queue("b", 2)], 3, 2, "all queues use 3 CPUs of 4 CPUs"),
        ([queue("a", 2, limit=3), queue("b", 2)], 2, 2, "it uses 2 CPUs of its limit, 3 CPUs"),
        ([queue("a", 2, limit=3), queue("b", 2)], 2, 1, None),
        ([queue("a", 0), queue("b", 2)], 0, 2, None),
        ([queue("a", 0, borrow=False), queue("b", 2)], 0, 1, "queue a has no quota for 1 CPUs more"),
    ],
)
def test_a_queue_has_its_own_share_and_what_others_leave(queues, used, asked, words):
    """Within its share, or borrowed from what all shares together leave, up to its limit."""
    state = with_queues(state_of(), *queues)
    if used:
        state = running(state, "r", used, queue="a")
    why = Usage(state.snapshot(NOW)).against(of_a(), Resources(cpu=asked))
    assert (why is None) == (words is None)
    assert words is None or words in why


def test_a_share_that_others_have_borrowed_is_the_queues_own_all_the_same():
    """It is not held against a queue that others use more than theirs."""
    state = running(with_queues(state_of(), queue("a", 2), queue("b", 2)), "r", 3, queue="b")
    assert verdict(waiting(state, "g", 2, queue="a"), admission("g", 2)) == [None]


def test_each_kind_of_resource_has_a_quota_and_what_is_not_asked_for_does_not_count():
    """A queue without memory may run what asks for none, and its quota of GPUs is no quota of CPUs."""
    state = with_queues(state_of(), Queue(name="a", quota=Resources(cpu=1, gpu=1), borrow=False))
    usage = Usage(state.snapshot(NOW))
    assert usage.against(of_a(), Resources(cpu=1, gpu=1)) is None
    assert "0 GiB of its quota, 0 GiB" in usage.against(of_a(), Resources(cpu=1, memory=2.0**30))
    assert "2 GPUs more" in usage.against(of_a(), Resources(gpu=2))


@pytest.mark.parametrize(
    "changes", [{"held": True, "placed_by": "owner", "queue": "c"}, {"queue": "c"}], ids=["held", "ours"]
)
def test_a_job_that_names_no_queue_that_is_there_waits(changes):
    """It says which; where there are no queues at all nobody is limited."""
    state = waiting(state_of(), "g", 1, **changes)
    assert find_barred_jobs(state.snapshot(NOW)) == {}
    state = with_queues(state, queue("a", 9))
    assert find_barred_jobs(state.snapshot(NOW)) == {"default/g": "there is no queue c"}
    (only,) = plan(state, [admission("g", 1)], NOW)
    assert (only.objection.refusal, only.objection.text) == (Refusal.QUOTA, "there is no queue c")


def test_a_job_without_a_queue_is_not_limited_and_uses_nobodys_quota():
    """Queues are something that a job opts into."""
    state = with_queues(running(state_of(), "r", 2), queue("a", 1, borrow=False))
    state = waiting(waiting(state, "g", 2), "h", 1, queue="a")
    assert verdict(state, admission("g", 2), admission("h", 1)) == [None, None]


def test_what_is_accepted_in_a_plan_counts_for_what_comes_after_it():
    """Two gangs that each fit the quota are not both admitted into it."""
    state = with_queues(state_of(), queue("a", 3, borrow=False))
    state = waiting(waiting(state, "g", 2, queue="a"), "h", 2, queue="a")
    assert verdict(state, admission("g", 2), admission("h", 2, "node-0")) == [None, Refusal.QUOTA]


def test_a_gang_is_cut_to_the_quota_and_not_below_what_it_needs():
    """The workers with the lowest indices start; a policy that proposes all of them knows no quotas."""
    state = with_queues(state_of(), queue("a", 2, borrow=False))
    state = waiting(state, "g", 4, fewest=1, queue="a")
    (only,) = plan(state, [admission("g", 4)], NOW)
    assert only.objection is None
    assert only.proposal.placement == on("node-1", *workers("g", 2))
    assert "2 of 4 replicas, since queue a has no quota for 4 CPUs more" in only.proposal.reason
    rigid = waiting(with_queues(state_of(), queue("a", 2, borrow=False)), "g", 4, fewest=3, queue="a")
    assert verdict(rigid, admission("g", 4)) == [Refusal.QUOTA]


def test_growth_is_cut_and_refused_in_the_same_way():
    """A scale-out takes as many workers as the quota has room for, and none where it has none."""
    for quota, accepted in ((3, 2), (2, 1), (1, 0)):
        state = with_queues(state_of(), queue("a", quota, borrow=False))
        spec = gang("g", 1, ps=0, most=3, queue="a")
        state = with_gang(state, spec, on("node-0", worker("g")))
        growth = ScaleOut(
            job="default/g", placement=on("node-0", worker("g", 2), worker("g", 1)), reason="idle"
        )
        (only,) = plan(state, [growth], NOW)
        if accepted:
            assert sorted(only.proposal.placement) == workers("g", 3)[1 : 1 + accepted]
        assert (only.objection and only.objection.refusal) == (None if accepted else Refusal.QUOTA)


def test_replicas_that_are_started_one_by_one_count_as_their_whole_job():
    """What crashed of a job comes back to its place, even where the quota was lowered meanwhile."""
    state = with_queues(state_of(), queue("a", 1, borrow=False))
    gangs = waiting(state, "g", 2, queue="a")
    start = Admit(replica=worker("g"), node="node-0", reason="room")
    assert verdict(gangs, start) == [Refusal.QUOTA]
    torn = with_gang(state, gang("g", 2, ps=0, queue="a"), on("node-0", worker("g")))
    pending = torn.replicas[worker("g", 1)]
    torn = torn.with_replica(msgspec.structs.replace(pending, phase=Phase.PENDING))
    again = Admit(replica=worker("g", 1), node="node-0", reason="again")
    assert verdict(torn, again) == [None]


def test_a_quota_below_its_use_ends_nothing_and_starts_nothing():
    """Running jobs continue; the policy does not see the waiting ones, and the numbers say why."""
    state = with_queues(running(state_of(), "r", 3, queue="a"), queue("a", 1, borrow=False))
    state = waiting(state, "g", 1, queue="a")
    assert verdict(state, admission("g", 1)) == [Refusal.QUOTA]
    assert verdict(state, Preempt(job="default/r", reason="why")) == [
        None
    ]  # nobody is ended for it but by whom
    why = find_barred_jobs(state.snapshot(NOW))["default/g"]
    assert why == "queue a has no quota for 1 CPUs more: it uses 3 CPUs of its quota, 1 CPUs"


def test_a_job_over_quota_is_not_seen_and_keeps_no_room():
    """Nobody waits behind it, and the room that a policy kept for it is free."""
    state = with_queues(running(state_of(), "r", 2, queue="a"), queue("a", 2, borrow=False))
    state = waiting(waiting(state, "g", 1, queue="a"), "h", 1)
    claim = Claimed(placement=((worker("g"), "node-1"),), until=NOW + 99, reason="soon")
    state = msgspec.structs.replace(state, claims={"default/g": claim})
    state, snapshot = prepare(state, NOW)
    assert [job.name for job in snapshot.waiting] == ["default/h"]
    assert state.claims == {}
    assert list(snapshot.withheld) == ["default/g"]


def test_a_job_is_seen_over_quota_where_its_own_queue_fills_the_nodes():
    """Room that a policy makes on the nodes is then room in the quota as well."""
    state = running(state_of(), "r", 4, fewest=1, queue="a")
    state = running(state, "s", 4, node="node-1", fewest=1, queue="a")
    full = waiting(with_queues(state, queue("a", 8)), "g", 2, queue="a")
    assert find_barred_jobs(full.snapshot(NOW)) == {}
    for changed in (
        with_queues(full, queue("a", 7)),  # room on nodes would be none in the quota
        running(with_queues(full, queue("a", 8)), "t", 1, queue=""),  # it may be made by others
    ):
        assert list(find_barred_jobs(changed.snapshot(NOW))) == ["default/g"]


def test_who_starves_for_quota_gets_what_becomes_free_of_it():
    """Those of its queue that came later wait with it, and nobody in the queue grows."""
    settings = msgspec.structs.replace(state_of().settings, starvation=100.0)
    state = with_queues(state_of(settings), queue("a", 3, borrow=False), queue("b", 3, borrow=False))
    spec = gang("r", 2, ps=0, most=3, queue="a")
    state = with_gang(state, spec, on("node-0", *workers("r", 2)))
    state = waiting(state, "large", 3, queue="a", queued_at=NOW - 100)
    state = waiting(state, "small", 1, queue="a", queued_at=NOW - 50)
    state = waiting(state, "other", 1, queue="b", queued_at=NOW - 50)
    _, snapshot = prepare(state, NOW)
    assert [job.name for job in snapshot.waiting] == ["default/other"]
    assert "is for default/large, which waits for 100 s" in snapshot.withheld["default/small"]
    growth = ScaleOut(job="default/r", placement=on("node-0", worker("r", 2)), reason="idle")
    (only,) = plan(state, [growth], NOW, snapshot)
    assert only.objection.refusal is Refusal.STARVATION
    _, younger = prepare(state, NOW - 1)
    assert "default/small" not in younger.withheld


@given(
    uses=st.tuples(st.integers(0, 6), st.integers(0, 6)),
    size=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    quota=st.integers(0, 9),
    borrow=st.booleans(),
)
def test_what_is_given_never_exceeds_what_the_queue_may_use(uses, size, quota, borrow):
    """A cut gang is within the quota, is as large as it can be, and has what it needs."""
    (used, other), (fewest, asked) = uses, sorted(size)
    state = with_queues(state_of(cpus=20.0), queue("a", quota, borrow=borrow), queue("b", 3))
    state = running(state, "r", used, queue="a") if used else state
    state = running(state, "s", other, queue="b") if other else state
    state = waiting(state, "g", asked, fewest=fewest, queue="a")
    snapshot = state.snapshot(NOW)
    proposal, against = fit_quota(admission("g", asked), snapshot, Usage(snapshot))
    allowed = max(quota - used, quota + 3 - used - other if borrow else 0, 0)
    if allowed >= fewest:
        assert against is None
        assert len(proposal.placement) == min(asked, allowed)
    else:
        assert against.refusal is Refusal.QUOTA


def test_a_claim_is_no_matter_of_quotas():
    """Room may be kept; who takes it is judged when it starts."""
    state = with_queues(waiting(state_of(), "g", 1, queue="a"), queue("a", 0, borrow=False))
    claim = Claim(job="default/g", placement=on("node-0", worker("g")), reason="soon")
    assert verdict(state, claim) == [None]


CLOSED = [
    ({"namespaces": ("team-a",)}, {}, "queue a takes no jobs of namespace default"),
    ({"allow_trials": False}, {"job_class": "trial"}, "queue a takes no trials"),
    ({"max_utility": 5.0}, {"utility": 7.0}, "takes jobs of a utility of at most 5; this one says 7"),
]


@pytest.mark.parametrize(("rule", "claims", "words"), CLOSED)
def test_a_job_that_its_queue_does_not_take_waits_and_says_so(rule, claims, words):
    """Room would not help it, so no policy sees it, and no proposal has it start."""
    state = waiting(with_queues(state_of(), queue("a", 8, **rule)), "g", 1, queue="a", **claims)
    assert words in find_barred_jobs(state.snapshot(NOW))["default/g"]
    (judged,) = plan(state, [admission("g", 1)], NOW)
    assert judged.objection.refusal is Refusal.QUOTA
    assert words in judged.objection.text


def test_a_job_that_its_queue_does_not_take_is_told_so_behind_one_that_starves():
    """It would wait for ever for what becomes free of the quota."""
    settings = msgspec.structs.replace(state_of().settings, starvation=100.0)
    state = with_queues(state_of(settings), queue("a", 3, borrow=False, allow_trials=False))
    state = running(state, "r", 2, queue="a")
    state = waiting(state, "large", 3, queue="a", queued_at=NOW - 100)
    state = waiting(state, "small", 1, queue="a", queued_at=NOW - 50)
    state = waiting(state, "trial", 1, queue="a", queued_at=NOW - 50, job_class="trial")
    found = find_barred_jobs(state.snapshot(NOW))
    assert "is for default/large" in found["default/small"]
    assert found["default/trial"] == "queue a takes no trials"


@pytest.mark.parametrize(("rule", "claims", "words"), CLOSED)
def test_what_a_queue_takes_within_its_rules_is_as_before(rule, claims, words):
    """The bound itself is allowed, and rules bind nobody whom they do not mean."""
    kept = {"namespaces": ("default",), "allow_trials": True, "max_utility": 7.0}
    rules = {name: kept[name] for name in rule}
    state = waiting(with_queues(state_of(), queue("a", 8, **rules)), "g", 1, queue="a", **claims)
    assert find_barred_jobs(state.snapshot(NOW)) == {}


def test_a_job_that_runs_unasked_charges_no_queue_that_does_not_take_it():
    """Its owner starts it whenever it likes: another team's share is not for that."""
    job = {"placed_by": "owner", "held": False, "queue": "a"}
    for namespaces, used in ((None, 3), (("default",), 3), (("team-a",), 0)):
        state = running(with_queues(state_of(), queue("a", 8, namespaces=namespaces)), "r", 3, **job)
        assert Usage(state.snapshot(NOW)).used("a").cpu == used


def test_a_job_that_was_admitted_is_charged_until_it_is_gone():
    """A queue that is closed to it later has no more room for that."""
    state = running(with_queues(state_of(), queue("a", 8, namespaces=())), "r", 3, queue="a")
    assert Usage(state.snapshot(NOW)).used("a").cpu == 3
