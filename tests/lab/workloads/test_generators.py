"""What the papers print is what the generators give."""

import math
from collections import Counter, defaultdict
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_lab.workloads.fitgpp import CAPACITY, Normal, submission_minutes
from specon_lab.workloads.table import workload_named


def test_specon_fixed():
    """20 VAE jobs, one every 50 s, on four nodes with eight cores, each using all of them."""
    workload = workload_named("specon-fixed", 0)
    assert [job.at for job in workload.jobs] == [50.0 * index for index in range(20)]
    assert [node.capacity.cpu for node in workload.nodes] == [8.0] * 4
    assert {job.spec.kind for job in workload.jobs} == {"vae-pytorch", "vae-tensorflow"}
    assert {(job.training.demand, job.training.curve.rate) for job in workload.jobs} == {(8.0, 5.2)}
    assert workload.sharing.contention == 0.1
    assert workload.report_seconds == 30.0


@pytest.mark.parametrize(("jobs", "window", "nodes"), [(20, 300, 4), (30, 600, 4), (50, 1200, 8)])
def test_specon_mixed(jobs, window, nodes):
    """Mixed jobs arrive within the paper's windows, of ten types that last 30 to 440 s alone."""
    workload = workload_named(f"specon-mixed-{jobs}", 1)
    assert (len(workload.jobs), len(workload.nodes)) == (jobs, nodes)
    assert 0.5 * window < workload.jobs[-1].at <= window
    many = workload_named(f"specon-mixed-{jobs}:jobs=400", 1).jobs
    assert len({job.spec.kind for job in many}) == 10
    assert 170 <= fmean(job.training.seconds for job in many) <= 205
    assert {job.training.seconds for job in many} >= {30.0, 440.0}


def test_a_move_costs_five_seconds():
    """Start and restore take 5 s on average, deviation near 1.43 s, and never less than a start."""
    jobs = workload_named("specon-fixed:jobs=2000", 5).jobs
    costs = [job.training.start_seconds + job.training.restore_seconds for job in jobs]
    assert abs(fmean(costs) - 5.0) < 0.15
    assert 1.2 < math.sqrt(fmean((cost - 5.0) ** 2 for cost in costs)) < 1.6
    assert min(costs) >= 2.0


def test_dragon_table_1():
    """The twelve jobs have the workers, minima, steps and minutes of Table 1, and the speeds of Figure 2."""
    workload = workload_named("dragon-table1", 0)
    rows = [(job.spec.workers, job.spec.min_workers, job.training.steps) for job in workload.jobs]
    assert rows[0] == (4, 2, 2800)
    assert rows[7] == (1, 1, 2400)
    assert sum(steps for _, _, steps in rows) == 20850
    assert all(len(job.spec.worker_names) == 4 and len(job.spec.ps) == 1 for job in workload.jobs)
    assert workload.jobs[-1].at == pytest.approx(51.19 * 60)
    first = workload.jobs[0].training
    assert first.seconds == pytest.approx(2800 * 64 / 346.51)
    assert first.speedup == pytest.approx((1.0, 1.54, 2.41, 3.01), abs=0.01)
    assert first.network.step_bytes == 102e6
    assert first.network.step_seconds == pytest.approx(64 / 115.06)


def test_dragon_quota_is_the_share_of_jobs_whose_slowest_worker_decides():
    """None at 0, all at 1, and about the given share between; nothing else of the jobs depends on it."""

    def fixed(quota):
        return [
            job.training.network.fixed_quota
            for job in workload_named(f"dragon-random:jobs=1000,quota={quota}", 1).jobs
        ]

    assert not any(fixed(0))
    assert all(fixed(1))
    assert 0.35 < fmean(fixed(0.4)) < 0.45
    none, every = (workload_named(f"dragon-random:quota={quota}", 1).jobs for quota in (0, 1))
    assert [job.training.steps for job in none] == [job.training.steps for job in every]


def test_dragon_random_sizes():
    """Minimum, requested and maximum number of workers lie in 2..8 in this order; arrivals have the mean."""
    workload = workload_named("dragon-random:jobs=2000,interarrival=62", 0)
    for job in workload.jobs:
        assert 2 <= job.spec.min_workers <= job.spec.workers <= len(job.spec.worker_names) <= 8
    assert 58 < workload.jobs[-1].at / 1999 < 66


def test_kod2_requests_depend_on_the_seed_only():
    """Cells of one seed ask for the same and differ in model and batch; every request is of the table."""
    small, large = workload_named("kod2:model=resnet-50,batch=8", 2), workload_named("kod2", 2)
    assert [job.spec.requests for job in small.jobs] == [job.spec.requests for job in large.jobs]
    assert [job.at for job in large.jobs] == [30.0 * index for index in range(10)]
    assert small.jobs[0].training != large.jobs[0].training
    for job in workload_named("kod2:jobs=200", 2).jobs:
        assert job.spec.requests.cpu in {1.0, 2.0, 3.0}
        assert job.spec.requests.memory in {2e9, 4e9, 6e9}
        assert job.spec.min_workers in {1, 2}
        assert 2 <= len(job.spec.worker_names) <= 6


def test_kubeflow_scenarios_differ():
    """One has equal utilities, two has two, three has many."""
    utilities = [
        len({job.spec.utility for job in workload_named(f"kubeflow:scenario={number}", 0).jobs})
        for number in (1, 2, 3)
    ]
    assert utilities[:2] == [1, 2]
    assert utilities[2] > 2


