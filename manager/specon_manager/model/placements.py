"""The records of one moment: transactions in flight, where each replica is, and who waits."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

from specon_manager.model.census import NOBODY, Census, take_census
from specon_manager.model.cluster import Claimed, Job, Node, Replica, Served
from specon_manager.model.constraints import ANYWHERE
from specon_manager.model.members import Members, OnNode
from specon_manager.model.paces import KindPaces
from specon_manager.model.queues import Queue
from specon_manager.model.renewal import Chosen
from specon_manager.model.resources import Resources
from specon_manager.model.rooms import Rooms, rooms
from specon_manager.model.settings import Settings
from specon_manager.model.slices import NONE, Slices, slices
from specon_manager.model.survey import Settled, Survey, survey_records
from specon_manager.model.transactions import Kind, Transaction


class Placements:
    """The records of one moment. Nothing in it changes."""

    def __init__(
        self,
        *,
        now: float,
        nodes: Mapping[str, Node],
        jobs: Mapping[str, Job],
        replicas: Mapping[str, Replica],
        transactions: Mapping[str, Transaction] | None = None,
        claims: Mapping[str, Claimed] | None = None,
        served: Mapping[str, Served] | None = None,
        paces: Mapping[str, Mapping[int, float]] | None = None,
        setup_paces: Mapping[str, KindPaces] | None = None,
        changed_at: float = 0.0,
        queues: Mapping[str, Queue] | None = None,
        withheld: Mapping[str, str] | None = None,
        settings: Settings | None = None,
    ) -> None:
        """Take the records as they are; `transactions` are those in flight, by id.

        `claims` is by waiting job: those whose time is over are left out. `served` and paces are by kind of
        job; `changed_at` is when a job was last admitted, scaled or preempted. `withheld` are waiting jobs
        that no policy is to see now, each with the reason.
        """
        self.now = now
        self.nodes = nodes
        self.jobs = jobs
        self.replicas = replicas
        self.transactions: Mapping[str, Transaction] = {} if transactions is None else transactions
        self.claims: Mapping[str, Claimed] = {
            job: claim for job, claim in (claims or {}).items() if claim.until > now
        }
        self.served: Mapping[str, Served] = {} if served is None else served
        self.paces: Mapping[str, Mapping[int, float]] = {} if paces is None else paces
        self.setup_paces: Mapping[str, KindPaces] = {} if setup_paces is None else setup_paces
        self.changed_at = changed_at
        self.queues: Mapping[str, Queue] = {} if queues is None else queues
        self.withheld: Mapping[str, str] = {} if withheld is None else withheld
        self.settings = Settings() if settings is None else settings
        self._root: Survey | None = None
        """The survey of the snapshot from which this one differs in a few replicas."""
        self._beside: dict[str, tuple[Replica, ...]] = {}
        """The replicas of each node where they differ from the root's."""
        self._counted: dict[str, tuple[tuple[Replica, ...], Census]] = {}

    @property
    def reweight(self) -> bool:
        """Whether shares of processors can be changed in place."""
        return self.settings.reweight

    @cached_property
    def slices(self) -> Slices:
        """Who takes turns on which GPUs."""
        return slices(self.jobs, self.replicas, self.nodes) if self.settings.time_slices else NONE

    @cached_property
    def ready_nodes(self) -> tuple[Node, ...]:
        """The nodes that take replicas, by name."""
        return self.free.ready

    @property
    def capacities(self) -> Mapping[str, Resources]:
        """What each ready node has, in the order of `ready_nodes`."""
        return self.free.capacity

    @property
    def largest(self) -> Resources:
        """The largest amount of each kind that a ready node has."""
        return self.free.largest

    @cached_property
    def free(self) -> Rooms:
        """The room that no replica holds, without regard to `_beside` and `_leaving`."""
        root = self._survey if self._root is None else self._root
        return rooms(self.nodes, root.census)

    # -- transactions in flight ------------------------------------------------------------------

    @cached_property
    def moving(self) -> Mapping[str, Transaction]:
        """The transaction in flight of each replica that is in one."""
        return {name: each for each in self.transactions.values() for name in each.concerned}

    @cached_property
    def changing(self) -> Mapping[str, Transaction]:
        """The transaction in flight of each job that is changed as a whole."""
        return {each.job: each for each in self.transactions.values() if each.whole}

    @cached_property
    def moves(self) -> tuple[Transaction, ...]:
        """The moves in flight that count in the budgets."""
        return tuple(each for each in self.transactions.values() if each.kind is Kind.MOVE and each.counts)

    @cached_property
    def busy(self) -> Mapping[str, int]:
        """Of how many moves in flight a node is the source or the target; none of those not named."""
        return Counter(node for move in self.moves for node in move.nodes)

    def leaves(self, replica: Replica) -> bool:
        """Whether a replica is about to leave its node, and no transaction in flight brings it back."""
        transaction = self.moving.get(replica.name)
        if transaction is not None:
            return replica.name not in transaction.wanted
        return replica.leaving is not None

    @cached_property
    def leavers(self) -> tuple[tuple[str, Replica], ...]:
        """The replicas that are about to leave their nodes (see `leaves`), each with that node."""
        names, at = {*self._survey.pressing, *self.moving}, self._survey.position
        known = sorted((name for name in names if name in self.replicas), key=at.__getitem__)
        found = ((self.replicas[name], self.place(self.replicas[name])) for name in known)
        return tuple((place, each) for each, place in found if place is not None and self.leaves(each))

    # -- who is where ----------------------------------------------------------------------------

    @cached_property
    def on_node(self) -> Mapping[str, tuple[Replica, ...]]:
        """The replicas that hold room on each node, as it will be when everything in flight has succeeded."""
        root = self._survey if self._root is None else self._root
        return OnNode(self.nodes, root.on_node, self.replicas, self._beside)

    @cached_property
    def settled(self) -> tuple[Replica, ...]:
        """The converged replicas that run and are in no transaction, the longest converged first."""
        replicas = self.replicas
        return tuple([replicas[name] for _, _, name, _ in self._survey.settled])

    @property
    def settled_places(self) -> Sequence[Settled]:
        """Of `settled`, in that order, who they are and where: without a look at their records."""
        return self._survey.settled

    @cached_property
    def pending(self) -> tuple[Replica, ...]:
        """The pending replicas, those that may not start yet among them, but no withheld ones."""
        found, withheld, moving = self.all_pending, self.withheld, self.moving
        if not withheld and not moving:
            return found
        return tuple(
            replica
            for replica in found
            if replica.job not in withheld and replica.name not in moving and replica.job not in self.changing
        )

    @cached_property
    def all_pending(self) -> tuple[Replica, ...]:
        """The pending replicas, those that are withheld or in flight among them."""
        replicas = self.replicas
        return tuple([replicas[name] for name in self._survey.pending])

    @property
    def active_jobs(self) -> Mapping[str, int]:
        """How many replicas occupy nodes, of each job that has any."""
        return self._survey.active

    @cached_property
    def pressing(self) -> tuple[Replica, ...]:
        """The replicas that were told to end, are missing, or were started and not seen yet."""
        return tuple([self.replicas[name] for name in self._survey.pressing])

    @cached_property
    def _survey(self) -> Survey:
        root = self._root
        return (
            survey_records(self.replicas, self.moving)
            if root is None
            else root.renewed(self.replicas, self.moving)
        )

    @property
    def sharing(self) -> tuple[str, ...]:
        """The ready nodes on which somebody reserves neither processors nor GPUs, in their order."""
        found, ready = {*self.free.sharing, *self._beside}, self.free.rank
        there = (name for name in found if name in ready and self.census(name).sharing)
        return tuple(sorted(there, key=ready.__getitem__))

    def place(self, replica: Replica) -> str | None:
        """Return the node on which the replica holds room, or will when its transaction has succeeded."""
        transaction = self.moving.get(replica.name)
        if transaction is not None and (node := transaction.wanted.get(replica.name)):
            return node
        return replica.node if replica.occupies else None

    def census(self, node: str) -> Census:
        """Return the count of `on_node[node]`; counted once, since a plan asks thousands of times."""
        replicas = self._beside.get(node)
        if replicas is None:
            root = self._survey if self._root is None else self._root
            return root.census.get(node, NOBODY)
        known = self._counted.get(node)
        if known is not None and known[0] is replicas:
            return known[1]
        census = take_census(replicas)
        self._counted[node] = (replicas, census)
        return census

    @property
    def counts(self) -> Mapping[str, Census]:
        """What `census` tells of each node on which there is anything."""
        root = self._survey if self._root is None else self._root
        if not self._beside:
            return root.census
        return {**root.census, **{node: self.census(node) for node in self._beside}}

    @cached_property
    def particular(self) -> frozenset[str]:
        """The jobs that have several replicas, or rules of their own on whether and where these move.

        A move of any other job is judged without its record, because a large cluster has many of these.
        """
        return frozenset(_particular(self.jobs))

    @cached_property
    def members(self) -> Mapping[str, tuple[Replica, ...]]:
        """The replicas of each job that has not ended, in the order of its description."""
        return Members(self.jobs, self.replicas)


def _is_particular(job: Job) -> bool:
    spec = job.spec
    bound = spec.constraints
    return (
        len(spec.replicas) != 1
        or spec.checkpointing == "none"
        or not spec.migratable
        or spec.share != "none"
        or bool(spec.immovable or job.dropped)
        # Most jobs may run anywhere: the first Tick asks all of them.
        or (bound is not ANYWHERE and bool(bound.selector or bound.terms or bound.volumes))
    )


_particular: Final = Chosen(_is_particular)
