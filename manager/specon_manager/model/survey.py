"""Counts over all replicas, kept from one look at the cluster to the next.

Invariant: `survey_records(...)` always tells the same as `Survey.of(...)`, which looks at every replica. This
module keeps the last counts, as a cache does, and counts only the records that differ since. That takes
time in proportion to the changed part of the cluster. No answer depends on who asked before.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from specon_manager.model.census import Census, take_census
from specon_manager.model.cluster import Phase, Replica
from specon_manager.model.overlay import flat
from specon_manager.model.renewal import Positions, merge_names, positions, renew, tell_touched
from specon_manager.model.transactions import Transaction
from specon_sidecar.classify import Category

_MANY: Final = 0.5
"""Where so large a part has changed it is quicker to look at every replica."""

Movers = Mapping[str, Transaction]
"""The transaction in flight of each replica that is in one."""

Settled = tuple[float, int, str, str]
"""Since when a replica has converged, its position among the records, its name, and where it is."""


class Survey:
    """What one look at every replica tells, by names: a report alone changes none of it."""

    __slots__ = (
        "_among",
        "_settled",
        "active",
        "census",
        "moving",
        "on_node",
        "pending",
        "position",
        "pressing",
        "replicas",
    )

    def __init__(self, replicas: Mapping[str, Replica], moving: Movers, position: Positions) -> None:
        self.replicas = replicas
        self.moving = moving
        self.position = position
        self.on_node: dict[str, tuple[str, ...]] = {}
        """The replicas that hold room on each node once all in flight has succeeded, in that order."""
        self.census: dict[str, Census] = {}
        """The same, counted; there is none of a node with nothing on it."""
        self._settled: list[Settled] = []
        self._among: dict[str, Settled | None] | None = {}
        """Who may have settled since `_settled` was true, or be settled no more, each with its entry there.

        None: too many.
        """
        self.pending: tuple[str, ...] = ()
        """Those that wait, in the order of the records."""
        self.pressing: tuple[str, ...] = ()
        """Those for which time counts: told to end, missing, or started and not seen; in that order."""
        self.active: dict[str, int] = {}
        """How many replicas of each job occupy nodes."""

    @classmethod
    def of(cls, replicas: Mapping[str, Replica], moving: Movers) -> "Survey":
        """Look at every replica."""
        found = cls(replicas, moving, positions(replicas))
        found._take()
        found._among = None
        return found

    @property
    def settled(self) -> list[Settled]:
        """The converged ones that run and are in no transaction, the longest converged first.

        Put in order when it is asked for, since not all policies do.
        """
        among = self._among
        if among is None or among:
            replicas, position, moving = self.replicas, self.position, self.moving
            if among is None:
                converged = Category.CONVERGED
                those = [each for each in flat(replicas).values() if each.progress.category is converged]
            else:
                those = [replicas[name] for name in among if name in replicas]
            entries = (_settled_entry(each, position, moving) for each in those)
            found = sorted([entry for entry in entries if entry is not None])
            if among is not None:
                found = _merge(self._settled, [entry for entry in among.values() if entry is not None], found)
            self._settled = found
            self._among = {}
        return self._settled

    def renewed(self, replicas: Mapping[str, Replica], moving: Movers) -> "Survey":
        """Return the survey of these; quick where most are the same records as before."""
        if replicas is self.replicas and moving == self.moving:
            return self
        found = renew(self.replicas, self.position, replicas)
        if found is None:
            return Survey.of(replicas, moving)
        position, changed = found
        if moving or self.moving:
            flying = (*self.moving, *moving)
            changed = tuple(dict.fromkeys((*changed, *(name for name in flying if name in replicas))))
        before, former = self.replicas, self.moving
        touched, judged = list[str](), list[str]()
        converged = Category.CONVERGED
        for name in changed:  # between two Ticks that are most
            was, now = before.get(name), replicas.get(name)
            if was is None or now is None or not _stays(was, now) or name in moving or name in former:
                touched.append(name)
                continue
            old, new = was.progress, now.progress
            if old.category is not new.category or (
                new.category is converged and old.category_since != new.category_since
            ):
                judged.append(name)
        tell_touched(before, replicas, touched)
        if len(touched) + len(judged) > _MANY * len(replicas):
            return Survey.of(replicas, moving)
        twin = Survey(replicas, moving, position)
        twin.on_node, twin.census, twin._settled = self.on_node, self.census, self._settled
        twin.pending, twin.pressing, twin.active = self.pending, self.pressing, self.active
        twin._among = self._among
        if touched or judged:
            twin.census = dict(self.census)
            twin._among = self._note_changed((*touched, *judged))
            twin._judge(judged, before)
        if touched:
            twin._renew(touched, before, former)
        return twin

    def _note_changed(self, names: Iterable[str]) -> dict[str, Settled | None] | None:
        """Return `_among` with these, which are no more what they were here."""
        among = self._among
        if among is None or len(among) > _MANY * len(self.replicas):
            return None
        replicas, position, moving = self.replicas, self.position, self.moving
        return {name: _settled_entry(replicas.get(name), position, moving) for name in names} | among

    def told(self) -> tuple[object, ...]:
        """Return all that it tells, to be compared with another."""
        settled = [(since, name, node) for since, _, name, node in self.settled]
        return self.on_node, self.census, settled, self.pending, self.pressing, self.active

    # -- counting --------------------------------------------------------------------------------

    def _take(self) -> None:
        """Look at every replica for the first time, in the order of the records."""
        replicas, moving = flat(self.replicas), self.moving
        active = self.active
        nodes: dict[str, list[str]] = {}
        pending, pressing = [], []
        running, starting, waiting = Phase.RUNNING, Phase.STARTING, Phase.PENDING
        for name, replica in replicas.items():
            phase = replica.phase
            if phase is waiting:
                pending.append(name)
            elif phase is running or phase is starting:
                active[replica.job] = active.get(replica.job, 0) + 1
            if replica.leaving is not None or replica.lost_at is not None or phase is starting:
                pressing.append(name)
            # `_place`, written out.
            if moving and name in moving:
                place = _place(replica, moving)
            elif phase is running or phase is starting or replica.holds:
                place = replica.node
            else:
                continue
            if place is not None:
                if place in nodes:
                    nodes[place].append(name)
                else:
                    nodes[place] = [name]
        self.pending, self.pressing = tuple(pending), tuple(pressing)
        for node, there in nodes.items():
            self.on_node[node] = tuple(there)
            self.census[node] = take_census([replicas[name] for name in there])

    def _renew(self, touched: Sequence[str], before: Mapping[str, Replica], former: Movers) -> None:
        """Count these again, as far as they differ from those records `before`."""
        self._settle_on_nodes(touched, before, former)
        now = [self.replicas[name] for name in touched if name in self.replicas]
        self.active = dict(self.active)
        for replicas, count in ((map(before.get, touched), -1), (now, 1)):
            for replica in replicas:
                if replica is not None and replica.active:
                    self.active[replica.job] = self.active.get(replica.job, 0) + count
                    if not self.active[replica.job]:
                        del self.active[replica.job]
        apart, at = set(touched), self.position.__getitem__
        pending = [replica.name for replica in now if replica.phase is Phase.PENDING]
        self.pending = merge_names(self.pending, apart, pending, at)
        self.pressing = merge_names(self.pressing, apart, [each.name for each in now if _presses(each)], at)

    def _judge(self, names: Iterable[str], before: Mapping[str, Replica]) -> None:
        """Count the replicas again that differ in their category only."""
        converged, watching, census = Category.CONVERGED, Category.WATCHING, self.census
        for name in names:
            was, replica = before[name].progress.category, self.replicas[name]
            now, place = replica.progress.category, _place(replica, {})
            if was is now or place is None:
                continue
            known = census[place]
            census[place] = Census(
                replicas=known.replicas,
                converged=known.converged + (now is converged) - (was is converged),
                watching=known.watching + (now is watching) - (was is watching),
                sharing=known.sharing,
                requests=known.requests,
            )

    def _settle_on_nodes(self, touched: Sequence[str], before: Mapping[str, Replica], former: Movers) -> None:
        """Count the nodes again on which these are, or were."""
        replicas, moving, at = self.replicas, self.moving, self.position.__getitem__
        left, joined, recounted = dict[str, set[str]](), dict[str, list[str]](), set[str]()
        for name in touched:
            was, replica = before.get(name), replicas.get(name)
            old = None if was is None else _place(was, former)
            new = None if replica is None else _place(replica, moving)
            recounted |= {node for node in (old, new) if node is not None}
            if old != new and old is not None:
                left.setdefault(old, set()).add(name)
            if old != new and new is not None:
                joined.setdefault(new, []).append(name)
        self.on_node = dict(self.on_node)
        for node in left.keys() | joined.keys():
            gone = left.get(node, ())
            there = [name for name in self.on_node.get(node, ()) if name not in gone]
            if node in joined:
                there = sorted((*there, *joined[node]), key=at)
            self.on_node[node] = tuple(there)
        for node in recounted:
            if self.on_node[node]:
                self.census[node] = take_census([replicas[name] for name in self.on_node[node]])
            else:
                del self.on_node[node]
                self.census.pop(node, None)


def survey_records(replicas: Mapping[str, Replica], moving: Movers) -> Survey:
    """Return the survey of these records: the last counts, renewed only where the records differ."""
    global _last  # noqa: PLW0603  (a cache of one entry; the answer does not depend on it)
    last = _last
    _last = found = Survey.of(replicas, moving) if last is None else last.renewed(replicas, moving)
    return found


_last: Survey | None = None


def _settled_entry(replica: Replica | None, position: Positions, moving: Movers) -> Settled | None:
    """Return where a replica stands among those that have settled, None where it has not."""
    if replica is None or replica.phase is not Phase.RUNNING or replica.leaving is not None:
        return None
    progress, name = replica.progress, replica.name
    if progress.category is not Category.CONVERGED or name in moving:
        return None
    return progress.category_since, position[name], name, replica.node or ""


def _merge(entries: list[Settled], gone: Iterable[Settled], more: Iterable[Settled]) -> list[Settled]:
    """Return the entries, which are in order, without those that are gone and with more.

    Few are: the others are not compared with each other again.
    """
    changes = [(bisect_left(entries, entry), entry, True) for entry in gone]
    changes += [(bisect_left(entries, entry), entry, False) for entry in more]
    changes.sort()
    found, passed = list[Settled](), 0
    for at, entry, is_gone in changes:
        found += entries[passed:at]
        passed = at
        if is_gone:
            passed += 1
        else:
            found.append(entry)
    return found + entries[passed:]


def _place(replica: Replica, moving: Movers) -> str | None:
    if moving:
        transaction = moving.get(replica.name)
        if transaction is not None and (node := transaction.wanted.get(replica.name)):
            return node
    return replica.node if replica.occupies else None


def _presses(replica: Replica) -> bool:
    return replica.leaving is not None or replica.lost_at is not None or replica.phase is Phase.STARTING


def _stays(was: Replica, now: Replica) -> bool:
    """Whether two records of a replica in no transaction differ in nothing but what its sidecar says."""
    return (
        was.phase is now.phase
        and was.node == now.node
        and was.holds is now.holds
        and (was.leaving is now.leaving or (was.leaving is None) is (now.leaving is None))
        and (was.lost_at is now.lost_at or (was.lost_at is None) is (now.lost_at is None))
        and (was.requests is now.requests or was.requests == now.requests)
        and was.job == now.job
    )
