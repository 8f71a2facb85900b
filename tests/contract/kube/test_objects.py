"""What holds for every resource: versions, conflicts, patches, pages, watches."""

import pytest

from support.kube.client import JSON, MERGE, STRATEGIC
from support.kube.manifests import gated, pod

MAPS = "configmaps"


def settings(name: str = "one", **labels: str):
    return {"metadata": {"name": name, "labels": labels}, "data": {"a": "1"}}


async def test_stale_put_is_a_conflict(kube):
    """A PUT with an old resource version is refused, one without any is not (for a ConfigMap)."""
    made = await kube.create(MAPS, settings())
    await kube.patch(MAPS, "one", {"data": {"b": "2"}}, form=MERGE)
    stale = await kube.put(MAPS, made.body)
    assert (stale.status, stale.body["reason"]) == (409, "Conflict")
    assert (await kube.put(MAPS, settings())).status == 200


async def test_patch_of_another_incarnation(kube):
    """Another uid is an immutable field in a patch, and a failed precondition in a PUT."""
    await kube.create(MAPS, settings())
    body = {"metadata": {"uid": "11111111-1111-1111-1111-111111111111"}, "data": {"b": "2"}}
    answer = await kube.patch(MAPS, "one", body, form=MERGE)
    assert (answer.status, "metadata.uid" in answer.message) == (422, True)
    answer = await kube.put(MAPS, {**settings(), "metadata": {**settings()["metadata"], **body["metadata"]}})
    assert (answer.status, "Precondition failed: UID" in answer.message) == (409, True)


async def test_patch_that_changes_nothing(kube):
    """A patch that changes nothing leaves the resource version as it was."""
    made = await kube.create(MAPS, settings())
    assert (await kube.patch(MAPS, "one", {"data": {"a": "1"}}, form=MERGE)).version == made.version


async def test_dry_run_stores_nothing(kube):
    """A dry creation answers as if, and leaves nothing."""
    assert (await kube.create(MAPS, settings(), dryRun="All")).status == 201
    assert (await kube.get(MAPS, "one")).status == 404


async def test_generated_name(kube):
    """`generateName` gets five letters of the server's choice."""
    made = await kube.create(MAPS, {"metadata": {"generateName": "some-"}})
    assert (made.status, made.name.startswith("some-"), len(made.name)) == (201, True, 10)


async def test_refusals(kube):
    """Missing, doubled, badly named and unknown things have their own answers."""
    await kube.create(MAPS, settings())
    assert (await kube.get(MAPS, "none")).body["reason"] == "NotFound"
    assert (await kube.create(MAPS, settings())).body["reason"] == "AlreadyExists"
    assert (await kube.create(MAPS, settings("No_Such"))).status == 422
    assert (await kube.create(MAPS, {"metadata": {}})).status == 422
    elsewhere = {"metadata": {"name": "a", "namespace": "default"}}
    assert (await kube.create(MAPS, elsewhere)).status == 400
    assert (await kube.get(MAPS, labelSelector="a in b")).status == 400
    assert (await kube.get(MAPS, fieldSelector="data.a=1")).status == 400
    missing = await kube.ask("POST", "/api/v1/namespaces/no-such-namespace/configmaps", settings())
    assert (missing.status, missing.body["reason"]) == (404, "NotFound")


@pytest.mark.parametrize(
    ("form", "body", "status"),
    [
        (JSON, [{"op": "replace", "path": "/data/a", "value": "2"}], 200),
        (JSON, [{"op": "test", "path": "/data/a", "value": "9"}], 422),
        (JSON, [{"op": "remove", "path": "/data/none"}], 422),
        (JSON, [{"op": "add", "path": "/metadata/labels/x~1y", "value": "z"}], 200),
        (JSON, {"data": {}}, 400),
        (MERGE, {"data": {"a": None}}, 200),
        (MERGE, [], 400),
        (STRATEGIC, {"data": {"a": None}}, 200),
        ("text/plain", {}, 415),
    ],
)
async def test_forms_of_patch(kube, form, body, status):
    """Each form of patch has its own body and its own failures."""
    await kube.create(MAPS, settings(n="1"))
    assert (await kube.patch(MAPS, "one", body, form=form)).status == status


async def test_strategic_lists(kube):
    """A strategic patch merges gates and conditions by their keys, and replaces tolerations."""
    await kube.create("pods", gated(tolerations=[{"key": "a", "operator": "Exists"}]))
    ready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    answer = await kube.patch("pods", "trainer", ready, "status")
    assert {entry["type"] for entry in answer.body["status"]["conditions"]} == {"PodScheduled", "Ready"}
    change = {"spec": {"tolerations": [{"key": "b", "operator": "Exists"}]}}
    answer = await kube.patch("pods", "trainer", change)
    assert answer.status == 422  # the first one would be lost


async def test_status_and_spec_apart(kube):
    """The status of a pod is not changed through its own URL, nor its spec through the status."""
    await kube.create("pods", pod())
    both = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"activeDeadlineSeconds": 9},
        "status": {"message": "hello"},
    }
    answer = await kube.patch("pods", "trainer", both, "status", form=MERGE)
    assert (answer.body["status"]["message"], answer.body["spec"].get("activeDeadlineSeconds")) == (
        "hello",
        None,
    )
    both["status"]["message"] = "other"
    answer = await kube.patch("pods", "trainer", both, form=MERGE)
    assert (answer.body["status"]["message"], answer.body["spec"].get("activeDeadlineSeconds")) == (
        "hello",
        9,
    )


