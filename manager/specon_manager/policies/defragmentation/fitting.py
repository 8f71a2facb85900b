"""Whether the job that waits has room, and where: exact for one or two kinds of replicas."""

from specon_manager.policies.defragmentation.picture import FreeAmounts, WaitingGang, WholeAmount, minus

_Counts = tuple[int, ...]


def slots(room: WholeAmount, amount: WholeAmount, most: int) -> int:
    """Return how many of this amount the room holds, at most `most`."""
    count = most
    for free, asked in zip(room, amount, strict=True):
        if asked > 0:
            count = min(count, max(0, free) // asked)
    return count


def fit_job(waiting: WaitingGang, rooms: FreeAmounts) -> dict[str, int] | None:
    """Return a node for each replica of the waiting job, on few nodes; None: there is no room for all.

    With two groups it is the best over all numbers of the first group on each node, node after node.
    """
    last = len(waiting.groups) - 1
    most = [
        slots(room, waiting.groups[last].amount, waiting.most_on(node, last))
        for node, room in enumerate(rooms)
    ]
    if sum(most) < len(waiting.groups[last].names):
        return None
    order = sorted(
        (node for node in range(len(rooms)) if any(waiting.most_on(node, g) for g in range(last + 1))),
        key=lambda node: (-most[node], node),
    )
    counts = _one(waiting, order, most) if last == 0 else _two(waiting, order, rooms)
    return None if counts is None else _name(waiting, counts)


def _one(waiting: WaitingGang, order: list[int], most: list[int]) -> dict[int, _Counts] | None:
    left, counts = len(waiting.groups[0].names), dict[int, _Counts]()
    for node in order:
        if left <= 0 or most[node] <= 0:
            break
        counts[node] = (min(left, most[node]),)
        left -= counts[node][0]
    return counts if left <= 0 else None


def _two(waiting: WaitingGang, order: list[int], rooms: FreeAmounts) -> dict[int, _Counts] | None:
    first, second = waiting.groups
    wanted, needed = len(first.names), len(second.names)
    # By how many of the first group have a place: how many of the second have, and the counts on each node.
    best: dict[int, tuple[int, tuple[tuple[int, _Counts], ...]]] = {0: (0, ())}
    for node in order:
        there, room = dict(best), rooms[node]
        for number in range(slots(room, first.amount, min(wanted, waiting.most_on(node, 0))) + 1):
            used = (first.amount[0] * number, first.amount[1] * number, first.amount[2] * number)
            beside = slots(minus(room, used), second.amount, waiting.most_on(node, 1))
            for placed, (others, where) in best.items():
                key, value = min(wanted, placed + number), min(needed, others + beside)
                if key not in there or there[key][0] < value:
                    there[key] = (value, (*where, (node, (number, beside))))
        best = there
        if wanted in best and best[wanted][0] >= needed:
            return dict(best[wanted][1])
    return None


def _name(waiting: WaitingGang, counts: dict[int, _Counts]) -> dict[str, int]:
    """Give each replica its node; where more would fit than there are, the last nodes get fewer."""
    placement: dict[str, int] = {}
    for number, group in enumerate(waiting.groups):
        names = iter(group.names)
        for node, each in counts.items():
            for _, name in zip(range(each[number]), names, strict=False):
                placement[name] = node
    return placement
