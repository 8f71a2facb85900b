"""Leases: the rules that leader election stands on."""

LEASES = "coordination.k8s.io/v1/leases"


def lease(holder: str = "a", **metadata):
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": 12,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.000000Z",
        "leaseTransitions": 0,
    }
    return {"metadata": {"name": "manager", **metadata}, "spec": spec}


async def test_only_one_makes_it(kube):
    """The second creation of a Lease is refused."""
    assert (await kube.create(LEASES, lease("a"))).status == 201
    answer = await kube.create(LEASES, lease("b"))
    assert (answer.status, answer.body["reason"]) == (409, "AlreadyExists")


async def test_only_one_takes_it_over(kube):
    """The server refuses the second of two candidates that saw the same version."""
    made = await kube.create(LEASES, lease())
    assert (await kube.put(LEASES, lease("b", resourceVersion=made.version))).status == 200
    answer = await kube.put(LEASES, lease("c", resourceVersion=made.version))
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")
    assert (await kube.get(LEASES, "manager")).body["spec"]["holderIdentity"] == "b"


async def test_no_blind_takeover(kube):
    """A PUT that does not say which version it saw is refused."""
    await kube.create(LEASES, lease())
    assert (await kube.put(LEASES, lease("b"))).status == 422


async def test_released(kube):
    """A Lease may have no holder, but no duration of nothing."""
    made = await kube.create(LEASES, lease())
    assert (await kube.put(LEASES, lease("", resourceVersion=made.version))).status == 200
    wrong = lease()
    wrong["spec"]["leaseDurationSeconds"] = 0
    wrong["metadata"]["resourceVersion"] = (await kube.get(LEASES, "manager")).version
    assert (await kube.put(LEASES, wrong)).status == 422
