"""The search for moves: the exact part against every sequence of moves there is, the heuristic against it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from specon_manager.policies.defragmentation import exact, greedy, search
from specon_manager.policies.defragmentation.fitting import fit_job
from specon_manager.policies.defragmentation.picture import (
    Group,
    Move,
    Picture,
    Unit,
    WaitingGang,
    rooms_after,
)
from support.decisions.every_move import fits, least_price

GPU = 1_000_000


def gpus(number):
    return (0, 0, number * GPU)


def unit(name, homes, amounts, price=1.0, allowed=None):
    return Unit(
        name=name,
        replicas=tuple(f"{name}/{index}" for index in range(len(homes))),
        homes=tuple(homes),
        amounts=tuple(gpus(each) for each in amounts),
        price=price,
        allowed=allowed,
    )


def waiting(*groups, allowed=None, fixed=None):
    return WaitingGang(
        job="default/w",
        groups=tuple(
            Group(names=tuple(f"w/{letter}/{index}" for index in range(count)), amount=gpus(amount))
            for letter, (count, amount) in zip("ab", groups, strict=False)
        ),
        allowed=allowed,
        fixed=fixed,
    )


def picture(rooms, units, who):
    nodes = tuple(f"node-{index}" for index in range(len(rooms)))
    return Picture(nodes=nodes, rooms=tuple(gpus(each) for each in rooms), units=tuple(units), waiting=who)


@st.composite
def pictures(draw, *, nodes=3, units=3):
    """Return a few nodes of four GPUs with units on them as far as they fit, and a job that waits."""
    count = draw(st.integers(2, nodes))
    rooms = [draw(st.integers(2, 4)) for _ in range(count)]
    found = []
    for number in range(draw(st.integers(1, units))):
        amounts = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
        homes = []
        for amount in amounts:
            node = draw(st.integers(0, count - 1))
            if rooms[node] < amount:
                break
            rooms[node] -= amount
            homes.append(node)
        if not homes:
            continue
        allowed = draw(st.sampled_from([None, None, frozenset(homes), frozenset(range(1, count))]))
        price = draw(st.sampled_from([1.0, 2.0, 3.5]))
        found.append(unit(f"u{number}", homes, amounts[: len(homes)], price, allowed))
    groups = [(draw(st.integers(1, 3)), draw(st.integers(1, 4)))]
    if draw(st.booleans()):
        groups.append((draw(st.integers(1, 2)), draw(st.integers(1, 3))))
    who = waiting(*groups, allowed=draw(st.sampled_from([None, None, frozenset([0, 1])])))
    return picture(rooms, found, who)


def carried_out(seen, moves):
    rooms = rooms_after(seen.rooms, *moves)
    assert rooms is not None, "each move finds room while its old room is still held"
    return rooms


def price(moves):
    return sum(move.unit.price for move in moves)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(seen=pictures())
def test_on_a_small_cluster_nothing_cheaper_does_it(seen):
    """The exact part finds the price of the cheapest of all sequences, and only where there is one."""
    assert exact.is_small(seen)
    moves = exact.cheapest(seen)
    least = least_price(seen)
    assert (moves is None) == (least is None)
    if moves is not None:
        assert fit_job(seen.waiting, carried_out(seen, moves)) is not None
        assert abs(price(moves) - least) < 1e-9


@settings(max_examples=300, deadline=None, derandomize=True)
@given(seen=pictures(nodes=4, units=6))
def test_what_the_heuristic_proposes_does_it(seen):
    """Its moves find room in their order, the job fits afterwards, and none of them is needless."""
    moves = greedy.cheap(seen)
    if moves is None:
        return
    assert fit_job(seen.waiting, carried_out(seen, moves)) is not None
    assert len({move.unit.name for move in moves}) == len(moves)
    for move in moves:
        rest = [other for other in moves if other is not move]
        rooms = rooms_after(seen.rooms, *rest)
        assert rooms is None or fit_job(seen.waiting, rooms) is None
    if exact.is_small(seen):
        assert price(moves) >= price(exact.cheapest(seen)) - 1e-9


@settings(max_examples=200, deadline=None, derandomize=True)
@given(seen=pictures(nodes=4, units=4))
def test_a_placement_is_found_where_there_is_one(seen):
    """`fitted` agrees with trying all assignments, and puts nothing where it does not fit."""
    placement = fit_job(seen.waiting, seen.rooms)
    assert (placement is not None) == fits(seen.rooms, seen.waiting)
    if placement is not None:
        names = [name for group in seen.waiting.groups for name in group.names]
        assert sorted(placement) == sorted(names)
        amounts = {name: group.amount[2] for group in seen.waiting.groups for name in group.names}
        for node, room in enumerate(seen.rooms):
            assert sum(amounts[name] for name, where in placement.items() if where == node) <= room[2]


def test_the_cheaper_of_two_goes():
    """Either of two replicas could leave its node: the one whose move costs less does."""
    seen = picture([3, 3, 0], [unit("dear", [0], [1], 5.0), unit("cheap", [1], [1], 2.0)], waiting((1, 4)))
    plan = search.find_plan(seen)
    assert [(move.unit.name, move.targets) for move in plan.moves] == [("cheap", (0,))]
    assert plan.exact
    assert plan.placement == {"w/a/0": "node-1"}


def test_a_gang_is_paid_once_however_many_of_it_move():
    """Two of a gang leave for the price of one move, and the rest of it stays."""
    seen = picture([2, 2, 2], [unit("g", [0, 1], [2, 2], 3.0)], waiting((1, 4)))
    plan = search.find_plan(seen)
    assert plan.price == 3.0
    assert plan.moves[0].changed == 1


def test_a_way_is_made_first():
    """The one that has to leave fits nowhere until another has moved: two rounds."""
    seen = picture(
        [1, 1, 1],
        [unit("large", [0], [2], 1.0), unit("small", [1], [1], 1.0)],
        waiting((1, 3)),
    )
    plan = search.find_plan(seen)
    assert [move.unit.name for move in plan.moves] == ["small", "large"]
    assert [len(each) for each in search.rounds(seen, plan, most=4, per_node=4)] == [1, 1]


def test_budgets_make_rounds():
    """No more moves begin at once than the cluster and each node may have."""
    units = [unit(f"u{index}", [index], [1]) for index in range(4)]
    seen = picture([1, 1, 1, 1, 2, 2], units, waiting((4, 2)))
    plan = search.find_plan(seen)
    assert len(plan.moves) == 2  # the two free nodes have room for one each already
    assert len(search.rounds(seen, plan, most=1, per_node=4)) == 2
    assert search.rounds(seen, plan, most=0, per_node=4) == []


def test_room_that_is_kept_for_others_is_not_used():
    """A node that owes more than it has takes nothing."""
    seen = picture([3, -1], [unit("u", [0], [1])], waiting((1, 4)))
    assert search.find_plan(seen) is None


def test_where_it_goes_may_be_decided_already():
    """A job for which room is kept needs it there, though it would fit elsewhere."""
    seen = picture([1, 4, 4], [unit("u", [0], [3])], waiting((1, 4), fixed={0: (1,)}))
    plan = search.find_plan(seen)
    assert [(move.unit.name, move.targets) for move in plan.moves] == [("u", (1,))]
    assert plan.placement == {"w/a/0": "node-0"}


def test_a_large_cluster_is_left_to_the_heuristic():
    """It finds that one replica for each node that is lacking has to go, and the cheapest do."""
    units = [unit(f"u{index}", [index], [1], price=1.0 + index % 7) for index in range(40)]
    seen = picture([7] * 40 + [4] * 5, units, waiting((4, 8)))
    plan = search.find_plan(seen)
    assert not plan.exact
    assert [move.unit.price for move in plan.moves] == [1.0] * 4
    assert Move(unit=units[0], targets=(40,)).arrivals() == {40: gpus(1)}
