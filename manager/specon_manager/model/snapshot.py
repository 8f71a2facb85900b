"""The immutable snapshot of the cluster that policies decide on."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Final

import msgspec

from specon_manager.model.census import NOBODY, Census, counted
from specon_manager.model.cluster import Claimed, Job, Node, Phase, Replica, Served
from specon_manager.model.constraints import Constraints, objection
from specon_manager.model.members import Members, OnNode
from specon_manager.model.overlay import Overlay
from specon_manager.model.paces import KindPaces
from specon_manager.model.queues import Queue
from specon_manager.model.renewal import Chosen
from specon_manager.model.resources import NOTHING, Resources, total
from specon_manager.model.rooms import Rooms, rooms
from specon_manager.model.settings import Settings
from specon_manager.model.slices import NONE, Slices, slices, too_little_memory
from specon_manager.model.survey import Settled, Survey, surveyed
from specon_manager.model.transactions import Kind, Transaction


class Snapshot:
    """Everything a policy may look at, at one moment. Nothing in it changes."""

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
        """What is on those nodes on which something else is."""
        self._counted: dict[str, tuple[tuple[Replica, ...], Census]] = {}
        self._rooms: dict[str, Resources] = {}
        self._objections: dict[Constraints, dict[str, str | None]] = {}

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
        """What is free beside what holds room, but for `_beside` and `_leaving`."""
        root = self._survey if self._root is None else self._root
        return rooms(self.nodes, root.census)

    # -- what is in flight -----------------------------------------------------------------------

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
        """Whether a replica is about to leave its node, and does not come back by what is in flight."""
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
            surveyed(self.replicas, self.moving) if root is None else root.renewed(self.replicas, self.moving)
        )

    @property
    def sharing(self) -> tuple[str, ...]:
        """The ready nodes on which somebody reserves neither processors nor GPUs, in their order."""
        found, ready = {*self.free.sharing, *self._beside}, self.free.rank
        there = (name for name in found if name in ready and self.census(name).sharing)
        return tuple(sorted(there, key=ready.__getitem__))

    def place(self, replica: Replica) -> str | None:
        """Return the node on which the replica holds room, or will when what is in flight has succeeded."""
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
        census = counted(replicas)
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

        Of all others a move is judged without a look at their records, of which a large cluster has many.
        """
        return frozenset(_particular(self.jobs))

    # -- jobs ------------------------------------------------------------------------------------

    @cached_property
    def members(self) -> Mapping[str, tuple[Replica, ...]]:
        """The replicas of each job that has not ended, in the order of its description."""
        return Members(self.jobs, self.replicas)

    @cached_property
    def waiting(self) -> tuple[Job, ...]:
        """The jobs none of whose replicas occupies a node and all of which may start now, oldest first.

        Each is described by what has not ended of it, with the numbers of workers that are left then.
        """
        now, jobs, moving, found = self.now, self.jobs, self.moving, list[Job]()
        for name in dict.fromkeys(replica.job for replica in self.pending):
            replicas = self.members.get(name, ())
            if not _waits(replicas, now) or (moving and any(each.name in moving for each in replicas)):
                continue
            # A long queue is asked for at each Tick, and most jobs have one replica, which waits.
            found.append(jobs[name] if len(replicas) == 1 else _open(jobs[name], replicas))
        return tuple(sorted(found, key=lambda job: job.order))

    @cached_property
    def running(self) -> tuple[Job, ...]:
        """The jobs of which at least one replica occupies a node and none was told to end, oldest first.

        Not those that nobody but their owners can end or scale, and not those that are changed as a whole.
        A job of which a worker is being scaled in at once is among them; its worker is not among `workers`.
        """
        found = [self.jobs[name] for name in self._survey.active if self.runs(name)]
        found.sort(key=attrgetter("order"))
        return tuple(found)

    def runs(self, job: str) -> bool:
        """Whether the job is one of `running`."""
        if job not in self._survey.active or job in self._ending or job in self.changing:
            return False
        record = self.jobs[job]
        return record.ended_at is None and record.spec.adjustable

    @cached_property
    def _told(self) -> frozenset[str]:
        """The jobs of which something is to end with the rest of it."""
        return frozenset(
            each.job
            for each in self.pressing
            if _ends(each) and each.job in self.jobs and each.name in self.jobs[each.job].spec.replicas
        )

    @cached_property
    def doomed(self) -> frozenset[str]:
        """The jobs of which `about_to_end` holds."""
        return self._told | {job for job, each in self.changing.items() if not each.wanted}

    @cached_property
    def _ending(self) -> frozenset[str]:
        """The jobs of which something occupies a node and is to end with the rest of it."""
        return frozenset(each.job for each in self.pressing if each.active and _ends(each))

    @cached_property
    def unplaced(self) -> tuple[Replica, ...]:
        """The pending replicas that may start now, oldest job first: also those of jobs that run in part.

        Not those whose peers were told to end with them and are not gone yet: all of them wait together. Nor
        those that have kept their room after a crash: the manager starts them there again.
        """
        now, jobs = self.now, self.jobs
        found = [
            replica
            for replica in self.pending
            if replica.not_before <= now and not replica.holds and not self.about_to_end(replica.job)
        ]
        return tuple(sorted(found, key=lambda replica: (jobs[replica.job].order, replica.name)))

    def about_to_end(self, job: str) -> bool:
        """Whether something of the job occupies a node and is to end with the rest of it."""
        whole, replicas = self.changing.get(job), self.replicas
        if whole is not None and not whole.wanted:
            return True
        if self._root is None:
            return job in self._told
        return any(_ends(replicas[name]) for name in self.jobs[job].spec.replicas)

    def workers(self, job: str) -> tuple[Replica, ...]:
        """Return the workers of a job that occupy nodes and stay, by index."""
        found = [
            replica
            for replica in self.members.get(job, ())
            if replica.active and not self.leaves(replica) and replica.role != "ps"
        ]
        return tuple(sorted(found, key=lambda replica: replica.index))

    def servers(self, job: str) -> tuple[Replica, ...]:
        """Return the parameter servers of a job that occupy nodes, by index."""
        found = [r for r in self.members.get(job, ()) if r.active and r.role == "ps"]
        return tuple(sorted(found, key=lambda replica: replica.index))

    def starts_whole(self, job: str) -> bool:
        """Whether a waiting job starts with all that waits of it, or not at all."""
        spec = self.jobs[job].spec
        if not spec.transacted or len(spec.replicas) == 1:
            return False
        return not any(self.replicas[name].active for name in spec.replicas)

    # -- what if ---------------------------------------------------------------------------------

    def with_starts(self, placement: Mapping[str, str]) -> "Snapshot":
        """Return the snapshot in which each replica was started on its node.

        The room that was kept for their jobs is what they take now: it does not count twice.
        """
        records = [
            msgspec.structs.replace(self.replicas[name], phase=Phase.STARTING, node=node, holds=False)
            for name, node in placement.items()
        ]
        return self._change(records, claims=self._find_unclaimed(record.job for record in records))

    def with_records(self, records: Iterable[Replica]) -> "Snapshot":
        """Return the snapshot with these records in place of the former ones of the same replicas."""
        return self._change(list(records))

    def with_transaction(self, transaction: Transaction) -> "Snapshot":
        """Return the snapshot in which the transaction is in flight; what waits for room has it by then."""
        records = [self.replicas[name] for name in transaction.concerned]
        transactions = {**self.transactions, transaction.id: transaction}
        claims = self._find_unclaimed([transaction.job])
        return self._change(records, transactions=transactions, claims=claims)

    def with_claim(self, job: str, claim: Claimed | None) -> "Snapshot":
        """Return the snapshot in which the job has this claim, or none."""
        claims = dict(self.claims)
        claims.pop(job, None)
        if claim is not None and claim.until > self.now:
            claims[job] = claim
        return self._change([], claims=claims)

    def without(self, withheld: Mapping[str, str]) -> "Snapshot":
        """Return the snapshot in which these waiting jobs are not seen, each for its reason."""
        return self._change([], withheld=withheld) if withheld else self

    def _find_unclaimed(self, jobs: Iterable[str]) -> Mapping[str, Claimed] | None:
        """Return the claims without those of these jobs, None where they have none."""
        gone = set(jobs)
        if gone.isdisjoint(self.claims):
            return None
        return {job: claim for job, claim in self.claims.items() if job not in gone}

    def _change(
        self,
        records: list[Replica],
        *,
        transactions: Mapping[str, Transaction] | None = None,
        claims: Mapping[str, Claimed] | None = None,
        withheld: Mapping[str, str] | None = None,
    ) -> "Snapshot":
        """Return a copy that differs in a few replicas, without counting the whole cluster anew."""
        replicas = self.replicas
        for after in records:
            if replicas[after.name] is not after:
                known = replicas if isinstance(replicas, Overlay) else Overlay(replicas, {})
                replicas = known.with_change(after.name, after)
        changed = Snapshot(
            now=self.now,
            nodes=self.nodes,
            jobs=self.jobs,
            replicas=replicas,
            transactions=self.transactions if transactions is None else transactions,
            served=self.served,
            paces=self.paces,
            setup_paces=self.setup_paces,
            changed_at=self.changed_at,
            queues=self.queues,
            withheld=self.withheld if withheld is None else withheld,
            settings=self.settings,
        )
        changed.claims = self.claims if claims is None else claims  # of those that hold now
        changed._root = self._survey if self._root is None else self._root
        changed._beside = self._beside
        if records:
            on_node, beside = self.on_node, dict(self._beside)
            for after in records:
                left, joined = self.place(self.replicas[after.name]), changed.place(after)
                if left is not None and left in on_node:
                    there = beside[left] if left in beside else on_node[left]
                    beside[left] = tuple([replica for replica in there if replica.name != after.name])
                if joined is not None and joined in on_node:
                    there = beside[joined] if joined in beside else on_node[joined]
                    beside[joined] = (*there, after)
            changed._beside = beside
        changed.__dict__["free"] = self.free
        if "particular" in self.__dict__:
            changed.__dict__["particular"] = self.particular  # the jobs do not differ
        changed._objections = self._objections  # neither nodes nor descriptions differ
        changed._counted = self._counted  # what was counted is kept with what it was counted of
        return changed

    # -- room ------------------------------------------------------------------------------------

    @cached_property
    def _leaving(self) -> Mapping[str, Resources]:
        """What each node still holds of replicas that are to leave it, or that may have to come back to it.

        The source of a move does until the move ends; on the way back the target does until nothing is left
        of the replica on it.
        """
        held: dict[str, Resources] = {}
        for transaction in self.transactions.values():
            for name in transaction.concerned:
                replica = self.replicas.get(name)
                if replica is None:
                    continue
                nodes = {replica.node} if replica.active else set[str | None]()
                if transaction.keeps_way_back:
                    nodes.add(transaction.before.get(name))
                for node in nodes - {self.place(replica), None, ""}:
                    assert node is not None
                    held[node] = held.get(node, NOTHING) + replica.requests
        return held

    def room(self, node: str) -> Resources:
        """Return what nobody has requested on `node`, room held for what is in flight counted as taken."""
        known = self._rooms.get(node)
        if known is not None:
            return known
        if node not in self._beside and node not in self._leaving:
            free = self.free.free.get(node)
            if free is not None:
                return free
        used = self.census(node).requests
        if node in self._leaving:
            used += self._leaving[node]
        room = self.nodes[node].capacity - used
        self._rooms[node] = room
        return room

    def rooms(self) -> tuple[dict[str, Resources], dict[str, tuple[float, float, float]], dict[str, int]]:
        """Return `room` of each ready node, the same as three numbers, and how many replicas it holds.

        By name, in the order of `ready_nodes`; all of it is the caller's own.
        """
        known = self.free
        free, parts, count = dict(known.free), dict(known.parts), dict(known.count)
        for node in self._leaving.keys() | self._beside.keys():
            if node in free:
                free[node] = room = self.room(node)
                parts[node] = room.cpu, room.memory, room.gpu
                count[node] = self.census(node).replicas
        return free, parts, count

    def objection_to(self, node: str, job: str) -> str | None:
        """Return what rules a node out for the replicas of a job: taint, label, volume, GPUs; None: nothing.

        Whether it is ready and has room is another question.
        """
        record, constraints = self.nodes[node], self.jobs[job].spec.constraints
        if self.jobs[job].spec.share != "none" and self.settings.time_slices:
            crowded = too_little_memory(self.jobs[job], record, self.on_node.get(node, ()), self.jobs)
            if crowded is not None:
                return crowded
        restricted = record.taints or constraints.selector or constraints.terms or constraints.volumes
        if not restricted:
            return None
        known = self._objections.setdefault(constraints, {})
        if node not in known:
            known[node] = objection(record.labels, node, record.taints, constraints)
        return known[node]

    @cached_property
    def _claimed(self) -> Mapping[str, tuple[tuple[str, Resources], ...]]:
        """What is claimed on each node: (job, amount)."""
        found: dict[str, list[tuple[str, Resources]]] = {}
        for job, claim in self.claims.items():
            if job not in self.jobs:
                continue
            for replica, node in claim.placement:
                found.setdefault(node, []).append((job, self.replicas[replica].requests))
        return {node: tuple(claims) for node, claims in found.items()}

    def open_room(self, node: str, job: str | None = None) -> Resources:
        """Return the room on a node that no job but this one has a claim to."""
        room = self.room(node)
        if not self.claims:
            return room
        if self.firm is not None and (job == self.firm or self._occupies(job)):
            # The claims of others do not count against a firm one; nor does that against what crashed of a
            # job that continues as soon as it is whole again.
            taken = [] if job == self.firm else self._list_taken(node, job, self.firm)
        else:
            taken = self._list_taken(node, job)
        return room - total(taken) if taken else room

    @cached_property
    def firm(self) -> str | None:
        """The job whose claim is firm, None where there is no such claim."""
        firm = (name for name, claim in self.claims.items() if claim.firm)
        return next((name for name in sorted(firm) if name in self.jobs), None)

    def _list_taken(self, node: str, *jobs: str | None) -> list[Resources]:
        """Return what others than these jobs claim on a node."""
        return [amount for owner, amount in self._claimed.get(node, ()) if owner not in jobs]

    def _occupies(self, job: str | None) -> bool:
        return job is not None and any(member.active for member in self.members.get(job, ()))


