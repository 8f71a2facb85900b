"""Every sequence of moves there is, tried one by one: what the search for moves is compared with."""

from itertools import product

from specon_manager.policies.defragmentation.picture import minus, plus


def fits(rooms, who):
    """Whether any assignment of the replicas to nodes fits: all are tried."""
    asked = [group.amount for group in who.groups for _ in group.names]
    open_nodes = [node for node in range(len(rooms)) if who.allowed is None or node in who.allowed]
    for places in product(open_nodes, repeat=len(asked)):
        left = list(rooms)
        for node, amount in zip(places, asked, strict=True):
            left[node] = minus(left[node], amount)
        if all(min(left[node]) >= 0 for node in places):
            return True
    return False


def least_price(seen):
    """Return the price of the cheapest of all sequences of moves, each unit once at most; None: none."""
    best = None

    def go(rooms, left, price):
        nonlocal best
        if best is not None and price >= best:
            return
        if fits(rooms, seen.waiting):
            best = price
            return
        for each in left:
            for targets in product(range(len(rooms)), repeat=len(each.homes)):
                ways = list(zip(each.homes, targets, each.amounts, strict=True))
                if (
                    any(home != to and not each.may_go_to(to) for home, to, _ in ways)
                    or targets == each.homes
                ):
                    continue
                later = list(rooms)
                for home, to, amount in ways:
                    later[to] = minus(later[to], amount) if home != to else later[to]
                if any(min(later[to]) < 0 for home, to, _ in ways if home != to):
                    continue
                for home, to, amount in ways:
                    later[home] = plus(later[home], amount) if home != to else later[home]
                go(later, [other for other in left if other is not each], price + each.price)

    go(list(seen.rooms), list(seen.units), 0.0)
    return best
