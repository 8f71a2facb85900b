"""specon's own policy on every paper's workload: against that paper's policy, kube-scheduler's and SRPT."""

from collections.abc import Iterator, Sequence
from typing import Final

from specon_lab.reproduction.experiment import Collected, Reproduction, Row, Section
from specon_lab.reproduction.ours_runs import (
    BASELINE,
    BEST_EFFORT,
    BOUND,
    CONTESTS,
    OURS,
    TRIALS,
    Contest,
    runs,
)
from specon_lab.reproduction.ours_tables import (
    beside,
    later,
    paired,
    part_of_the_way,
    unfinished,
    values,
)
from specon_lab.results.statistics import mean

_MOST_LATER: Final = 10.0
_LEAST_WAY: Final = 50.0
_THEIRS: Final = (
    "Of the two columns `paper` is {0}, measured here on the same jobs, `default` is specon's own."
)
_BOUND_REMARK: Final = (
    "SRPT knows how long every job takes, preempts whenever it likes, and weighs the size of a job. With "
    "several machines, gangs and elastic sizes it is a rule of thumb, so that it can be beaten: it never "
    "grows a job into idle room, and a preemption costs a restart that it does not count. Where it preempts "
    "very often it is no bound at all and slow to compute, so that it is not run on all workloads."
)
_LATER_REMARK: Final = "Serving short jobs first makes some long ones wait; a second lost counts as hours do."


def sections(collected: Collected) -> Sequence[Section]:
    """Return one table for each question, a row for each workload whose runs are there."""
    found = [
        Section(
            title="Average completion time beside the paper's policy",
            rows=_rows(_against_rival(collected, contest, difference=False) for contest in CONTESTS),
            remarks=(
                _THEIRS.format("the paper's policy, literal or repaired, whichever has the lower mean"),
                "`poisson` is of no paper; DRAGON is taken, which is made for elastic jobs with GPUs.",
            ),
        ),
        Section(
            title="The same, by how much it differs on the same seeds",
            rows=_rows(_against_rival(collected, contest, difference=True) for contest in CONTESTS),
            remarks=("What the runs of a seed have in common drops out, so that this is the sharper test.",),
        ),
        Section(
            title="Average completion time beside kube-scheduler's",
            rows=_rows(_against_baseline(collected, contest) for contest in CONTESTS),
            remarks=(_THEIRS.format("`default-scheduler`"),),
        ),
        Section(
            title="Jobs that finish more than 1 % later than with kube-scheduler",
            rows=_rows(_later(collected, contest) for contest in CONTESTS),
            remarks=(_LATER_REMARK,),
        ),
        Section(
            title="Average completion time beside SRPT, which knows the future",
            rows=_rows(_against_bound(collected, contest) for contest in CONTESTS),
            remarks=(_THEIRS.format("`srpt`"), _BOUND_REMARK),
        ),
        Section(
            title="How far from kube-scheduler to SRPT",
            rows=_rows(_way(collected, contest) for contest in CONTESTS if contest.rival == "specon"),
            remarks=("Of the difference of the two means.",),
        ),
        Section(
            title="Slowdown of the classes, 95th percentile, beside FitGpp",
            rows=_rows(
                _slowdown(collected, contest, figure, words)
                for contest in CONTESTS
                if contest.rival == "fitgpp"
                for figure, words in ((TRIALS, "trials"), (BEST_EFFORT, "best effort"))
            ),
            remarks=(
                "FitGpp is made for trials, not for the average. Slowdown: completion over training time.",
            ),
        ),
    ]
    return [section for section in found if section.rows]


def _rows(rows: Iterator[Row | None]) -> tuple[Row, ...]:
    return tuple(row for row in rows if row is not None)


def _rival(collected: Collected, contest: Contest) -> tuple[str, str] | None:
    """Return key and mode of the paper's policy in the mode that has the lower mean."""
    found = []
    for mode in ("default", "literal"):
        key = contest.key(contest.rival, mode)
        average = mean(values(collected, key) or ())
        if average is not None:
            found.append((average, mode, key))
    if not found:
        return None
    _, mode, key = min(found)
    return key, mode


