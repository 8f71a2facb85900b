"""Our own resources: the status apart from the rest, pruning, the schema's bounds."""

import pytest

from support.kube.client import JSON, MERGE, STRATEGIC

MIGRATIONS = "specon.io/v1alpha1/migrations"


def migration(name: str = "move", **spec):
    return {
        "apiVersion": "specon.io/v1alpha1",
        "kind": "Migration",
        "metadata": {"name": name},
        "spec": spec or {"pod": "trainer", "target": "node-1", "reason": "by hand"},
    }


async def test_status_is_apart(kube):
    """A new object has no status; its own URL changes that and nothing else, and counts no generation."""
    made = await kube.create(MIGRATIONS, {**migration(), "status": {"state": "Failed"}})
    assert (made.status, made.body.get("status"), made.body["metadata"]["generation"]) == (201, None, 1)
    both = {"metadata": {"labels": {"a": "b"}}, "spec": {"target": "node-2"}, "status": {"state": "Proposed"}}
    answer = await kube.patch(MIGRATIONS, "move", both, "status", form=MERGE)
    assert answer.body["status"] == {"state": "Proposed"}
    assert (answer.body["spec"]["target"], "labels" in answer.body["metadata"]) == ("node-1", False)
    assert answer.body["metadata"]["generation"] == 1
    answer = await kube.patch(MIGRATIONS, "move", {"status": {"state": "Failed"}}, form=MERGE)
    assert answer.body["status"] == {"state": "Proposed"}


async def test_unknown_fields_are_pruned(kube):
    """What the schema does not name is dropped without a word."""
    made = await kube.create(MIGRATIONS, {**migration(), "other": 1})
    assert (made.status, "other" in made.body) == (201, False)
    answer = await kube.patch(
        MIGRATIONS, "move", {"status": {"nonsense": 1, "state": "Proposed"}}, "status", form=MERGE
    )
    assert answer.body["status"] == {"state": "Proposed"}


@pytest.mark.parametrize(
    "status",
    [
        {"state": "Nonsense"},
        {"state": 5},
        {"attempt": 0},
        {"attempt": "one"},
        {"id": "x" * 200},
        {"checkpoint": {}},
    ],
)
async def test_nonsense_is_refused(kube, status):
    """A status outside the schema's bounds is refused."""
    await kube.create(MIGRATIONS, migration())
    answer = await kube.patch(MIGRATIONS, "move", {"status": status}, "status", form=MERGE)
    assert (answer.status, answer.body["reason"]) == (422, "Invalid"), answer.body


@pytest.mark.parametrize(
    "spec",
    [
        {"reason": "none"},
        {"pod": "a", "replica": "default/a/worker/0"},
        {"pod": "a", "job": "default/a"},
        {"job": "default/a", "replica": "default/a/worker/0"},
        {"job": "default/a", "replica": "default/a/worker/0", "pod": "a"},
        {"replica": "nonsense"},
        {"job": "nonsense"},
        {"job": "default/a", "target": "node-1"},
        {"pod": "a", "targets": ["node-1"]},
        {"job": "default/a", "targets": [""]},
    ],
)
async def test_exactly_one_subject(kube, spec):
    """A Migration names a replica, a pod or a job; a job goes to nodes, the others to one."""
    assert (await kube.create(MIGRATIONS, migration(**spec))).status == 422


@pytest.mark.parametrize(
    "spec",
    [
        {"job": "default/a"},
        {"job": "default/a", "targets": ["node-1", "node-2"], "reason": "maintenance"},
        {"pod": "a", "target": "node-1"},
        {"replica": "default/a/worker/0", "target": "node-1"},
    ],
)
async def test_one_subject_is_enough_and_stays(kube, spec):
    """Whatever it is, it cannot be changed into another."""
    assert (await kube.create(MIGRATIONS, migration(**spec))).status == 201
    for change in ({"job": "default/b"}, {"targets": ["node-9"]}):
        answer = await kube.patch(MIGRATIONS, "move", {"spec": change}, form=MERGE)
        assert answer.status == 422


async def test_spec_is_fixed(kube):
    """The spec of a Migration cannot be changed."""
    await kube.create(MIGRATIONS, migration())
    assert (await kube.patch(MIGRATIONS, "move", {"spec": {"target": "node-2"}}, form=MERGE)).status == 422


async def test_put_needs_a_version(kube):
    """A PUT of a custom resource without a resource version is refused; a stale one is a conflict."""
    made = await kube.create(MIGRATIONS, migration())
    assert (await kube.put(MIGRATIONS, migration())).status == 422
    await kube.patch(MIGRATIONS, "move", {"metadata": {"labels": {"a": "b"}}}, form=MERGE)
    for subresource in ("", "status"):
        answer = await kube.put(MIGRATIONS, {**made.body, "status": {"state": "Proposed"}}, subresource)
        assert (answer.status, answer.body["reason"]) == (409, "Conflict")


async def test_forms_of_patch(kube):
    """Custom resources take JSON and merge patches, no strategic ones."""
    await kube.create(MIGRATIONS, migration())
    assert (await kube.patch(MIGRATIONS, "move", {}, form=STRATEGIC)).status == 415
    operations = [{"op": "add", "path": "/status", "value": {"state": "Proposed"}}]
    answer = await kube.patch(MIGRATIONS, "move", operations, "status", form=JSON)
    assert answer.body["status"] == {"state": "Proposed"}


async def test_resource_that_is_not_defined(kube):
    """A resource that nobody defined is not found, in plain text."""
    answer = await kube.get("specon.io/v1alpha1/unicorns")
    assert (answer.status, answer.message) == (404, "404 page not found\n")
