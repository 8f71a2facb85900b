"""On which nodes a replica may run: selectors, affinities, volumes, taints; as Kubernetes decides."""

import pytest

from specon_manager.model.constraints import (
    ANYWHERE,
    NAME,
    Constraints,
    Requirement,
    Taint,
    Toleration,
    objection,
)

LABELS = {"zone": "a", "disk": "ssd", "cores": "16", "empty": ""}


def need(key, operator, *values):
    return Requirement(key=key, operator=operator, values=values)


def why(constraints=ANYWHERE, *taints):
    return objection(LABELS, "node-0", taints, constraints)


@pytest.mark.parametrize(
    ("requirement", "holds"),
    [
        (need("zone", "In", "a", "b"), True),
        (need("zone", "In", "b"), False),
        (need("rack", "In", "1"), False),
        (need("empty", "In", ""), True),
        (need("zone", "NotIn", "b"), True),
        (need("zone", "NotIn", "a"), False),
        (need("rack", "NotIn", "1"), True),
        (need("disk", "Exists"), True),
        (need("empty", "Exists"), True),
        (need("rack", "Exists"), False),
        (need("rack", "DoesNotExist"), True),
        (need("disk", "DoesNotExist"), False),
        (need("cores", "Gt", "15"), True),
        (need("cores", "Gt", "16"), False),
        (need("cores", "Lt", "17"), True),
        (need("cores", "Lt", "-1"), False),
        (need("zone", "Gt", "1"), False),
        (need("rack", "Lt", "1"), False),
        (need("cores", "Gt", "many"), False),
        (need("cores", "Gt", "1", "2"), False),
        (need("cores", "Lt", "9223372036854775808"), False),
        (need(NAME, "In", "node-0"), True),
        (need(NAME, "In", "node-1"), False),
        (need(NAME, "NotIn", "node-0"), False),
    ],
    ids=str,
)
def test_a_requirement_compares_a_label_or_the_name(requirement, holds):
    """A label that is not there is in no set of values; what is no integer compares with nothing."""
    assert (why(Constraints(terms=((requirement,),))) is None) == holds
    assert (why(Constraints(volumes=(((requirement,),),))) is None) == holds


@pytest.mark.parametrize(
    ("terms", "holds"),
    [
        ((), True),
        (((),), False),
        (((), (need("zone", "In", "a"),)), True),
        (((need("zone", "In", "b"),), (need("disk", "Exists"),)), True),
        (((need("zone", "In", "a"), need("disk", "In", "hdd")),), False),
        (((need("zone", "In", "a"), need("disk", "In", "ssd")),), True),
    ],
)
def test_one_term_must_hold_as_a_whole(terms, holds):
    """Terms are alternatives, their requirements must all hold, and an empty term matches nothing."""
    assert (why(Constraints(terms=terms)) is None) == holds


def test_every_volume_must_be_reachable():
    """Each volume has alternatives of its own; one that matches does not stand for another."""
    here, there = ((need("zone", "In", "a"),),), ((need("zone", "In", "b"),),)
    assert why(Constraints(volumes=(here, here))) is None
    words = why(Constraints(volumes=(here, there)))
    assert words == "node-0 cannot reach a volume: no label zone in (b)"


def test_the_selector_wants_every_label():
    """Each label must be there with its value; the words name the one that is not."""
    assert why(Constraints(selector=(("zone", "a"), ("disk", "ssd")))) is None
    assert why(Constraints(selector=(("zone", "a"), ("disk", "hdd")))) == (
        "node-0 has the label disk=ssd, not hdd as the node selector asks"
    )
    assert why(Constraints(selector=(("rack", "1"),))) == (
        "node-0 has no label rack, not 1 as the node selector asks"
    )


GPU = Taint(key="gpu", value="yes")


@pytest.mark.parametrize(
    ("taint", "toleration", "tolerated"),
    [
        (GPU, Toleration(key="gpu", value="yes"), True),
        (GPU, Toleration(key="gpu", value="no"), False),
        (GPU, Toleration(key="gpu", operator="Exists"), True),
        (GPU, Toleration(key="cpu", operator="Exists"), False),
        (GPU, Toleration(operator="Exists"), True),
        (GPU, Toleration(operator="Exists", effect="NoExecute"), False),
        (GPU, Toleration(operator="Exists", effect="NoSchedule"), True),
        (Taint(key="gpu", effect="NoExecute"), Toleration(key="gpu"), True),
        (Taint(key="age", value="5"), Toleration(key="age", operator="Lt", value="9"), True),
        (Taint(key="age", value="5"), Toleration(key="age", operator="Gt", value="9"), False),
        (Taint(key="age", value="old"), Toleration(key="age", operator="Gt", value="9"), False),
    ],
)
def test_a_toleration_covers_a_taint(taint, toleration, tolerated):
    """Without a key it covers every key, without an effect every effect; else both must match."""
    assert (why(Constraints(tolerations=(toleration,)), taint) is None) == tolerated


@pytest.mark.parametrize(
    ("effect", "excludes"), [("NoSchedule", True), ("NoExecute", True), ("PreferNoSchedule", False)]
)
def test_a_preference_excludes_nothing(effect, excludes):
    """Only NoSchedule and NoExecute keep a replica off; each such taint must be tolerated."""
    assert (why(ANYWHERE, Taint(key="gpu", effect=effect)) is not None) == excludes
    other = Constraints(tolerations=(Toleration(key="cpu", operator="Exists"),))
    assert (why(other, Taint(key="cpu"), Taint(key="gpu", effect=effect)) is not None) == excludes


def test_the_words_name_the_taint_and_the_term():
    """A person must see what to change."""
    assert why(ANYWHERE, GPU) == "node-0 has the taint gpu=yes:NoSchedule, which is not tolerated"
    terms = ((need("zone", "In", "b", "c"),), (need("cores", "Gt", "64"), need("disk", "Exists")), ())
    assert why(Constraints(terms=terms)) == (
        "node-0 does not match the node affinity: no label zone in (b, c); no label cores > 64; "
        "an empty term, which matches no node"
    )
