"""The immutable snapshot of the cluster that policies decide on."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from operator import attrgetter

import msgspec

from specon_manager.model.cluster import Claimed, Job, Phase, Replica
from specon_manager.model.open_room import OpenRoom
from specon_manager.model.overlay import Overlay
from specon_manager.model.transactions import Transaction


class Snapshot(OpenRoom):
    """Everything a policy may look at, at one moment. Nothing in it changes."""

    # -- jobs ------------------------------------------------------------------------------------

    @cached_property
    def waiting(self) -> tuple[Job, ...]:
        """The jobs that occupy no node and may start with all their replicas now, oldest first.

        Each description leaves out the replicas that ended, and counts the workers that remain.
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
        """The jobs that have at least one replica on a node and none that was told to end, oldest first.

        Jobs that only their owners can end or scale are not among them, nor are jobs that change as a whole.
        A job that loses a worker to a scale-in at once is among them; that worker is not among `workers`.
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
        """The jobs that have a replica which is to end together with its job."""
        return frozenset(
            each.job
            for each in self.pressing
            if _ends(each) and each.job in self.jobs and each.name in self.jobs[each.job].spec.replicas
        )

    @cached_property
    def doomed(self) -> frozenset[str]:
        """The jobs for which `about_to_end` holds."""
        return self._told | {job for job, each in self.changing.items() if not each.wanted}

    @cached_property
    def _ending(self) -> frozenset[str]:
        """The jobs that have a replica on a node which is to end together with its job."""
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
        before = claims.pop(job, None)
        if claim is not None and claim.until > self.now:
            claims[job] = claim
        changed = self._change([], claims=claims)
        if not any(each is not None and each.firm for each in (before, claim)):
            changed.__dict__["firm"] = self.firm  # a thousand claims are not looked through for each of them
        return changed

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
        """Return a copy that differs in a few replicas, without counting the whole cluster again."""
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
        if claims is None and "firm" in self.__dict__:
            changed.__dict__["firm"] = self.firm
        if "particular" in self.__dict__:
            changed.__dict__["particular"] = self.particular  # the jobs do not differ
        changed._objections = self._objections  # neither nodes nor descriptions differ
        changed._counted = self._counted  # counts are kept with the records that they are of
        return changed


def _waits(replicas: Iterable[Replica], now: float) -> bool:
    """Whether something of the job is pending, nothing occupies a node, and no pause after a crash lasts.

    Not where only parameter servers are left of it: there is nothing for them to serve.
    """
    pending = works = served = False
    for replica in replicas:
        if replica.phase is Phase.PENDING:
            if replica.not_before > now:
                return False
            pending = True
            works = works or replica.role != "ps"
        elif replica.phase is Phase.RUNNING or replica.phase is Phase.STARTING:
            return False
        elif replica.role != "ps" and replica.ended:
            served = True
    return works or (pending and not served)


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
