"""What a manager that only looks would have done, and what would have stood against it. Pure."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from specon_manager.core.state import State
from specon_manager.model.actions import Decision, Refusal
from specon_manager.model.cluster import Phase
from specon_manager.views.holding import Holding
from specon_manager.views.names import job_label, printable, replica_label
from specon_manager.views.times import iso
from specon_sidecar.classify import Category
from specon_sidecar.counts import format_count

_HOUR: Final = 3600.0
_SHOWN: Final = 20
_MOST: Final = 10_000  # of each kind that are kept
_IMPOSED: Final = "Stay"


class WouldBe(Struct, frozen=True, kw_only=True):
    """One thing that would have been ordered."""

    at: str | None
    about: str
    what: str


class Against(Struct, frozen=True, kw_only=True):
    """What would have stood against proposals, by the word for it."""

    refusal: str
    jobs: int
    """How many replicas and jobs it concerned."""
    example: str


class FirstLook(Struct, frozen=True, kw_only=True):
    """The report; the fields of `specon observe --output json`."""

    seconds: float
    nodes: int
    replicas: int
    """Replicas that ran at some time."""
    categories: Mapping[str, int]
    """Number of running replicas by category."""
    converged_cpu_hours: float
    """Processors that replicas held while they were converged."""
    converged_gpu_hours: float
    cpu_hours: float
    """Processors that all observed replicas held."""
    gpu_hours: float
    would: tuple[WouldBe, ...]
    against: tuple[Against, ...]


class Looking:
    """Takes what happened step by step, and says what it came to."""

    def __init__(self, began: float) -> None:
        """Begin at `began`, seconds on the manager's clock."""
        self._holding = Holding(began)
        self._would: dict[tuple[str, str], WouldBe] = {}
        self._against: dict[str, dict[str, str]] = {}

    def observe(self, before: State, after: State, now: float) -> None:
        """Take one step that ended at `now`."""
        self._holding.observe(before, after, now)
        if after.verdicts is before.verdicts:
            return
        for name, decision in after.verdicts.items():
            if before.verdicts.get(name) is not decision:
                self._take(after, decision)

    def _take(self, state: State, decision: Decision) -> None:
        about = decision.replica
        label = job_label(about) if about in state.jobs else replica_label(state, about)
        if decision.refusal is Refusal.DRY_RUN:
            if not decision.proposal.startswith(_IMPOSED):
                what = printable(decision.reason.removeprefix("would be ordered: "))
                would = WouldBe(at=iso(decision.at), about=label, what=what)
                self._would.setdefault((about, decision.proposal), would)
                for old in list(self._would)[:-_MOST]:
                    del self._would[old]
        elif decision.refusal is not None:
            found = self._against.setdefault(str(decision.refusal), {})
            if len(found) < _MOST:
                found[label] = printable(decision.reason)

    def report(self, state: State, now: float) -> FirstLook:
        """Return what it came to so far; `now` is seconds on the manager's clock."""
        self._holding.account(state, now)
        held = self._holding.held
        running = [each for each in state.replicas.values() if each.phase is Phase.RUNNING]
        categories = dict.fromkeys((str(category) for category in Category), 0)
        for replica in running:
            categories[str(replica.progress.category)] += 1
        return FirstLook(
            seconds=now - self._holding.began,
            nodes=len(state.nodes),
            replicas=len(self._holding.seen),
            categories={name: count for name, count in categories.items() if count},
            converged_cpu_hours=held.converged.cpu / _HOUR,
            converged_gpu_hours=held.converged.gpu / _HOUR,
            cpu_hours=held.all.cpu / _HOUR,
            gpu_hours=held.all.gpu / _HOUR,
            would=tuple(self._would.values()),
            against=tuple(
                Against(refusal=refusal, jobs=len(found), example=": ".join(next(iter(found.items()))))
                for refusal, found in sorted(self._against.items(), key=lambda item: -len(item[1]))
            ),
        )


def describe_look(look: FirstLook) -> list[str]:
    """Return the report as lines for people."""
    lines = [
        f"{format_count(look.replicas, 'replica')} on {format_count(look.nodes, 'node')},"
        f" looked at for {look.seconds / 60:.0f} min: "
        + (", ".join(f"{count} {name}" for name, count in look.categories.items()) or "none runs now"),
        f"Converged jobs held {look.converged_cpu_hours:.2f} of {look.cpu_hours:.2f} CPU hours"
        + (f" and {look.converged_gpu_hours:.2f} of {look.gpu_hours:.2f} GPU hours" if look.gpu_hours else "")
        + ".",
    ]
    if look.would:
        lines.append(f"Would have been ordered ({len(look.would)}):")
        lines += [f"  {each.at or ''}  {each.about}: {each.what}" for each in look.would[:_SHOWN]]
        if len(look.would) > _SHOWN:
            lines.append(f"  and {len(look.would) - _SHOWN} more: --output json has all of them")
    else:
        lines.append("Nothing would have been ordered so far.")
    if look.against:
        lines.append("Reasons that would have forbidden more orders:")
        lines += [f"  {each.refusal} ({each.jobs}): {each.example}" for each in look.against]
    return lines
