"""Who else leads over the same namespaces, as far as Leases tell, and whom one goes on to lead beside."""

import asyncio

import pytest

from specon_manager.backends.base import NotLeadingError
from specon_manager.backends.kube.transport.api import ApiError
from specon_manager.backends.kube.transport.reading import ReadGuard
from specon_manager.backends.kube.transport.resources import LEASES
from specon_manager.backends.kube.transport.rivals import KEPT_BY, NAMESPACES, Rivals
from support.clocks.virtual_time import run_virtually, virtual_now

OWN, OTHER = ("specon", "specon"), ("other", "other")


class Cluster:
    """Leases, which live ones renew every two seconds, and webhook configurations."""

    def __init__(self):
        self.reading = ReadGuard()
        self.leases, self.alive, self.configurations = {}, set(), []
        self.error = None
        self.asked = 0

    def hold(
        self, place, *, namespaces="", holder="them", since="2026-01-01T00:00:00Z", alive=True, seconds=12
    ):
        self.leases[place] = {
            "metadata": {"namespace": place[0], "name": place[1], "annotations": {NAMESPACES: namespaces}},
            "spec": {"holderIdentity": holder, "acquireTime": since, "leaseDurationSeconds": seconds},
        }
        self.alive |= {place} if alive else set()

    def install(self, namespace, name="inject.specon.io"):
        service = {"clientConfig": {"service": {"namespace": namespace}}}
        self.configurations.append({"metadata": {"name": "theirs"}, "webhooks": [{"name": name, **service}]})

    def install_outside(self, configuration, place, name="inject.specon.io"):
        """Let somebody who is not in the cluster keep a configuration."""
        marked = {"name": configuration, "annotations": {KEPT_BY: "/".join(place)}}
        url = {"clientConfig": {"url": "https://10.0.0.1:8443/v1/admission/inject"}}
        self.configurations.append({"metadata": marked, "webhooks": [{"name": name, **url}]})

    async def list(self, resource, *, label_selector=""):
        self.asked += 1
        if self.error is not None:
            raise self.error
        if resource is not LEASES:
            return self.configurations, "1"
        assert label_selector == "specon.io/lease=manager"
        for place, lease in self.leases.items():
            changes = int(virtual_now() / 2) if place in self.alive else 0
            lease["metadata"]["resourceVersion"] = str(changes)
        return list(self.leases.values()), "1"


def rivals_in(cluster, *namespaces):
    labels = {"specon.io/lease": "manager"}
    return Rivals(
        cluster,
        lease=OWN,
        labels=labels,
        namespaces=namespaces,
        configuration="ours",
        monotonic=virtual_now,
    )


def waited(cluster, *namespaces, seconds=300.0):
    """Return after how many seconds nobody else is there, None for longer than `seconds`, and for whom."""

    async def scenario():
        rivals = rivals_in(cluster, *namespaces)
        try:
            async with asyncio.timeout(seconds):
                await rivals.absent()
        except TimeoutError:
            return None, rivals.present
        return virtual_now(), rivals.present

    return run_virtually(scenario())


def test_alone_one_waits_for_nobody():
    """Not even where one's own Lease is held, by another replica."""
    cluster = Cluster()
    cluster.hold(OWN)
    assert waited(cluster) == (0.0, None)
    assert cluster.asked == 1


@pytest.mark.parametrize(
    ("theirs", "ours", "stands_by"),
    [
        ("", (), True),
        ("", ("a",), True),
        ("a,b", (), True),
        ("a,b", ("b", "c"), True),
        ("a,b", ("c",), False),
    ],
)
def test_one_stands_by_where_namespaces_are_shared(theirs, ours, stands_by, caplog):
    """Who is there is said once, with its Lease and its namespaces."""
    cluster = Cluster()
    cluster.install("other")
    cluster.hold(OTHER, namespaces=theirs)
    seconds, present = waited(cluster, *ours)
    assert (seconds is None) is stands_by
    assert (present is not None) is stands_by
    where = theirs.replace(",", ", ") or "all namespaces"
    said = f"them leads by the Lease other/other and looks after {where}"
    whole = f"standing by for another release of specon: {said}"
    assert [record.message for record in caplog.records] == ([whole] if stands_by else [])