def _against_rival(collected: Collected, contest: Contest, *, difference: bool) -> Row | None:
    best = _rival(collected, contest)
    ours = values(collected, contest.key(OURS))
    theirs = None if best is None else values(collected, best[0])
    if best is None or ours is None or theirs is None:
        return None
    note = _note(collected, f"{contest.rival}, {best[1]}", (contest.key(OURS), best[0]))
    return (paired if difference else beside)(contest.name, theirs, ours, note=note)


def _against_baseline(collected: Collected, contest: Contest) -> Row | None:
    ours, theirs = values(collected, contest.key(OURS)), values(collected, contest.key(BASELINE))
    if ours is None or theirs is None:
        return None
    note = _note(collected, "", (contest.key(OURS), contest.key(BASELINE)))
    return beside(contest.name, theirs, ours, note=note)


def _against_bound(collected: Collected, contest: Contest) -> Row | None:
    ours, theirs = values(collected, contest.key(OURS)), values(collected, contest.key(BOUND))
    if ours is None or theirs is None:
        return None
    return Row(
        what=contest.name,
        paper=mean(theirs),
        default=mean(ours),
        unit="s",
        note=_note(collected, "", (contest.key(OURS), contest.key(BOUND))),
    )


def _later(collected: Collected, contest: Contest) -> Row | None:
    part = later(collected.get(contest.key(OURS), ()), collected.get(contest.key(BASELINE), ()))
    if part is None:
        return None
    return Row(
        what=contest.name,
        paper=None,
        default=part,
        unit="%",
        tolerance=f"at most {_MOST_LATER:g} %",
        reproduced=part <= _MOST_LATER,
    )


def _way(collected: Collected, contest: Contest) -> Row | None:
    each = [values(collected, contest.key(policy)) for policy in (BASELINE, OURS, BOUND)]
    part = part_of_the_way(*(found or () for found in each))
    if part is None:
        return None
    return Row(
        what=contest.name,
        paper=None,
        default=part,
        unit="%",
        tolerance=f"at least {_LEAST_WAY:g} %",
        reproduced=part >= _LEAST_WAY,
    )


def _slowdown(collected: Collected, contest: Contest, figure: str, words: str) -> Row | None:
    best = _rival(collected, contest)
    ours = values(collected, contest.key(OURS), figure)
    theirs = None if best is None else values(collected, best[0], figure)
    if best is None or ours is None or theirs is None:
        return None
    note = f"{contest.rival}, {best[1]}"
    return beside(f"{contest.name}: {words}", theirs, ours, note=note, unit="")


def _note(collected: Collected, words: str, keys: Sequence[str]) -> str:
    """Return the words, and which of the runs left jobs that did not complete: no average knows of them."""
    missing = [
        f"{count} jobs did not complete under {key.split('/')[1]}"
        for key in keys
        if (count := unfinished(collected, key))
    ]
    return "; ".join(filter(None, (words, *missing)))


_REMARKS: Final = (
    (
        "Nothing here is a figure of a paper. The verdict `reproduced` means that specon's own policy is as "
        "good as the column `counts as reproduced` asks for. It runs with the manager's default settings, "
        "gate and budgets; SpeCon's runs without the gate, which would refuse nearly all that it proposes. "
        "Fewer than five seeds are not judged, but for a workload without chance."
    ),
    (
        "Smaller than in the papers, to keep the time within minutes: `dragon-random` has 50 jobs instead of "
        "100; `fitgpp` has 300 jobs on 8 nodes, as deep a queue as 3,000 on the paper's 84; of `kod2`, 4 of "
        "the 20 cells."
    ),
)
REPRODUCTION: Final = Reproduction(
    name="ours",
    title="specon's own policy, progress, on the workloads of all five papers",
    runs=runs,
    sections=sections,
    remarks=_REMARKS,
)
