"""Names of custom resources: legal, one for each replica and move, and the same every time."""

import re

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.backends.kube.objects.names import Name, migration_name, other_name, slug
from support.kube.custom_resources import a_move

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
names = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,80}[a-z0-9])?", fullmatch=True)
replicas = st.builds(
    lambda job, role, index: f"default/{job}/{role}/{index}",
    names,
    st.sampled_from(["worker", "ps"]),
    st.integers(0, 999_999),
)


def move(name, replica="default/mnist/worker/0"):
    return a_move(name, replica=replica)


@given(replicas, replicas)
def test_a_slug_is_a_label_and_no_two_replicas_share_one(first, second):
    """However long a job's name is, and whatever dots are in it."""
    assert LABEL.fullmatch(slug(first))
    assert (slug(first) == slug(second)) == (first == second)


@given(replicas, st.integers(0, 10**15))
def test_a_migration_is_called_by_its_replica_and_number(replica, number):
    """The name labels pods too, so it is a label's value; numbers and replicas do not collide."""
    name = migration_name(move(f"move-{number}", replica))
    assert name.namespace == "default"
    assert LABEL.fullmatch(name.name)
    assert name.name.endswith(f"-{number}")
    assert name != migration_name(move(f"move-{number + 1}", replica))
    assert LABEL.fullmatch(other_name(name, move(f"move-{number}", replica)).name)


def test_names_that_are_short_say_what_they_are():
    """People read them."""
    assert slug("default/mnist/worker/0") == "mnist-worker-0"
    assert migration_name(move("move-12")) == Name("default", "mnist-worker-0-12")


def test_a_move_that_was_asked_for_has_the_object_it_was_asked_with():
    """Its id is the namespace and the name of that."""
    assert migration_name(move("default/by-hand")) == Name("default", "by-hand")


def test_another_name_depends_on_the_move():
    """Where two moves find the same name taken they get different ones."""
    name = migration_name(move("move-1"))
    others = {other_name(name, move("move-1")), other_name(name, move("move-1", "default/b/worker/0"))}
    assert len(others) == 2
    assert name not in others
    assert other_name(name, move("move-1")) == other_name(
        name, msgspec.structs.replace(move("move-1"), attempt=2)
    )
