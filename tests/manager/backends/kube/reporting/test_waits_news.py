"""What the owner of a job reads of what it waits for."""

import itertools

from specon_manager.backends.kube.reporting.waits_news import words_of_waits
from specon_manager.core.waiting import Waiting

JOB = "default/bert"


def waiting(kind, position=3, text="it needs 4 CPU"):
    return {
        JOB: Waiting(
            job=JOB, queue="research", position=position, overall=position, since=0.0, kind=kind, text=text
        )
    }


def test_what_a_job_waits_for_is_told_when_its_kind_changes():
    """Not each place in the queue, and not each number."""
    course_ = [
        {},
        waiting("room"),
        waiting("room", position=2, text="it needs 3 CPU"),
        waiting("quota", position=2, text="queue research has 4 of 4 GPU in use"),
        {},
    ]
    told = [
        (note.reason, note.text)
        for before, after in itertools.pairwise(course_)
        for note in words_of_waits(before, after)
    ]
    assert told == [
        ("Waiting", "waits at position 3 of queue research: it needs 4 CPU"),
        (
            "QuotaExceeded",
            "waits at position 2 of queue research: queue research has 4 of 4 GPU in use",
        ),
    ]
