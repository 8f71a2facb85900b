"""What happened between two states, one plain line each: for logs, pipes and terminals that are none.

Only ASCII is added to the names and reasons that others gave.
"""

from collections.abc import Iterator

from specon_manager.core.state import State
from specon_manager.model.actions import Decision
from specon_manager.model.cluster import Job, Phase, Replica
from specon_manager.model.transactions import Transaction
from specon_manager.views.decisions import proposal_text
from specon_manager.views.hanging import hang_in_words
from specon_manager.views.names import job_label, printable, replica_label
from specon_manager.views.transaction_words import killed_words
from specon_manager.views.transactions import row_of, row_of_request
from specon_sidecar.counts import format_count

Happening = tuple[float, str]
"""When it happened, on the clock of the manager, and its words."""


def happenings(before: State, after: State, *, began: float, now: float, verbose: bool = False) -> list[str]:
    """Return one line for each, oldest first, each beginning with the seconds since `began`.

    `began` and `now` are on the clock of the manager; what the state keeps no moment of has the time
    `now`. Refused proposals are told only when `verbose`.
    """
    found = [
        *_nodes(before, after, now),
        *_list_submitted(before, after),
        *_list_decided(before, after, verbose=verbose),
        *_replicas(before, after, now),
        *_transactions(before, after, now),
        *_requests(before, after, now),
        *_jobs_ended(before, after),
    ]
    found.sort(key=lambda happening: happening[0])  # stable: of one moment in the order above
    return [f"[{at - began:7.1f}s] {printable(text)}" for at, text in found]


def _nodes(before: State, after: State, now: float) -> Iterator[Happening]:
    for name, node in after.nodes.items():
        known = before.nodes.get(name)
        if known is None:
            yield (
                now,
                f"node {name}: {format_count(node.capacity.cpu, 'CPU')}"
                + ("" if node.ready else ", not ready"),
            )
        elif known.ready != node.ready:
            yield now, f"node {name}: {'ready again' if node.ready else 'not ready'}"


def _list_submitted(before: State, after: State) -> Iterator[Happening]:
    if before.jobs is after.jobs:
        return
    for name, job in after.jobs.items():
        if name not in before.jobs:
            count = len(job.spec.replicas)
            yield (
                job.submitted_at,
                f"{job_label(name)} submitted" + (f", {format_count(count, 'replica')}" * (count != 1)),
            )


def _list_decided(before: State, after: State, *, verbose: bool) -> Iterator[Happening]:
    for decision in _new_decisions(before, after):
        if decision.refusal is None or verbose:
            outcome = "accepted" if decision.refusal is None else f"refused ({decision.refusal})"
            label = replica_label(after, decision.replica)
            yield decision.at, f"{label}: {proposal_text(decision.proposal)} {outcome}: {decision.reason}"


def _new_decisions(before: State, after: State) -> tuple[Decision, ...]:
    """Return the decisions since; the state keeps only the latest, so the last one known may be gone."""
    if before.decisions is after.decisions or not before.decisions:
        return () if before.decisions is after.decisions else after.decisions
    last = before.decisions[-1]
    for index in range(len(after.decisions) - 1, -1, -1):
        if after.decisions[index] == last:
            return after.decisions[index + 1 :]
    return after.decisions


def _replicas(before: State, after: State, now: float) -> Iterator[Happening]:
    if before.replicas is after.replicas:
        return
    for name, replica in after.replicas.items():
        known = before.replicas.get(name) or Replica(name=name, job=replica.job)
        if known is replica:
            continue
        label = replica_label(after, name)
        job = after.jobs.get(replica.job)
        if replica.phase is Phase.RUNNING and replica.incarnation != known.incarnation:
            yield (
                now,
                f"{label} started on {replica.node}" + (f", start {replica.starts}" * (replica.starts > 1)),
            )
        if replica.progress.category is not known.progress.category:
            yield now, _category(label, known, replica)
        elif _is_not_understood(replica, job) and replica.progress.reason != known.progress.reason:
            yield now, f"{label}: {replica.progress.reason}"
        if (replica.progress.hang is None) is not (known.progress.hang is None):
            what = hang_in_words(replica.progress, now)
            yield now, f"{label} hangs: {what}" if what else f"{label} hangs no more"
        if replica.crashes > known.crashes:
            yield now, f"{label} crashed: {replica.note or 'nobody knows why'}" + _afterwards(replica, now)
        if replica.ended and not known.ended and (job is None or len(job.spec.replicas) > 1):
            at = now if replica.ended_at is None else replica.ended_at
            yield at, f"{label} {'finished' if replica.phase is Phase.SUCCEEDED else 'failed'}"


