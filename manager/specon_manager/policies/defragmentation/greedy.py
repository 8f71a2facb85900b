"""Moves on a large cluster: node after node is made to hold more of the waiting job, the cheapest first.

The heuristic. What the first of two groups asks for is put into the gaps first. Then, of all *steps*, the one
of the least price for each further replica of the waiting job is taken until there is room. A step takes from
one node the cheapest units whose room is lacking there, or relieves all nodes of one gang, and puts what
leaves wherever that costs the waiting job the fewest places and leaves the least. At last every move without
which it fits as well is left out. It never proposes what does not fit; it may miss what would.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import Final

from specon_manager.policies.defragmentation.fitting import fit_job, slots
from specon_manager.policies.defragmentation.picture import (
    NOTHING,
    Move,
    Picture,
    Unit,
    WaitingGang,
    WholeAmount,
    holds,
    minus,
    plus,
    rooms_after,
)

MOST_MOVES: Final = 200
"""A plan of more is not looked for."""
_Shape = tuple[WholeAmount, frozenset[int] | None]
"""What leaves a node, and to which nodes it may go."""
_Rank = tuple[int, int, int, int, int]
_TARGETS: Final = 24
"""So many nodes are looked at for what leaves a node, the best first."""


class _Step:
    """Some moves that go together, and what they gain."""

    def __init__(self, price: float, gained: int, moves: list[Move]) -> None:
        self.price, self.gained, self.moves = price, gained, moves

    def rank(self, lacking: int) -> tuple[float, int]:
        """Return its price for each replica that it gains, at most `lacking`, and how many moves it takes."""
        return self.price / min(self.gained, lacking), len(self.moves)


def cheap(picture: Picture) -> list[Move] | None:
    """Return moves in an order in which each finds room; None: none were found."""
    search = _Search(picture)
    if not search.ready:
        return None
    while search.lacking > 0:
        if not search.went_on() or len(search.moves) > MOST_MOVES:
            return None
    if not _will_do(picture, search.moves):
        return None
    return _prune(picture, search.moves)


def _will_do(picture: Picture, moves: Iterable[Move]) -> bool:
    rooms = rooms_after(picture.rooms, *moves)
    return rooms is not None and fit_job(picture.waiting, rooms) is not None


def _prune(picture: Picture, moves: list[Move]) -> list[Move]:
    """Leave out the moves that are not needed, the dearest first."""
    for move in sorted(moves, key=lambda move: -move.unit.price):
        fewer = [other for other in moves if other is not move]
        if _will_do(picture, fewer):
            moves = fewer
    return moves


class _Search:
    """The rooms as the moves that were chosen so far leave them."""

    def __init__(self, picture: Picture) -> None:
        self._picture, self.rooms = picture, list(picture.rooms)
        self.moves: list[Move] = []
        waiting = picture.waiting
        self._group = len(waiting.groups) - 1
        self._asked = waiting.groups[self._group].amount
        self._reserved = _first_group(waiting, self.rooms)
        self.ready = self._reserved is not None
        """Whether there is room for all but the last group."""
        for node, amount in (self._reserved or {}).items():
            self.rooms[node] = minus(self.rooms[node], amount)
        self._slots = [self._count_held(node, room) for node, room in enumerate(self.rooms)]
        self.lacking = len(waiting.groups[self._group].names) - sum(self._slots)
        self._on: dict[int, list[Unit]] = {}
        for unit in picture.units:
            for node in sorted(set(unit.homes)):
                self._on.setdefault(node, []).append(unit)
        self._moved = set[str]()
        self._gangs = {unit.name: unit for unit in picture.units if len(set(unit.homes)) > 1}
        self._ranked: dict[_Shape, list[_Rank]] = {}
        """The nodes for each amount that leaves a node, in the order of `_order`."""

    def went_on(self) -> bool:
        """Take steps until there is room or no step is left; whether any was taken."""
        heap = list[tuple[tuple[float, int], tuple[str, int]]]()
        for key in self._keys():
            if (step := self._step(key)) is not None:
                heapq.heappush(heap, (step.rank(self.lacking), key))
        taken = False
        while heap and self.lacking > 0 and len(self.moves) <= MOST_MOVES:
            rank, key = heapq.heappop(heap)
            step = self._step(key)  # steps taken since may have changed it
            if step is None:
                continue
            if (now := step.rank(self.lacking)) > rank and heap and now > heap[0][0]:
                heapq.heappush(heap, (now, key))
                continue
            self._take(step)
            taken = True
            if (further := self._step(key)) is not None:
                heapq.heappush(heap, (further.rank(max(1, self.lacking)), key))
        return taken

    def _keys(self) -> Iterator[tuple[str, int]]:
        """Yield every step that there may be: of a node, or of a gang."""
        yield from (("", node) for node in sorted(self._on))
        yield from ((name, -1) for name in sorted(self._gangs))

    def _step(self, key: tuple[str, int]) -> _Step | None:
        name, node = key
        if name:
            moves = [] if name in self._moved else self._relieve(self._gangs[name])
        else:
            moves = self._empty(node)
        if not moves:
            return None
        touched = {each for move in moves for each in (*move.unit.homes, *move.targets)}
        later = self._after(moves, touched)
        gained = sum(self._count_held(each, later[each]) - self._slots[each] for each in touched)
        return _Step(sum(move.unit.price for move in moves), gained, moves) if gained > 0 else None

    def _empty(self, node: int) -> list[Move]:
        """Return the cheapest moves found after which the node holds one more; none: there are none."""
        most = self._picture.waiting.most_on(node, self._group)
        if self._slots[node] >= most:
            return []
        wanted = self._slots[node] + 1
        room, asked = self.rooms[node], self._asked
        lacking = minus((wanted * asked[0], wanted * asked[1], wanted * asked[2]), room)
        lacking = max(0, lacking[0]), max(0, lacking[1]), max(0, lacking[2])
        here = [(unit, _on(unit, node)) for unit in self._on.get(node, ()) if unit.name not in self._moved]
        here = [each for each in here if any(a and b for a, b in zip(each[1], lacking, strict=True))]
        here.sort(key=lambda each: (each[0].price / _share(each[1], lacking), each[0].name))
        chosen, freed, rooms = list[tuple[Unit, WholeAmount, Move]](), NOTHING, dict[int, WholeAmount]()
        for unit, amount in here:
            if _covers(freed, lacking):
                break
            if (move := self._away(unit, {node}, rooms)) is not None:
                chosen.append((unit, amount, move))
                freed = plus(freed, amount)
        if not _covers(freed, lacking):
            return []
        for each in sorted(chosen, key=lambda each: -each[0].price):
            if _covers(minus(freed, each[1]), lacking):
                chosen.remove(each)
                freed = minus(freed, each[1])
        single = self._alone(here, lacking, node)
        if single is not None and single.unit.price < sum(unit.price for unit, _, _ in chosen):
            return [single]
        return [move for _, _, move in chosen]

    def _alone(self, here: list[tuple[Unit, WholeAmount]], lacking: WholeAmount, node: int) -> Move | None:
        """Return the cheapest move of one unit that is enough by itself."""
        for unit, amount in sorted(here, key=lambda each: (each[0].price, each[0].name)):
            if _covers(amount, lacking) and (move := self._away(unit, {node}, {})) is not None:
                return move
        return None

    def _relieve(self, unit: Unit) -> list[Move]:
        """Return the move of a gang away from every node where that makes place for more."""
        gains = set[int]()
        for node in sorted(set(unit.homes)):
            room = plus(self.rooms[node], _on(unit, node))
            if self._count_held(node, room) > self._slots[node]:
                gains.add(node)
        move = self._away(unit, gains, {}) if gains else None
        return [] if move is None else [move]

    def _away(self, unit: Unit, nodes: set[int], rooms: dict[int, WholeAmount]) -> Move | None:
        """Return the move of what a unit has on these nodes to others; its room is taken from `rooms`."""
        trial, targets = dict(rooms), list[int]()
        for home, amount in zip(unit.homes, unit.amounts, strict=True):
            if home not in nodes:
                targets.append(home)
                continue
            for target in self._order(amount, unit.allowed):
                room = trial.get(target, self.rooms[target])
                if target not in nodes and holds(room, amount):
                    trial[target] = minus(room, amount)
                    targets.append(target)
                    break
            else:
                return None
        rooms.update(trial)
        return Move(unit=unit, targets=tuple(targets))

    def _order(self, amount: WholeAmount, allowed: frozenset[int] | None) -> list[int]:
        """Return the nodes with room for the amount: where the waiting job loses least, then the fullest."""
        key = (amount, allowed)
        if key not in self._ranked:
            ranks = (self._rank(key, node) for node in range(len(self.rooms)))
            self._ranked[key] = sorted(rank for rank in ranks if rank is not None)
        return [rank[-1] for rank in self._ranked[key][:_TARGETS]]

    def _rank(self, key: _Shape, node: int) -> _Rank | None:
        """Return how good the node is for such an amount; None where it does not go there."""
        (amount, allowed), room = key, self.rooms[node]
        if (allowed is not None and node not in allowed) or not holds(room, amount):
            return None
        left = minus(room, amount)
        loss = self._slots[node] - self._count_held(node, left) if self._slots[node] else 0
        return loss, left[2], left[0], left[1], node

    def _take(self, step: _Step) -> None:
        touched = sorted({node for move in step.moves for node in (*move.unit.homes, *move.targets)})
        former = {key: [self._rank(key, node) for node in touched] for key in self._ranked}
        later = self._after(step.moves, touched)
        for node in touched:
            self.rooms[node] = later[node]
            held = self._count_held(node, later[node])
            self.lacking -= held - self._slots[node]
            self._slots[node] = held
        for key, ranked in self._ranked.items():
            for before, node in zip(former[key], touched, strict=True):
                if before is not None:
                    del ranked[bisect_left(ranked, before)]
                if (now := self._rank(key, node)) is not None:
                    insort(ranked, now)
        self.moves += step.moves
        self._moved.update(move.unit.name for move in step.moves)

    def _after(self, moves: Iterable[Move], nodes: Iterable[int]) -> dict[int, WholeAmount]:
        later = {node: self.rooms[node] for node in nodes}
        for move in moves:
            for node, amount in move.arrivals().items():
                later[node] = minus(later.get(node, self.rooms[node]), amount)
            for node, amount in move.departures().items():
                later[node] = plus(later.get(node, self.rooms[node]), amount)
        return later

    def _count_held(self, node: int, room: WholeAmount) -> int:
        return slots(room, self._asked, self._picture.waiting.most_on(node, self._group))


def _first_group(waiting: WaitingGang, rooms: list[WholeAmount]) -> dict[int, WholeAmount] | None:
    """Return what the first of two groups takes on which nodes: where it costs the other least."""
    if len(waiting.groups) == 1:
        return {}
    first, second = waiting.groups
    taken: dict[int, WholeAmount] = {}
    placed: dict[int, int] = {}

    def loss(node: int) -> tuple[int, WholeAmount, int]:
        room = minus(rooms[node], taken.get(node, NOTHING))
        most = waiting.most_on(node, 1)
        lost = slots(room, second.amount, most) - slots(minus(room, first.amount), second.amount, most)
        return lost, room, node

    def fits(node: int) -> bool:
        room = minus(rooms[node], taken.get(node, NOTHING))
        return placed.get(node, 0) < waiting.most_on(node, 0) and holds(room, first.amount)

    for _ in first.names:
        node = min(filter(fits, range(len(rooms))), key=loss, default=None)
        if node is None:
            return None
        taken[node] = plus(taken.get(node, NOTHING), first.amount)
        placed[node] = placed.get(node, 0) + 1
    return taken


def _on(unit: Unit, node: int) -> WholeAmount:
    """Return what the unit has on a node."""
    found = NOTHING
    for home, amount in zip(unit.homes, unit.amounts, strict=True):
        if home == node:
            found = plus(found, amount)
    return found


def _covers(freed: WholeAmount, lacking: WholeAmount) -> bool:
    return all(has >= need for has, need in zip(freed, lacking, strict=True))


def _share(amount: WholeAmount, lacking: WholeAmount) -> float:
    """Return how much of the lacking room the amount is, each kind at most wholly."""
    return sum(min(has, need) / need for has, need in zip(amount, lacking, strict=True) if need > 0)
