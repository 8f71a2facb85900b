"""The pod that leads is kept until what is on its node has left, and within the patience of one drain."""

from datetime import UTC, datetime

from specon_manager.backends.kube.interception.eviction import Eviction
from specon_manager.backends.kube.interception.leader_last import KEPT_SINCE, LeaderLast

NOW = 1_800_000_000.0
EVICTION = Eviction(review="r", namespace="specon", name="manager-0", user="admin")


class OnePod:
    """An API server with the manager's own pod."""

    def __init__(self, since):
        at = {} if since is None else {KEPT_SINCE: datetime.fromtimestamp(since, UTC).isoformat()}
        self.pod = {"metadata": {"uid": "u", "annotations": at}, "spec": {"nodeName": "node-0"}}

    async def get(self, kind, name, namespace):
        return self.pod

    async def patch(self, kind, name, namespace, change, *, form):
        self.pod["metadata"]["annotations"] |= change["metadata"]["annotations"]


async def verdict(since):
    api = OnePod(since)
    leads = LeaderLast(api, namespace="specon", leader=lambda: "manager-0", patience=60.0, wall=lambda: NOW)
    answer = await leads.answer(EVICTION, lambda node: node == "node-0")
    kept = datetime.fromisoformat(api.pod["metadata"]["annotations"][KEPT_SINCE]).timestamp()
    return answer.verdict, NOW - kept


async def test_it_is_kept_for_as_long_as_the_patience_and_no_longer():
    """Since when is written once."""
    assert await verdict(None) == ("wait", 0.0)
    assert await verdict(NOW - 59) == ("wait", 59.0)
    assert await verdict(NOW - 61) == ("pass", 61.0)


async def test_a_drain_that_was_given_up_takes_nothing_of_the_patience_of_the_next_one():
    """It is kept again, counted from now."""
    assert await verdict(NOW - 6 * 3600) == ("wait", 0.0)
