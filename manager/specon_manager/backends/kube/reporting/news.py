"""What one step changed that the owner of a job wants to read, in plain words. Pure."""

from collections.abc import Iterable, Iterator

from specon_manager.backends.kube.objects.annotation_keys import PREFIX, SIDECAR_NAME
from specon_manager.backends.kube.reporting.note import Note
from specon_manager.backends.kube.reporting.transaction_news import words_of_transactions
from specon_manager.core.state import State
from specon_manager.model.actions import MigrateGang
from specon_manager.model.cluster import Replica
from specon_manager.model.events import Event, ReportReceived
from specon_manager.model.standing import UNHEARD_SECONDS
from specon_manager.views.hanging import hang_in_words
from specon_manager.views.words import is_hung
from specon_sidecar.classify import Category


def words_of(before: State, after: State, event: Event | None = None) -> list[Note]:
    """Return what there is to tell after a step from `before` to `after`.

    Only reports change categories: with `event`, other steps look at no replica at all.
    """
    notes = [*_categories(before, after, event), *words_of_transactions(before, after)]
    if after.decisions is not before.decisions:
        notes += _refusals(before, after)
    return notes


def _categories(before: State, after: State, event: Event | None) -> Iterator[Note]:
    if after.replicas is before.replicas:
        return
    names: Iterable[str] = after.replicas
    if event is not None:
        names = (event.report.replica,) if isinstance(event, ReportReceived) else ()
    for name in names:
        replica, former = after.replicas.get(name), before.replicas.get(name)
        if replica is None or replica is former:
            continue
        if replica.progress.hang is not None and is_hung(after, replica) and not _was_hung(before, former):
            yield _hung(replica)
        category = replica.progress.category
        was = Category.UNKNOWN if former is None else former.progress.category
        if category is not was and category is not Category.UNKNOWN:
            yield _category(replica)
        elif _is_not_understood(replica) and (former is None or not _is_not_understood(former)):
            job = after.jobs.get(replica.job)
            if job is None or job.spec.has_to_tell(name):
                yield _not_understood(replica)


def _is_not_understood(replica: Replica) -> bool:
    """Whether its sidecar has read its log for half a minute and found no sample of the training in it."""
    progress = replica.progress
    if (
        progress.category is not Category.UNKNOWN
        or progress.value is not None
        or progress.reported_at is None
    ):
        return False
    return progress.reported_at - progress.category_since >= UNHEARD_SECONDS


def _not_understood(replica: Replica) -> Note:
    words = replica.progress.reason or (
        f"no sample of its training was found in its log for {UNHEARD_SECONDS:g} s; look at the log of its "
        f"container {SIDECAR_NAME}, and set {PREFIX}log-path, {PREFIX}format or {PREFIX}pattern"
    )
    text = f"its log is not understood: {words}"
    return Note(replica=replica.name, reason="NotUnderstood", action="Observe", text=text, warning=True)


def _was_hung(before: State, former: Replica | None) -> bool:
    return former is not None and is_hung(before, former)


def _hung(replica: Replica) -> Note:
    """Return that a replica hangs: without the lines of its log, which not all who read events may see."""
    words = hang_in_words(replica.progress)
    return Note(
        replica=replica.name, reason="Hung", action="Observe", text=f"it hangs: {words}", warning=True
    )


def _category(replica: Replica) -> Note:
    progress = replica.progress
    category = progress.category
    step = "" if progress.step is None else f" at step {progress.step}"
    why = f": {progress.reason}" if progress.reason else ""
    return Note(
        replica=replica.name,
        reason="".join(part.capitalize() for part in category.value.split("-")),
        action="Classify",
        text=f"{category.value.replace('-', ' ')}{step}{why}",
        warning=category in {Category.STALLED, Category.DIVERGING},
    )


def _refusals(before: State, after: State) -> Iterator[Note]:
    """Yield why converged replicas and gangs stay, each kind of reason once."""
    latest = before.decisions[-1] if before.decisions else None
    fresh = []
    for decision in reversed(after.decisions):
        if decision is latest:
            break
        fresh.append(decision)
    for decision in reversed(fresh):
        job = after.jobs.get(decision.replica)
        whole = job is not None and decision.proposal.startswith(MigrateGang.__name__)
        lead = job.spec.worker_names[0] if job is not None and whole else decision.replica
        replica = after.replicas.get(lead)
        if decision.refusal is None or replica is None:
            continue
        if replica.progress.category is not Category.CONVERGED:
            continue
        former = before.verdicts.get(decision.replica)
        if former is None or former.refusal is not decision.refusal:
            yield Note(
                replica=decision.replica,
                reason="NotMoved",
                action="Decide",
                text=f"{decision.proposal}: not ordered ({decision.refusal.value}): {decision.reason}",
                topic=decision.refusal.value,
                whole=whole,
            )