def test_poisson_shares():
    """Shares of elastic jobs, trials and curves are those that are asked for."""
    jobs = workload_named("poisson:jobs=2000,elastic=0.3,trials=0.2,curves=0.6", 0).jobs
    assert abs(fmean(job.spec.min_workers < len(job.spec.worker_names) for job in jobs) - 0.3) < 0.04
    assert abs(fmean(job.spec.job_class == "trial" for job in jobs) - 0.2) < 0.04
    assert abs(fmean(job.training.curve is not None for job in jobs) - 0.6) < 0.04
    assert {job.spec.workers for job in jobs} == {1, 2, 4, 8}


def test_fitgpp_jobs():
    """30 % are trials, 1 to 30 minutes long; grace periods are at most 20 minutes; demands fit a node."""
    workload = workload_named("fitgpp:config=A,jobs=3000", 0)
    trials = [job for job in workload.jobs if job.spec.job_class == "trial"]
    assert abs(len(trials) / 3000 - 0.3) < 0.03
    assert all(60 <= job.training.seconds <= 30 * 60 for job in trials)
    others = [job.training.seconds for job in workload.jobs if job.spec.job_class == "best-effort"]
    assert 28 * 60 < fmean(others) < 33 * 60
    assert all(job.spec.grace_seconds <= 1200 for job in workload.jobs)
    assert abs(fmean(job.spec.grace_seconds for job in workload.jobs) - 180) < 10
    assert all(job.at % 60 == 0 for job in workload.jobs)
    assert {job.spec.requests.gpu for job in workload.jobs} == {float(gpus) for gpus in range(1, 9)}
    assert {job.spec.checkpointing for job in workload.jobs} == {"on-termination"}


def test_fitgpp_grace_factor():
    """Figure 7's factor multiplies the grace periods and changes nothing else."""
    once, eightfold = (workload_named(f"fitgpp:jobs=500,grace_factor={factor}", 0) for factor in (1, 8))
    graces = [fmean(job.spec.grace_seconds for job in workload.jobs) for workload in (once, eightfold)]
    assert 7.5 < graces[1] / graces[0] < 8.5
    assert [(job.at, job.training) for job in once.jobs] == [(job.at, job.training) for job in eightfold.jobs]


@given(
    jobs=st.lists(
        st.tuples(st.integers(1, 32), st.integers(1, 256), st.integers(1, 8), st.integers(1, 20)),
        min_size=1,
        max_size=60,
    ),
    nodes=st.integers(1, 4),
    load=st.sampled_from([0.5, 1.0, 2.0]),
)
def test_submissions_keep_the_load_under_fifo(jobs, nodes, load):
    """Until the last submission the load is at least the target, and without the last job below."""
    demands = [job[:3] for job in jobs]
    minutes = [job[3] for job in jobs]
    submitted = submission_minutes(demands, minutes, nodes=nodes, load=load, load_of="gpu")
    assert submitted == sorted(submitted)
    started = _fifo(demands, minutes, submitted, nodes)
    capacity = nodes * CAPACITY[2]
    counts = Counter(submitted)
    for now in range(submitted[-1] + 1):
        present = [
            demands[job][2]
            for job in range(len(jobs))
            if submitted[job] <= now and started[job] + minutes[job] > now
        ]
        if now < submitted[-1]:
            assert sum(present) / capacity >= load - 1e-9
        if counts[now]:
            last = max(job for job in range(len(jobs)) if submitted[job] == now)
            assert (sum(present) - demands[last][2]) / capacity < load + 1e-9


def _fifo(demands, minutes, submitted, nodes):
    """Return the minutes at which a strict FIFO over first-fitting nodes starts the jobs."""
    free = [list(CAPACITY) for _ in range(nodes)]
    ends = defaultdict(list)
    started: list[int] = []
    now = 0
    while len(started) < len(demands):
        for job, node in ends.pop(now, ()):
            free[node] = [room + amount for room, amount in zip(free[node], demands[job], strict=True)]
        while len(started) < len(demands) and submitted[len(started)] <= now:
            job = len(started)
            fitting = [
                node
                for node in range(nodes)
                if all(amount <= room for amount, room in zip(demands[job], free[node], strict=True))
            ]
            if not fitting:
                break
            node = fitting[0]
            free[node] = [room - amount for room, amount in zip(free[node], demands[job], strict=True)]
            ends[now + minutes[job]].append((job, node))
            started.append(now)
        now += 1
    return started


def test_a_job_larger_than_a_node_is_refused():
    """It would block the queue for ever."""
    with pytest.raises(ValueError, match="larger than a node"):
        submission_minutes([(33, 1, 1)], [1], nodes=2, load=1.0, load_of="mean")


@given(
    mean=st.floats(-50, 50),
    deviation=st.floats(0.1, 50),
    least=st.floats(0, 5),
    width=st.floats(0.1, 100),
    uniform=st.floats(0, 1),
)
def test_truncated_normal_stays_within_its_bounds(mean, deviation, least, width, uniform):
    """Whatever the distribution, what is drawn lies between the bounds."""
    assert least <= Normal(mean, deviation).draw(least, least + width, uniform) <= least + width