def test_a_lease_that_a_dead_release_left_is_waited_out_once():
    """Its own time, as nobody renews it; one that was given back, not at all."""
    cluster = Cluster()
    cluster.hold(("specon", "left"), alive=False)
    seconds, present = waited(cluster)
    assert 12 <= seconds <= 18
    assert present is None
    cluster.hold(("specon", "left"), holder="", alive=False)
    assert waited(cluster)[0] == 0.0


@pytest.mark.parametrize(
    ("configuration", "theirs", "ours", "stands_by"),
    [
        ("theirs", "", (), True),
        ("theirs", "a", ("b",), False),
        ("ours", "", (), True),
        ("ours", "a", ("b",), True),
    ],
)
def test_one_outside_the_cluster_is_seen_by_the_mark_of_what_it_keeps(configuration, theirs, ours, stands_by):
    """Its webhook has a URL and no Service. One configuration has one keeper, whatever its namespaces are."""
    cluster = Cluster()
    cluster.install_outside(configuration, OTHER)
    cluster.hold(OTHER, namespaces=theirs)
    seconds, present = waited(cluster, *ours)
    assert (seconds is None) is stands_by
    assert (present is not None) is stands_by
    kept = "it keeps our webhook configuration ours"
    assert (kept in str(present)) is (stands_by and configuration == "ours")


def test_a_mark_on_what_is_not_specons_is_not_believed():
    """Other webhooks belong to others, and their authors are not trusted."""
    cluster = Cluster()
    cluster.install_outside("policy", OTHER, name="policy.example.com")
    cluster.hold(OTHER)
    assert waited(cluster) == (0.0, None)


def test_a_mark_that_a_dead_manager_left_is_waited_out_once():
    """Nobody renews its Lease any more."""
    cluster = Cluster()
    cluster.install_outside("ours", OTHER)
    cluster.hold(OTHER, alive=False)
    seconds, present = waited(cluster)
    assert 12 <= seconds <= 18
    assert present is None


def test_a_lease_that_a_tenant_made_is_not_believed():
    """Anybody may write Leases; only those count where an administrator has specon's webhook."""
    cluster = Cluster()
    cluster.install("elsewhere")
    cluster.install("tenant", name="policy.example.com")
    cluster.hold(("tenant", "specon"))
    assert waited(cluster)[0] == 0.0


@pytest.mark.parametrize(
    "lease",
    [{"metadata": {}}, {"metadata": {"namespace": "specon", "name": "x"}, "spec": [7]}],
)
def test_a_lease_that_makes_no_sense_says_nothing(lease):
    """And stops nobody."""
    cluster = Cluster()
    cluster.leases["odd"] = lease
    assert waited(cluster)[0] == 0.0


def test_who_may_not_look_leads_as_before(caplog):
    """With the roles of an earlier chart; it is said once."""
    cluster = Cluster()
    cluster.error = ApiError(403, "Forbidden", "leases is forbidden")
    assert waited(cluster) == (0.0, None)
    assert ["is not known" in record.message for record in caplog.records] == [True]


@pytest.mark.parametrize(("theirs", "ours", "deposed"), [("01", "02", True), ("02", "01", False)])
def test_of_two_that_lead_the_later_one_goes(theirs, ours, deposed):
    """As their Leases tell when they were taken; so exactly one of them stays."""
    cluster = Cluster()
    cluster.install("other")
    cluster.hold(OTHER, since=f"2026-01-01T00:00:{theirs}Z")
    cluster.hold(OWN, since=f"2026-01-01T00:00:{ours}Z")

    async def scenario():
        async with asyncio.timeout(60):
            await rivals_in(cluster).watch()

    ends = NotLeadingError if deposed else TimeoutError
    with pytest.raises(
        ends, match="was here first: them leads by the Lease other/other" if deposed else None
    ):
        run_virtually(scenario())


def test_of_two_that_lead_the_one_stays_whose_mark_the_configuration_has():
    """It cannot see the other one, and so cannot go for it, though it came later."""
    cluster = Cluster()
    cluster.install_outside("ours", OTHER)
    cluster.hold(OTHER, since="2026-01-01T00:00:02Z")
    cluster.hold(OWN, since="2026-01-01T00:00:01Z")

    async def scenario():
        async with asyncio.timeout(60):
            await rivals_in(cluster).watch()

    with pytest.raises(NotLeadingError, match="it keeps our webhook configuration ours"):
        run_virtually(scenario())
