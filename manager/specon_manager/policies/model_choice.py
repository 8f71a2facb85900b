"""On which model of accelerators a job starts, of those on which its kind was measured.

The fastest that has room; a slower one where the next that waits gains more from the fast one. Where nothing
was measured nothing is chosen here. Gavel compares jobs by the ratio of their paces, too (Narayanan et al.,
"Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads", OSDI 2020).
"""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Final

from specon_manager.model.cluster import Job, Replica
from specon_manager.model.paces import ENOUGH, Pace, saving
from specon_manager.model.resources import least_of
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.backfill import Gang, PlacedForReason, gang_of
from specon_manager.policies.idle import Idle
from specon_manager.policies.packing import place_tightly
from specon_manager.policies.preemption.queues import Queued

_SEARCHES: Final = 32
"""How often room for a gang is looked for on some models alone, in one call."""
Paces = Mapping[str, Pace]
"""By model, the quickest that was measured with as many workers as a job asks for."""


class ModelChoice:
    """Chooses for the jobs that wait in one call, in their order."""

    def __init__(self, snapshot: Snapshot, waiting: Sequence[Queued]) -> None:
        self._snapshot, self._waiting, self._searches = snapshot, waiting, 0

    def choose(self, gang: Gang, idle: Idle) -> PlacedForReason | None:
        """Take room for a gang on the model that it is to have, and say why; None: no reason to choose."""
        paces = self._paces(gang.job)
        tiers = _tiers(paces)
        if len(tiers) < 2:  # noqa: PLR2004  (no model is surely faster than another)
            return None
        roomy = list[tuple[str, dict[str, str]]]()
        for number, tier in enumerate(tiers):
            # Nobody knows that an unmeasured model is slow, and so it is found out.
            others = self._models - paces.keys() if number == 1 else set[str]()
            placement = self._place(gang, idle, {*tier, *others})
            if placement is not None:
                roomy.append((self._model_of(placement), placement))
            if len(roomy) > 1:
                break
        if not roomy:
            return None
        model, placement = roomy[0]
        why = f"with {model or 'unlike models'}: none with room was measured to be faster for its kind"
        if len(roomy) > 1 and (other := self._who_gains_more(gang, idle, roomy, paces)) is not None:
            fast, (model, placement) = model, roomy[1]
            why = f"with {model}, since {other} gains more from {fast}"
        taken = idle.place_at(_starting(gang), placement)
        return None if taken is None else (taken, why)

    def _who_gains_more(
        self, gang: Gang, idle: Idle, roomy: Sequence[tuple[str, dict[str, str]]], paces: Paces
    ) -> str | None:
        """Return the next job of its queue where that saves more on the fast model, and needs its room."""
        (fast, taken), (slow, _) = roomy
        other = self._next(gang.job)
        theirs = {} if other is None else self._paces(other)
        if other is None or not {fast, slow} <= paces.keys() or not {fast, slow} <= theirs.keys():
            return None
        if saving(theirs[slow], theirs[fast]) <= saving(paces[slow], paces[fast]):
            return None
        after = idle.copy()
        after.place_at(_starting(gang), taken)
        follows = gang_of(other, self._snapshot)
        fits = self._place(follows, idle, {fast}) is not None and self._place(follows, after, {fast}) is None
        return other.name if fits else None

    def _next(self, job: Job) -> Job | None:
        """Return who waits behind it in the same queue."""
        behind = False
        for each in self._waiting:
            if behind and each.job.spec.queue == job.spec.queue:
                return each.job
            behind = behind or each.job.name == job.name
        return None

    def _paces(self, job: Job) -> Paces:
        known = self._snapshot.setup_paces.get(job.pace_kind)
        found = dict[str, Pace]()
        if known is None or not job.spec.requests.gpu:
            return found
        for pace in known.paces:
            model = pace.setup.accelerator
            if not model or pace.samples < ENOUGH or pace.setup.workers != job.spec.wanted_workers:
                continue
            if model not in found or pace.seconds < found[model].seconds:
                found[model] = pace
        return found

    def _place(self, gang: Gang, idle: Idle, models: Collection[str]) -> dict[str, str] | None:
        """Return where the gang has room on nodes with these models, as tightly as may be; take nothing."""
        starting = _starting(gang)
        fitting = idle.fitting(least_of(each.requests for each in starting))
        if len(starting) == 1:
            found = [node for node in fitting if self._suits(node, gang.job, models)]
            best = min(found, key=lambda node: _measure_rest(node, starting[0], idle), default=None)
            return None if best is None else {starting[0].name: best}
        if self._searches >= _SEARCHES:
            return None
        self._searches += 1
        within = idle.copy()
        for node in fitting:  # on the others there is no room for any of it
            if not self._suits(node, gang.job, models):
                within.take(node, within.open(node))
        return place_tightly(gang.servers, gang.workers, gang.least, within)

    def _suits(self, node: str, job: Job, models: Collection[str]) -> bool:
        snapshot = self._snapshot
        return snapshot.nodes[node].accelerator in models and snapshot.objection_to(node, job.name) is None

    def _model_of(self, placement: Mapping[str, str]) -> str:
        models = {self._snapshot.nodes[node].accelerator for node in placement.values()}
        return models.pop() if len(models) == 1 else ""

    @cached_property
    def _models(self) -> set[str]:
        return {node.accelerator for node in self._snapshot.ready_nodes}


def _starting(gang: Gang) -> list[Replica]:
    return [*gang.servers, *gang.workers[: gang.least]]


def _measure_rest(node: str, replica: Replica, idle: Idle) -> float:
    """Return what would stay free, as shares of the node: nothing where the first that fits is taken."""
    if idle.choice == "first-fit":
        return 0.0
    return sum((idle.open(node) - replica.requests).shares(idle.capacity[node]))


def _tiers(paces: Paces) -> list[list[str]]:
    """Return the models in groups, the fastest first: those that are not surely slower than its best."""
    left = sorted(paces, key=lambda model: (paces[model].seconds, model))
    tiers = []
    while left:
        best = paces[left[0]]
        tiers.append([model for model in left if saving(paces[model], best) <= 0])
        left = [model for model in left if model not in tiers[-1]]
    return tiers