def _is_not_understood(replica: Replica, job: Job | None) -> bool:
    """Whether nothing is known of its training where its log has to tell that, and its sidecar says why."""
    progress = replica.progress
    silent = progress.metric is None and progress.step is None and bool(progress.reason)
    return silent and (job is None or job.spec.has_to_tell(replica.name))


def _category(label: str, known: Replica, replica: Replica) -> str:
    progress = replica.progress
    step = "" if progress.step is None else f" at step {progress.step}"
    reason = f": {progress.reason}" if progress.reason else ""
    return f"{label} {known.progress.category} -> {progress.category}{step}{reason}"


def _afterwards(replica: Replica, now: float) -> str:
    if replica.ended or not replica.not_before:
        return ""
    return f"; it may start again in {max(0.0, replica.not_before - now):.1f} s"


def _transactions(before: State, after: State, now: float) -> Iterator[Happening]:
    if before.transactions is after.transactions and before.history is after.history:
        return
    known = {each.id: each for each in (*before.history, *before.transactions.values())}
    for each in (*after.history, *after.transactions.values()):
        last = known.get(each.id)
        if last is None or _stands(last) != _stands(each):
            yield now if each.ended_at is None else each.ended_at, _come_to(after, each, last)


def _come_to(state: State, transaction: Transaction, last: Transaction | None) -> str:
    """Return how far a transaction has come: with its reason first, with its cost in the end."""
    row = row_of(transaction, state)
    words = f"{row.id}: {row.label} {row.what} {row.state}"
    words += ", going back" if row.attempt > 1 and not row.ended else ""
    facts = [f"stuck: {row.stuck}"] if row.stuck else []
    if row.ended:
        facts += [] if transaction.downtime is None else [f"downtime {transaction.downtime:.1f} s"]
        facts += (
            [] if transaction.steps_lost is None else [f"{format_count(transaction.steps_lost, 'step')} lost"]
        )
        facts += [killed_words(row.killed)] if row.killed else []
    elif last is not None and row.checkpoint_step is not None:
        facts += [f"checkpoint of step {row.checkpoint_step}"]
    facts += [row.reason] if last is None and not row.ended and row.reason else []
    facts += [row.note] if row.note else []
    return words + (f": {', '.join(facts)}" if facts else "")


def _stands(transaction: Transaction) -> tuple[str, int, bool]:
    return transaction.state, transaction.attempt, bool(transaction.stuck)


def _requests(before: State, after: State, now: float) -> Iterator[Happening]:
    if before.requests is after.requests:
        return
    for name, request in after.requests.items():
        if name not in before.requests:
            row = row_of_request(request, after)
            yield now, f"{row.id}: {row.label} {row.what} {row.state}: {row.awaited}"


def _jobs_ended(before: State, after: State) -> Iterator[Happening]:
    if before.jobs is after.jobs:
        return
    for name, job in after.jobs.items():
        known = before.jobs.get(name)
        if job.ended_at is not None and (known is None or known.ended_at is None):
            how = "failed" if _has_failed(after, job) else "finished"
            yield (
                job.ended_at,
                f"{job_label(name)} {how}, {job.ended_at - job.submitted_at:.1f} s after its submission",
            )


def _has_failed(state: State, job: Job) -> bool:
    replicas = (state.replicas.get(name) for name in job.spec.replicas)
    return any(replica is not None and replica.phase is Phase.FAILED for replica in replicas)