def _is_particular(job: Job) -> bool:
    spec = job.spec
    bound = spec.constraints
    return (
        len(spec.replicas) != 1
        or spec.checkpointing == "none"
        or not spec.migratable
        or bool(spec.immovable or job.dropped or bound.selector or bound.terms or bound.volumes)
        or spec.share != "none"
    )


_particular: Final = Chosen(_is_particular)


def _waits(replicas: Iterable[Replica], now: float) -> bool:
    """Whether something of the job is pending, nothing occupies a node, and no pause after a crash lasts."""
    pending = False
    for replica in replicas:
        if replica.phase is Phase.PENDING:
            if replica.not_before > now:
                return False
            pending = True
        elif replica.phase is Phase.RUNNING or replica.phase is Phase.STARTING:
            return False
    return pending


def _open(job: Job, members: Iterable[Replica]) -> Job:
    """Return a waiting job without the replicas that ended before the rest of it had to wait again."""
    ended = {replica.name for replica in members if replica.ended}
    if not ended:
        return job
    spec = job.spec
    workers = len(ended - set(spec.ps))  # a parameter server that ended takes no worker's part
    remaining = msgspec.structs.replace(
        spec,
        replicas=tuple(name for name in spec.replicas if name not in ended),
        workers=max(1, spec.wanted_workers - workers),
        min_workers=max(1, spec.fewest_workers - workers),
    )
    return msgspec.structs.replace(job, spec=remaining)


def _ends(replica: Replica) -> bool:
    """Whether the replica was told to end, and not only because its job shrinks or it alone starts again."""
    return replica.leaving is not None and replica.leaving.purpose not in {"scale-in", "restart", "late"}
