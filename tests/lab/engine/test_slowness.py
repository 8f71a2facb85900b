"""Why a job trained for longer than alone: the reasons add up, and each is told apart."""

import pytest

from specon_lab.engine.run import simulate
from specon_lab.engine.slowness import Rates, Slowing, Slowness
from specon_lab.workloads.table import workload_named
from support.lab.simulations import nodes, sharing_job, workload


def test_each_factor_is_charged_for_what_the_ones_before_it_left():
    """Half the size, half of that by the network, half of that by sharing; a weight leaves a fifth of it."""
    slowing = Slowing()
    slowing.go_on(10.0, Rates(size=0.5, network=0.5, even=0.5, hold=0.1))
    slowing.go_on(110.0, None)
    slowing.go_on(500.0, None)
    assert slowing.total == pytest.approx(Slowness(50.0, 25.0, 12.5, 10.0))


@pytest.mark.parametrize("policy", ["progress", "quota-fifo", "specon"])
@pytest.mark.parametrize("name", ["specon-mixed-20", "kubeflow:scenario=3", "kod2:batch=32"])
def test_the_reasons_add_up_to_what_a_job_trained_beyond_what_it_needed(name, policy):
    """With the training that was done again; whatever the policy did."""
    for job in simulate(workload_named(name, 0), policy).jobs:
        beyond = job.trained_seconds - job.ideal_seconds
        assert sum(job.slowness) + job.lost_seconds == pytest.approx(beyond, abs=1e-6)


def test_with_equal_weights_nobody_is_outweighed_and_who_goes_first_is_so_at_the_others_expense():
    """Two jobs on one node: round robin shares alike; ours makes one wait for the other."""
    both = workload(sharing_job(0), sharing_job(1, seconds=300.0), on=nodes(1))
    alike = [job.slowness for job in simulate(both, "round-robin").jobs]
    assert [each.outweighed for each in alike] == [0.0, 0.0]
    assert all(each.crowded > 0 for each in alike)
    first, second = (job.slowness for job in simulate(both, "progress").jobs)
    assert first.outweighed < 0 < second.outweighed
