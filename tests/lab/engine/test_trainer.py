"""Progress, what of it is saved, and what a loss costs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_lab.engine.trainer import Trainer
from specon_lab.workloads.workload import LossCurve, Training


def trainer(*, period: float = 10.0, saves: bool = True, curve: LossCurve | None = None) -> Trainer:
    return Trainer(Training(seconds=1000, checkpoint_seconds=period, curve=curve), saves=saves)


def test_progress_follows_the_speed():
    """Progress is speed times time, over changes of speed and pauses."""
    training = trainer()
    training.go_on(0.0, 1.0)
    training.go_on(10.0, 0.5)
    training.go_on(30.0, 0.0)
    assert training.at(99.0) == 20
    training.go_on(100.0, 2.0)
    assert training.at(105.0) == 30
    assert training.left == 980


def test_own_saves_come_by_time_in_training():
    """It saves each ten seconds of training, whenever the speed changes, and pauses do not count."""
    training = trainer()
    training.go_on(0.0, 1.0)
    training.go_on(4.0, 0.0)
    training.go_on(50.0, 0.5)  # the save is due 6 s later
    training.advance(57.0)
    assert training.saved == pytest.approx(4 + 3)
    assert training.fall_back() == pytest.approx(0.5)
    assert training.done == pytest.approx(7)


def test_who_never_saves_loses_all():
    """Without checkpoints neither time nor a request keeps anything."""
    training = trainer(saves=False)
    training.go_on(0.0, 1.0)
    training.advance(100.0)
    training.keep()
    assert training.fall_back() == 100


def test_it_converges_when_its_progress_passes_98_percent_of_the_gain():
    """With a straight line that is at 980 s of training, whenever anybody looks."""
    training = trainer(curve=LossCurve(rate=0.0))
    training.go_on(50.0, 0.5)
    training.advance(2009.0)
    assert training.converged_at is None
    training.go_on(2015.0, 0.0)
    assert training.converged_at == pytest.approx(50 + 980 / 0.5)
    training.advance(9999.0)
    assert training.converged_at == pytest.approx(2010)


def test_convergence_that_is_lost_has_to_come_again():
    """What falls back behind it converges later; what falls back to no less than it has converged."""
    training = trainer(period=100.0, curve=LossCurve(rate=0.0))
    training.go_on(0.0, 1.0)
    training.advance(990.0)
    training.fall_back()
    assert training.converged_at is None
    training.advance(1080.0)
    assert training.converged_at == pytest.approx(990 + 80)
    training.keep()
    training.fall_back()
    assert training.converged_at == pytest.approx(1070)


def test_a_job_without_a_curve_never_converges():
    """There is no gain to speak of."""
    training = trainer()
    training.go_on(0.0, 1.0)
    training.advance(1000.0)
    assert training.converged_at is None


def test_saving_all_the_time_loses_nothing():
    """With a period of zero everything is saved."""
    training = trainer(period=0.0)
    training.go_on(0.0, 1.0)
    training.advance(33.0)
    assert training.fall_back() == 0


@given(
    changes=st.lists(st.tuples(st.floats(0, 50), st.sampled_from([0.0, 0.3, 1.0, 2.0])), max_size=20),
    period=st.floats(0, 60),
)
def test_no_more_is_lost_than_a_period_of_training(changes, period):
    """At most what is trained in one period is lost, and what is saved was done."""
    training, now = trainer(period=period), 0.0
    for elapsed, rate in changes:
        now += elapsed
        training.go_on(now, rate)
        assert 0 <= training.saved <= training.done <= training.total
        assert training.done - training.saved <= 2.0 * period + 1e-6
