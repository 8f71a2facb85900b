"""The faults of a manager and its jobs, with evidence and advice, the likeliest first. Pure.

What stands against a move is asked of `model/standing.py`, as policies and the plan ask it, and what hangs of
`model/hanging.py`: nothing is judged twice.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal

from msgspec import Struct

from specon_manager.model.actions import Refusal
from specon_manager.model.cluster import Job, Phase, Replica
from specon_manager.model.snapshot import Snapshot
from specon_manager.model.standing import move_objection
from specon_manager.model.transactions import TransactionState
from specon_manager.views.amounts import span_text
from specon_manager.views.hanging import hang_in_words
from specon_manager.views.names import cut, job_label, replica_label
from specon_manager.views.times import seconds_since
from specon_manager.views.transactions import TransactionRow
from specon_manager.views.view import View
from specon_manager.views.words import is_hung
from specon_sidecar.classify import Category
from specon_sidecar.counts import format_count, format_times

FindingKind = Literal[
    "no-manager",
    "file",
    "paused",
    "versions",
    "crashed",
    "no-sidecar",
    "silent",
    "log-not-read",
    "format-unknown",
    "helper-silent",
    "hangs",
    "stuck",
    "move-failed",
    "no-steps",
    "no-checkpoint",
    "stays-unknown",
    "stays-watching",
    "waits",
    "not-moved",
    "dry-run",
    "nothing-moves",
]
"""What can be wrong, the likeliest first."""
_ORDER: Final[tuple[str, ...]] = FindingKind.__args__  # type: ignore[attr-defined]
_FIRST_REPORT: Final = 60.0
_SILENT: Final = 180.0  # a TrainingProgress is written once a minute
_UNKNOWN: Final = 300.0
_WATCHING: Final = 3600.0
_NO_CHECKPOINT: Final = 600.0
_FIRST_SAVE: Final = 30.0
"""Seconds that a trainer may take for the first checkpoint it is asked for."""
_READING: Final = (
    "no log at ",
    "no log in ",
    "cannot be read",
    " is empty",
    "was added to",
    "no line with an end",
    "no scalar",
)
"""What sidecars say of a log in which there is nothing to be read."""
_HELPER: Final = "helper"
_UNHEARD: Final = "the trainer's helper never reported"
_ENDED_BADLY: Final = frozenset({"RolledBack", "Failed", "Refused"})
_SIDECAR_LOG: Final = (
    "look into the sidecar's log: kubectl logs POD -c specon-sidecar, of a manager of this machine "
    "replicas/NAME/incarnations/*/sidecar.log in its directory"
)


class Finding(Struct, frozen=True, kw_only=True):
    """Something that is wrong, or that explains why nothing happens."""

    kind: FindingKind
    about: str
    """The job or replica, as people call it; empty: the manager."""
    what: str
    evidence: tuple[str, ...]
    advice: str
    wrong: bool = True
    """Whether something has to be mended; else it is as its owner wanted, or takes its time."""


def findings(
    view: View,
    *,
    job: str | None,
    versions: Mapping[str, str],
    here: str,
    logs: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> tuple[Finding, ...]:
    """Return the faults of one job, or of the manager and all of its jobs, the likeliest first.

    `versions` are those at work there, by component; `here` is that of this command.
    `logs` has the last lines of the logs of replicas that crashed, where they can be read.
    """
    found = [*_of_manager(view), *_of_versions(versions, here)]
    chosen = [each for each in view.state.jobs.values() if job in {None, each.name}]
    for each in chosen:
        found += _of_job(view, each, logs)
    if job is None and not any(finding.wrong for finding in found):
        found += _nothing_moves(view)
    return tuple(sorted(found, key=lambda each: (not each.wrong, _ORDER.index(each.kind), each.about)))


def _of_manager(view: View) -> Iterator[Finding]:
    state = view.state
    if not view.answers:
        over = bool(state.jobs) and all(job.ended_at is not None for job in state.jobs.values())
        yield Finding(
            kind="no-manager",
            about="",
            what="no manager is at work" + (", and all jobs have ended" if over else ": nothing is decided"),
            wrong=not over,
            evidence=view.caveats,
            advice="specon local FILE --fresh runs its jobs again"
            if over
            else "start it again (specon local FILE, or the chart's Deployment): it goes on where it was",
        )
    if state.pause is not None:
        since = span_text(view.now - state.pause.since) if state.pause.since else ""
        yield Finding(
            kind="paused",
            about="",
            what="the manager is paused: nothing new is ordered" + (f", for {since}" if since else ""),
            evidence=(f"reason: {cut(state.pause.reason) or 'none was given'}",),
            advice="specon resume ends the pause",
        )
    if state.settings.dry_run:
        yield Finding(
            kind="dry-run",
            about="",
            what="the manager judges and orders nothing: dry run",
            evidence=("settings.dry_run is true",),
            advice="set dry_run: false, or look at what it would do: specon explain JOB",
            wrong=False,
        )


def _of_versions(versions: Mapping[str, str], here: str) -> Iterator[Finding]:
    other = {what: version for what, version in versions.items() if version != here}
    if other:
        yield Finding(
            kind="versions",
            about="",
            what="versions differ",
            evidence=(
                f"this specon: {here}",
                *(f"{cut(what)}: {cut(each)}" for what, each in sorted(other.items())),
            ),
            advice="use the same version everywhere: sidecars get theirs when their pods are created again",
        )


def _of_job(view: View, job: Job, logs: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    state = view.state
    snapshot = state.snapshot(view.now)
    if job.ended_at is None:
        yield from _of_waiting(view, job)
        yield from _of_moves([row for row in view.transactions if row.job == job.name])
    known = [state.replicas[name] for name in job.spec.replicas if name in state.replicas]
    for replica in known:
        label = replica_label(state, replica.name)
        if replica.crashes or replica.phase is Phase.FAILED:
            yield _find_crash(replica, label, logs.get(replica.name, ()))
        if replica.phase is not Phase.RUNNING:
            continue
        unheard = _unheard(view, job, replica, label)
        if unheard is not None:
            yield unheard
        elif job.spec.has_to_tell(replica.name):
            if is_hung(state, replica):
                yield _hangs(view, replica, label)
            yield from _of_training(view, job, replica, label)
            yield from _against_moves(job, replica, snapshot, label)


def _of_waiting(view: View, job: Job) -> Iterator[Finding]:
    waiting = next((row for row in view.waiting if row.job == job.name), None)
    if waiting is not None:
        since = f" since {waiting.since}" if waiting.since else ""
        yield Finding(
            kind="waits",
            about=job_label(job.name),
            what=f"it waits to be started{since}, at position {waiting.position}",
            evidence=(cut(f"{waiting.kind}: {waiting.text}" if waiting.kind else waiting.text),),
            advice="specon queue shows who is before it; specon explain says when it may start",
            wrong=False,
        )


def _of_moves(rows: Collection[TransactionRow]) -> Iterator[Finding]:
    for row in rows:
        if row.stuck:
            yield Finding(
                kind="stuck",
                about=row.label,
                what=f"{row.id} cannot come to an end: {row.what}",
                evidence=(cut(row.stuck),),
                advice="docs/runbooks.md#specontransactionstuck: a pod does not go, or a node is lost",
            )
    last = next((row for row in reversed(list(rows)) if row.ended), None)
    if last is not None and last.state in _ENDED_BADLY:
        yield Finding(
            kind="move-failed",
            about=last.label,
            what=f"its last move or change, {last.id}, ended as {last.state}: {last.what}",
            evidence=(cut(last.note) or "no reason is on record",),
            advice="docs/runbooks.md#a-move-failed; it is tried again after a pause",
        )


def _find_crash(replica: Replica, label: str, lines: Sequence[str]) -> Finding:
    over, again = replica.phase is Phase.FAILED, replica.phase is Phase.RUNNING
    times = format_times(replica.crashes)
    advice = "mend what its log says, then start it again"
    if not lines:
        advice = "read the end of its log: specon explain shows it if it is on this machine"
    elif again:
        advice = "if it crashes again: the cause stands in its log, before the lines of its present run"
    return Finding(
        kind="crashed",
        about=label,
        what=f"it crashed {times}" + (", and is not started again" if over else ", and runs again" * again),
        # The first line is the path. What a log says last of one that runs again is not how it crashed.
        evidence=(cut(replica.note) or "nobody knows why", *map(cut, lines[:1] if again else lines)),
        advice=advice,
        wrong=not again,
    )


def _unheard(view: View, job: Job, replica: Replica, label: str) -> Finding | None:
    """Return that a replica runs and its sidecar says nothing."""
    heard = replica.progress.reported_at
    runs = view.now - (job.trains_since or job.submitted_at)
    if heard is None and runs > _FIRST_REPORT:
        return Finding(
            kind="no-sidecar",
            about=label,
            what="it runs, and no sidecar has reported",
            evidence=(
                f"running on {replica.node or 'an unknown node'} for up to {span_text(runs)}, no report",
            ),
            advice='was the pod created with specon.io/inject: "true", after specon was installed? '
            f"Else {_SIDECAR_LOG}",
        )
    if heard is not None and view.answers and view.now - heard > _SILENT:
        return Finding(
            kind="silent",
            about=label,
            what=f"its sidecar has said nothing for {span_text(view.now - heard)}",
            evidence=(f"last report: {replica.progress.category} at step {replica.progress.step}",),
            advice=f"the sidecar ended, or cannot reach the manager; {_SIDECAR_LOG}",
        )
    return None


def _hangs(view: View, replica: Replica, label: str) -> Finding:
    hang = replica.progress.hang
    lines = () if hang is None else tuple(cut(line) for line in hang.lines)
    return Finding(
        kind="hangs",
        about=label,
        what="its steps have stopped while its processes wait",
        evidence=(cut(hang_in_words(replica.progress, view.now)), *lines),
        advice="docs/how-it-works.md#a-job-that-hangs; specon.io/on-hang: restart (or on_hang) restarts it",
    )


def _of_training(view: View, job: Job, replica: Replica, label: str) -> Iterator[Finding]:
    """Yield the faults in the readings of a replica that reports."""
    progress, reason = replica.progress, cut(replica.progress.reason)
    told = (reason,) if reason else ("its sidecar gives no reason",)
    if _UNHEARD in progress.reason and (progress.metric is not None or progress.step is not None):
        kind, what, advice = _unread(_HELPER)
        yield Finding(kind=kind, about=label, what=what, evidence=told, advice=advice)
    if progress.metric is None and progress.step is None:
        kind, what, advice = _unread(progress.reason)
        yield Finding(kind=kind, about=label, what=what, evidence=told, advice=advice)
    elif progress.category is Category.NOT_CLASSIFIABLE:
        yield Finding(
            kind="format-unknown",
            about=label,
            what="its log is read, and cannot be judged",
            evidence=told,
            advice="name a metric (specon.io/metric, or metric): specon classify LOG advises which",
        )
    else:
        lasts = view.now - progress.category_since if progress.category_since else 0.0
        if progress.category is Category.UNKNOWN and lasts > _UNKNOWN:
            yield _stays("stays-unknown", label, lasts, told)
        if progress.category is Category.WATCHING and lasts > _WATCHING:
            yield _stays("stays-watching", label, lasts, told)
    runs = view.now - (job.trains_since or job.submitted_at)
    # It could be moved now, or a move of it has waited for its first checkpoint for a while.
    wanted = progress.category is Category.CONVERGED or _asked_to_save(view, job, replica)
    due = runs > _NO_CHECKPOINT or wanted
    if job.spec.checkpointing != "none" and progress.checkpoint is None and due:
        yield Finding(
            kind="no-checkpoint",
            about=label,
            what="no checkpoint of it has been seen",
            evidence=(f"it trains for up to {span_text(runs)}, at step {progress.step}",),
            advice="name the folder that it saves to (specon.io/checkpoint-path, or checkpoint_path); "
            "docs/logs-and-checkpoints.md has the formats",
        )


def _asked_to_save(view: View, job: Job, replica: Replica) -> bool:
    rows = [row for row in view.transactions if row.job == job.name and row.replica in {None, replica.name}]
    asked = [row.proposed_at for row in rows if row.state == TransactionState.CHECKPOINTING]
    return any(at is not None and seconds_since(at, view.now) > _FIRST_SAVE for at in asked)


def _unread(reason: str) -> tuple[FindingKind, str, str]:
    if _HELPER in reason:
        advice = "docs/how-to/frameworks.md, Why does nothing happen?; a log can be named beside it"
        return "helper-silent", "the trainer never reported through the helper", advice
    if any(words in reason for words in _READING):
        advice = "name the log (specon.io/log-path, log in a job file): specon init looks for it"
        return "log-not-read", "its log is not read", advice
    advice = "specon classify LOG says how it could be read, and prints a pattern that was tried"
    return "format-unknown", "nothing in its log is understood", advice


def _stays(kind: FindingKind, label: str, lasts: float, told: tuple[str, ...]) -> Finding:
    advice = {
        "stays-unknown": "print the loss more often, or shorten the interval; a log that prints its "
        "number of steps is judged better",
        "stays-watching": "it has nearly converged; docs/runbooks.md#nothing-moves if that lasts",
    }[kind]
    what = f"it is {kind.removeprefix('stays-')} for {span_text(lasts)}"
    return Finding(
        kind=kind, about=label, what=what, evidence=told, advice=advice, wrong=kind == "stays-unknown"
    )


def _against_moves(job: Job, replica: Replica, snapshot: Snapshot, label: str) -> Iterator[Finding]:
    """Yield what rules a move out, whatever it would gain; one that trains as one is asked about once."""
    against = move_objection(replica, snapshot)
    if against is None or against.refusal in {Refusal.IN_FLIGHT, Refusal.COOLDOWN, Refusal.JUST_STARTED}:
        return
    progress = replica.progress
    if against.refusal is Refusal.NO_STEPS and (progress.metric is not None or progress.step is not None):
        yield Finding(
            kind="no-steps",
            about=label,
            what="it is watched, and never moved: a resume could not be proven",
            evidence=(cut(against.text),),
            advice="print the step beside the loss, or read it: a pattern with (?P<step>...)",
        )
    elif (
        against.refusal is not Refusal.NO_STEPS and snapshot.nodes
    ):  # without nodes nobody has seen its owner
        yield Finding(
            kind="not-moved",
            about=label,
            what="nothing moves it",
            evidence=(cut(f"{against.refusal}: {against.text}"),),
            advice=f"specon explain {job_label(job.name)} has all decisions on it",
            wrong=False,
        )


def _nothing_moves(view: View) -> Iterator[Finding]:
    """Yield why nothing was ever moved where nothing is wrong."""
    state = view.state
    if any(row.is_move for row in view.transactions):
        return
    running = [each for each in state.replicas.values() if each.phase is Phase.RUNNING]
    converged = [each for each in running if each.progress.category is Category.CONVERGED]
    ready = [node for node in state.nodes.values() if node.ready]
    refused = [each for each in state.verdicts.values() if each.refusal is not None]
    if not running:
        what, evidence = "nothing trains", f"jobs that are known: {len(state.jobs)}"
    elif state.nodes and len(ready) < 2:  # noqa: PLR2004 - from one node to another
        what, evidence = "there is no other node to move to", f"nodes that are ready: {len(ready)}"
    elif not converged:
        what, evidence = (
            "no job has converged yet: there is nothing to move",
            f"replicas that train: {len(running)}",
        )
    elif refused:
        last = max(refused, key=lambda each: each.at)
        what, evidence = "no move was worth its cost", f"{last.replica}: {last.refusal}: {last.reason}"
    else:
        what = "converged jobs are in nobody's way"
        evidence = f"{len(converged)} of {format_count(len(running), 'running replica')} converged"
    advice = "specon explain JOB has the decisions; docs/how-it-works.md says when one is made"
    yield Finding(
        kind="nothing-moves", about="", what=what, evidence=(cut(evidence),), advice=advice, wrong=False
    )
