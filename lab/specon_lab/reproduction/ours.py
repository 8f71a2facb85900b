"""specon's own policy on every paper's workload: against that paper's policy, kube-scheduler's and SRPT."""

from collections.abc import Iterator, Sequence
from typing import Final

from specon_lab.reproduction.experiment import Collected, Line, Reproduction, Row, Section
from specon_lab.reproduction.ours_runs import (
    BASELINES,
    BEST_EFFORT,
    BOUND,
    CONTESTS,
    OURS,
    QUOTA,
    TRIALS,
    Contest,
    runs,
)
from specon_lab.reproduction.ours_tables import (
    COLUMNS,
    compare_means,
    compare_pairs,
    count_unfinished,
    later_row,
    restarts,
    side_by_side,
    values,
    way_row,
)
from specon_lab.reproduction.remarks import remarks_of
from specon_lab.results.statistics import mean
from specon_sidecar.counts import format_count

_REMARKS: Final = remarks_of("ours")
_BESIDE: Final = (
    (BASELINES[0], "kube-scheduler's", _REMARKS["beside kube-scheduler"]),
    (QUOTA, "quota FIFO's", _REMARKS["beside quota FIFO"]),
)


def sections(collected: Collected) -> Sequence[Section]:
    """Return one table for each question, a row for each workload whose runs are there."""
    found = [
        Section(
            title="Average completion time beside the paper's policy",
            rows=_rows(_against_rival(collected, contest, difference=False) for contest in CONTESTS),
            remarks=_REMARKS["beside the papers"],
        ),
        Section(
            title="The same, by how much it differs on the same seeds",
            rows=_rows(_against_rival(collected, contest, difference=True) for contest in CONTESTS),
            remarks=_REMARKS["same seeds"],
        ),
        *(
            Section(
                title=f"Average completion time beside {whose}",
                rows=_rows(_against_baseline(collected, contest, policy) for contest in CONTESTS),
                remarks=said,
            )
            for policy, whose, said in _BESIDE
        ),
        Section(
            title="Jobs that finish more than 1 % later than with the better of these two",
            rows=_rows(_later(collected, contest) for contest in CONTESTS),
            remarks=_REMARKS["later"],
        ),
        Section(
            title="Average completion time beside SRPT, which knows the future",
            rows=_rows(_against_bound(collected, contest) for contest in CONTESTS),
            remarks=_REMARKS["beside SRPT"],
        ),
        Section(
            title="How far from quota FIFO to SRPT",
            rows=_rows(_way(collected, contest) for contest in CONTESTS),
            remarks=_REMARKS["way"],
        ),
        Section(
            title="Slowdown of the classes, 95th percentile, beside FitGpp",
            rows=_rows(
                _slowdown(collected, contest, figure, words)
                for contest in CONTESTS
                if contest.rival == "fitgpp"
                for figure, words in ((TRIALS, "trials"), (BEST_EFFORT, "best effort"))
            ),
            remarks=_REMARKS["classes"],
        ),
        Section(
            title="Side by side",
            columns=COLUMNS,
            lines=tuple(line for contest in CONTESTS for line in _side_by_side(collected, contest)),
            remarks=_REMARKS["side by side"],
        ),
    ]
    return [section for section in found if section.rows or section.lines]


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
    return (compare_pairs if difference else compare_means)(contest.name, theirs, ours, note=note)


def _against_baseline(collected: Collected, contest: Contest, policy: str) -> Row | None:
    ours, theirs = values(collected, contest.key(OURS)), values(collected, contest.key(policy))
    if ours is None or theirs is None:
        return None
    note = _note(collected, "", (contest.key(OURS), contest.key(policy)))
    return compare_means(contest.name, theirs, ours, note=note)


def _against_bound(collected: Collected, contest: Contest) -> Row | None:
    ours, theirs = values(collected, contest.key(OURS)), values(collected, contest.key(BOUND))
    if ours is None or theirs is None:
        return None
    return Row(
        what=contest.name,
        paper=mean(theirs),
        default=mean(ours),
        unit="s",
        runs=len(ours),
        note=_note(
            collected, restarts(collected, contest.key(BOUND)), (contest.key(OURS), contest.key(BOUND))
        ),
    )


def _later(collected: Collected, contest: Contest) -> Row | None:
    baselines = [contest.key(policy) for policy in BASELINES]
    return later_row(contest.name, collected, contest.key(OURS), baselines)


def _way(collected: Collected, contest: Contest) -> Row | None:
    keys = (contest.key(policy) for policy in (QUOTA, OURS, BOUND))
    return way_row(contest.name, collected, *keys)


def _side_by_side(collected: Collected, contest: Contest) -> Iterator[Line]:
    best = _rival(collected, contest)
    rival = [] if best is None else [(f"{contest.rival}, {best[1]}", best[0])]
    others = [(policy, contest.key(policy)) for policy in (OURS, *BASELINES, BOUND)]
    for words, key in (*others, *rival):
        line = side_by_side(f"{contest.name}: {words}", collected, key, contest.key(QUOTA))
        if line is not None:
            yield line


def _slowdown(collected: Collected, contest: Contest, figure: str, words: str) -> Row | None:
    best = _rival(collected, contest)
    ours = values(collected, contest.key(OURS), figure)
    theirs = None if best is None else values(collected, best[0], figure)
    if best is None or ours is None or theirs is None:
        return None
    note = f"{contest.rival}, {best[1]}"
    return compare_means(f"{contest.name}: {words}", theirs, ours, note=note, unit="")


def _note(collected: Collected, words: str, keys: Sequence[str]) -> str:
    """Return the words, and which of the runs left jobs that did not complete: no average knows of them."""
    missing = [
        f"{format_count(count, 'job')} did not complete under {key.split('/')[1]}"
        for key in keys
        if (count := count_unfinished(collected, key))
    ]
    return "; ".join(filter(None, (words, *missing)))


REPRODUCTION: Final = Reproduction(
    name="ours",
    title="specon's own policy, progress, on the workloads of all five papers",
    runs=runs,
    sections=sections,
    printed=False,
    remarks=_REMARKS["general"],
)