# -- lists ---------------------------------------------------------------------------------------


async def test_pages_show_one_moment(kube):
    """What changes between two pages is not seen in the second: all show the state at the first."""
    for name in ("a", "b", "c"):
        await kube.create(MAPS, settings(name, mine="1"))
    asked = {"labelSelector": "mine=1"}
    first = await kube.get(MAPS, limit="2", **asked)
    assert [item["metadata"]["name"] for item in first.body["items"]] == ["a", "b"]
    assert "kind" not in first.body["items"][0]
    await kube.create(MAPS, settings("d", mine="1"))
    await kube.delete(MAPS, "c")
    second = await kube.get(MAPS, limit="2", **asked, **{"continue": first.body["metadata"]["continue"]})
    assert [item["metadata"]["name"] for item in second.body["items"]] == ["c"]
    assert second.version == first.version
    assert not second.body["metadata"].get("continue")


async def test_token_that_nobody_gave(kube):
    """A continue token that cannot be read is a bad request."""
    assert (await kube.get(MAPS, limit="2", **{"continue": "nonsense"})).status == 400


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("", {"a", "b"}),
        ("x=1", {"a"}),
        ("x!=1", {"b"}),
        ("x in (1, 2)", {"a", "b"}),
        ("x notin (1)", {"b"}),
        ("y", {"b"}),
        ("!y", {"a"}),
        ("x,!y", {"a"}),
    ],
)
async def test_label_selectors(kube, selector, names):
    """Equality, sets and existence select by labels."""
    await kube.create(MAPS, settings("a", x="1"))
    await kube.create(MAPS, settings("b", x="2", y="3"))
    found = (await kube.get(MAPS, labelSelector=selector)).body["items"]
    assert {item["metadata"]["name"] for item in found} - {"kube-root-ca.crt"} == names


async def test_field_selectors(kube):
    """Pods are selected by node and phase."""
    await kube.create("pods", pod("a", nodeName="no-such-node"))
    await kube.create("pods", pod("b"))
    asked = "spec.nodeName=no-such-node,status.phase!=Succeeded,status.phase!=Failed"
    found = (await kube.get("pods", fieldSelector=asked)).body["items"]
    assert [item["metadata"]["name"] for item in found] == ["a"]


# -- watches -------------------------------------------------------------------------------------


async def test_watch_from_a_version(kube):
    """A watch tells everything after its version, once each, and the last state of what is gone."""
    start = await kube.get(MAPS)
    made = await kube.create(MAPS, settings())
    await kube.patch(MAPS, "one", {"data": {"b": "2"}}, form=MERGE)
    await kube.delete(MAPS, "one")
    asked = {"resourceVersion": start.version, "fieldSelector": "metadata.name=one"}
    events = await kube.watch(MAPS, 3, **asked)
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))
    assert versions[0] == int(made.version)
    assert events[2]["object"]["data"] == {"a": "1", "b": "2"}


async def test_watch_with_a_selector(kube):
    """What begins to match is added, what ceases to is deleted with its last matching state."""
    await kube.create(MAPS, settings(x="1"))
    start = await kube.get(MAPS)
    for value in ("2", "3", "1"):
        await kube.patch(MAPS, "one", {"metadata": {"labels": {"x": value}}}, form=MERGE)
    events = await kube.watch(MAPS, 2, resourceVersion=start.version, labelSelector="x=2")
    assert [event["type"] for event in events] == ["ADDED", "DELETED"]
    assert events[1]["object"]["metadata"]["labels"] == {"x": "2"}


async def test_watch_that_begins_with_everything(kube):
    """`sendInitialEvents` tells what is there and then, by a bookmark, that this was all."""
    await kube.create(MAPS, settings())
    asked = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "fieldSelector": "metadata.name=one",
    }
    events = await kube.watch(MAPS, 2, **asked)
    assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
    assert events[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_watch_with_everything_needs_a_match(kube):
    """`sendInitialEvents` without `resourceVersionMatch` is refused."""
    events = await kube.watch(MAPS, 1, sendInitialEvents="true", allowWatchBookmarks="true")
    assert (events[0]["type"], events[0]["object"]["code"]) == ("HTTP", 422)


async def test_watch_from_a_forgotten_version(kube):
    """A version that the server has forgotten gets a 410, as an ERROR event."""
    await kube.create("pods", pod())
    if kube.fake is not None:
        kube.fake.store.compact()
    elif kube.endpoint.name != "kube-apiserver":
        pytest.skip("how far back a cluster remembers depends on its age")
    events = await kube.watch("pods", 1, resourceVersion="1")
    assert (events[0]["type"], events[0]["object"]["code"]) == ("ERROR", 410)
    assert events[0]["object"]["reason"] == "Expired"


async def test_watch_ends_in_time(kube):
    """A watch ends by itself after `timeoutSeconds`."""
    start = await kube.get(MAPS)
    assert await kube.watch(MAPS, 9, resourceVersion=start.version, timeoutSeconds="1") == []


async def test_ending_namespace_takes_nothing_new(kube):
    """Nothing can be made in a namespace that is being deleted."""
    await kube.create(MAPS, {**settings(), "metadata": {"name": "one", "finalizers": ["specon.io/test"]}})
    await kube.ask("DELETE", f"/api/v1/namespaces/{kube.namespace}")
    answer = await kube.create(MAPS, settings("two"))
    assert (answer.status, answer.causes) == (403, ["NamespaceTerminating"])
    await kube.patch(MAPS, "one", {"metadata": {"finalizers": None}}, form=MERGE)
