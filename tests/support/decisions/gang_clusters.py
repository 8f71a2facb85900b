"""A hypothesis strategy for clusters of gangs."""

from hypothesis import strategies as st

from specon_manager.core.state import State
from support.decisions.gang_layouts import NOW, Gang, state_of

NODES = {"a": 4.0, "b": 4.0, "c": 8.0}


@st.composite
def clusters(draw: st.DrawFn) -> State:
    """Return jobs on nodes as far as they fit, and jobs that wait, some for long, some with a claim."""
    room, gangs = dict(NODES), []
    for number in range(draw(st.integers(0, 6))):
        cpu = draw(st.sampled_from([0.5, 1.0, 2.0]))
        ps, least = draw(st.integers(0, 1)), draw(st.integers(1, 3))
        workers = least + draw(st.integers(0, 3))
        letters = "p" * ps + "012345"[: draw(st.integers(least, workers))]
        on: dict[str, str] = {}
        claim: dict[str, str] = {}
        if draw(st.booleans()):
            on = _placed(draw, letters, cpu, room)
        elif draw(st.booleans()):  # not all such claims can be met
            for letter in letters:
                node = draw(st.sampled_from(sorted(NODES)))
                claim[node] = claim.get(node, "") + letter
        gangs.append(
            Gang(
                f"j{number}",
                ps=ps,
                workers=workers,
                least=least,
                most=workers + draw(st.integers(0, 2)),
                cpu=cpu,
                utility=draw(st.sampled_from([0.0, 1.0, 2.0])),
                at=NOW - draw(st.sampled_from([0.0, 10.0, 200.0])),
                on=on,
                leaving=letters[-1] if on and len(letters) > ps + least and draw(st.booleans()) else "",
                claim=claim,
            )
        )
    return state_of(NODES, gangs)


def _placed(draw: st.DrawFn, letters: str, cpu: float, room: dict[str, float]) -> dict[str, str]:
    """Return where the replicas run, and take their room; nowhere where not all of them fit."""
    on: dict[str, str] = {}
    left = dict(room)
    for letter in letters:
        free = [node for node in left if left[node] >= cpu]
        if not free:
            return {}
        node = draw(st.sampled_from(free))
        left[node] -= cpu
        on[node] = on.get(node, "") + letter
    room.update(left)
    return on
