from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.backends.local.gpus import Gpu
from specon_manager.backends.local.nodes import VirtualNode, divide_cpus, parse_nodes


@given(cpus=st.lists(st.integers(0, 1000), unique=True, min_size=1, max_size=64), data=st.data())
def test_division_covers_disjointly_and_evenly(cpus: list[int], data: st.DataObject) -> None:
    """Each CPU is in exactly one set, in the order given, and no set has two more than another."""
    count = data.draw(st.integers(1, len(cpus)))
    sets = divide_cpus(cpus, count)
    assert [cpu for one in sets for cpu in one] == cpus
    sizes = [len(one) for one in sets]
    assert len(sizes) == count
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(("cpus", "count"), [([0, 1], 0), ([0, 1], -1), ([0, 1], 3), ([], 1)])
def test_division_into_an_impossible_number_is_refused(cpus: list[int], count: int) -> None:
    """Fewer than one set, or more sets than CPUs, is an error that names the number."""
    with pytest.raises(ValueError, match=f"nodes: .* not {count}"):
        divide_cpus(cpus, count)


def test_a_cpu_cannot_be_listed_twice() -> None:
    """A CPU listed twice would be in two sets: refused."""
    with pytest.raises(ValueError, match=r"cpus: .*\[1, 2, 1\]"):
        divide_cpus([1, 2, 1], 2)


@pytest.mark.parametrize(
    ("text", "cpus", "gpus", "expected"),
    [
        ("auto", [0, 1], [], [VirtualNode("node-0", (0,)), VirtualNode("node-1", (1,))]),
        ("auto", [7], [Gpu("GPU-a")], [VirtualNode("node-0", (7,))]),
        (
            "auto",
            [0, 1, 2, 3, 4, 5],
            [],
            [
                VirtualNode("node-0", (0, 1)),
                VirtualNode("node-1", (2, 3)),
                VirtualNode("node-2", (4,)),
                VirtualNode("node-3", (5,)),
            ],
        ),
        ("1", [0, 1], [], [VirtualNode("node-0", (0, 1))]),
        (
            "3",
            [2, 4, 6, 8],
            [],
            [VirtualNode("node-0", (2, 4)), VirtualNode("node-1", (6,)), VirtualNode("node-2", (8,))],
        ),
        (
            "gpu",
            [0, 1, 2],
            [Gpu("GPU-a", "NVIDIA-H200"), Gpu("GPU-b")],
            [VirtualNode("node-0", (0, 1), "GPU-a", "NVIDIA-H200"), VirtualNode("node-1", (2,), "GPU-b")],
        ),
    ],
)
def test_nodes_are_made_as_asked(
    text: str, cpus: list[int], gpus: list[Gpu], expected: list[VirtualNode]
) -> None:
    """`auto` is one node per CPU but at most four, a number is that many, `gpu` is one per GPU."""
    assert parse_nodes(text, cpus, gpus) == tuple(expected)


@pytest.mark.parametrize(
    ("text", "gpus", "message"),
    [
        ("0", [], "not 0"),
        ("3", [], "not 3"),
        ("9" * 30, [], "not 9{30}"),
        ("-1", [], "not '-1'"),
        ("2.0", [], "not '2.0'"),
        ("\N{SUPERSCRIPT TWO}", [], "not '\N{SUPERSCRIPT TWO}'"),
        ("", [], "not ''"),
        ("many", [], "not 'many'"),
        ("gpu", [], "no GPU was found"),
        ("gpu", ["a", "b", "c"], "not 3"),
    ],
)
def test_other_texts_are_refused(text: str, gpus: list[str], message: str) -> None:
    """Anything else is an error that names the field and the value."""
    with pytest.raises(ValueError, match=f"nodes: .*{message}"):
        parse_nodes(text, [0, 1], gpus)


@given(st.text(max_size=12))
def test_any_text_gives_nodes_or_a_value_error(text: str) -> None:
    """No text does worse than ValueError."""
    try:
        nodes = parse_nodes(text, [0, 1, 2], ["GPU-a"])
    except ValueError:
        return
    assert sorted(cpu for node in nodes for cpu in node.cpus) == [0, 1, 2]
