"""Who trains and how fast: set again at the end of each moment, where something changed."""

from collections.abc import Callable, Iterable, Sequence

from specon_lab.engine.sharing import grants, speeds
from specon_lab.engine.slowness import Rates
from specon_lab.engine.speed import gang_speed, speedup
from specon_lab.engine.world import Incarnation, SimulatedJob, SimulatedNode, World
from specon_lab.workloads.workload import Training
from specon_manager.model.cluster import Phase, role_of


class Pace:
    """Sets the speeds of the jobs, and plans their ends.

    A job trains only while every replica that it has at present runs and none was told to end, except workers
    that leave it in a scaling; where it grows by a recorded change, those that are to join it count once they
    run. Nothing is computed for nodes and jobs to which nothing happened.
    """

    def __init__(
        self,
        world: World,
        *,
        finished: Callable[[SimulatedJob], None],
        changed: Callable[[SimulatedJob], None],
    ) -> None:
        """Tell `finished` of each job whose training is complete, `changed` of each at another speed."""
        self._world = world
        self._finished = finished
        self._changed = changed

    def settle(self) -> None:
        """Set the speeds that hold from this moment on."""
        world = self._world
        moved: dict[SimulatedJob, None] = {}
        if world.regrouped:
            jobs, world.regrouped = world.regrouped, {}
            for job in jobs:
                self._regroup(job)
                moved[job] = None
        if world.resettled:
            nodes, world.resettled = world.resettled, {}
            for node in nodes:
                self._share_out(node, moved)
        for job in moved:
            self._go_on(job)

    def pause(self, job: SimulatedJob, seconds: float) -> None:
        """Let a job stand still for so long, beginning now."""
        world = self._world
        until = world.now + seconds
        if seconds > 0 and until > job.paused_until:
            job.paused_until = until
            world.agenda.at(until, self._wake, job)
        world.regrouped[job] = None

    def stop(self, job: SimulatedJob) -> None:
        """Let a job stand still at once, and bring its progress up to now."""
        world = self._world
        job.trainer.go_on(world.now, 0.0)
        job.ledger.slowing.go_on(world.now, None)
        job.version += 1
        if job.training:
            job.training = False
            world.training -= 1
            world.account.pauses(job.ledger, world.now)
            for incarnation in job.incarnations.values():
                world.stop_training(incarnation)
        world.regrouped[job] = None

    def _wake(self, job: SimulatedJob) -> None:
        self._world.regrouped[job] = None

    def _regroup(self, job: SimulatedJob) -> None:
        """Find out whether the job trains, and how fast by itself."""
        world = self._world
        trainees = self._trainees(job)
        if not trainees:
            if job.training:
                self.stop(job)
            return
        if not job.training:
            job.training = job.whole = True
            world.training += 1
            world.account.trains(job.ledger, world.now)
        for incarnation in job.incarnations.values():
            if incarnation.ending is None:
                world.train(incarnation)
            else:
                world.stop_training(incarnation)
        job.size, job.speed = self._own_speed(job, trainees)

    def _trainees(self, job: SimulatedJob) -> list[Incarnation]:
        """Return what trains of the job: all that it consists of now, or nothing."""
        world = self._world
        if world.now < job.paused_until:
            return []
        records = world.state.replicas
        joining = job.whole and job.submission.spec.resizing in {"live", "restart"}
        found = []
        for name in job.submission.spec.replicas:
            incarnation = job.incarnations.get(name)
            if incarnation is None:
                record = records.get(name)
                joins = joining and name not in job.members
                if record is None or (record.phase is not Phase.ABSENT and not joins):
                    return []
            elif incarnation.ending == "scale-in" or (incarnation.joins and not incarnation.up):
                continue
            elif incarnation.up and incarnation.ending is None:
                found.append(incarnation)
            else:
                return []
        return found

    def _own_speed(self, job: SimulatedJob, trainees: list[Incarnation]) -> tuple[float, float]:
        """Return the speed of the job by its size, and with what network and models take away of that."""
        workers: dict[str, int] = {}
        servers = []
        for incarnation in trainees:
            node = incarnation.node.name
            if role_of(incarnation.replica) == "ps":
                servers.append(node)
            else:
                workers[node] = workers.get(node, 0) + 1
        submission = job.submission
        wanted, bandwidth = submission.spec.wanted_workers, self._world.workload.bandwidth
        pace = self._pace(submission.training, workers)
        speed = gang_speed(submission.training, workers, servers, wanted, bandwidth, pace=pace)
        count = sum(workers.values())
        size = speedup(submission.training, count) / speedup(submission.training, wanted) if count else 0.0
        return size, speed

    def _pace(self, training: Training, nodes: Iterable[str]) -> float:
        """Return how many times as long a step takes on these nodes: all wait for the slowest."""
        if not training.paces:
            return 1.0
        return max((training.paces.get(self._world.nodes[node].model, 1.0) for node in nodes), default=1.0)

    def _share_out(self, node: SimulatedNode, moved: dict[SimulatedJob, None]) -> None:
        """Share the cores of a node among those that train there and did not reserve theirs."""
        sharers = [i for i in node.incarnations.values() if i.training and i.demand]
        if not sharers:
            return
        demands = [incarnation.demand for incarnation in sharers]
        weights = [incarnation.weight for incarnation in sharers]
        cores = max(1e-9, node.cores - node.reserved)
        shares = speeds(demands, weights, cores, self._world.workload.sharing.contention)
        even = shares
        if len(set(weights)) > 1:
            even = speeds(demands, [1.0] * len(demands), cores, self._world.workload.sharing.contention)
        handed = grants(demands, weights, cores)
        for incarnation, share, alike, part in zip(sharers, shares, even, handed, strict=True):
            incarnation.spend(self._world.now)
            incarnation.cores = part
            if (incarnation.share, incarnation.even) != (share, alike):
                incarnation.share, incarnation.even = share, alike
                moved[incarnation.job] = None

    def _go_on(self, job: SimulatedJob) -> None:
        """Let the job train at the speed that it has now."""
        if not job.training:
            return
        world, trainer = self._world, job.trainer
        hold, even = _measure_hold(job)
        network = job.speed / job.size if job.size else 0.0
        job.ledger.slowing.go_on(world.now, Rates(job.size, network, even, hold))
        rate = job.speed * hold
        if rate == trainer.rate:
            return
        trainer.go_on(world.now, rate)
        job.version += 1
        if rate > 0:
            ends = world.now + trainer.left / rate
            world.agenda.at(ends, self._note_end, job, job.version, passing=True)
        self._changed(job)

    def _note_end(self, job: SimulatedJob, version: int) -> None:
        if version == job.version and job.training:
            self._finished(job)


def _measure_hold(job: SimulatedJob) -> tuple[float, float]:
    """Return which part of its speed is left to a job by those that share its nodes, and with equal weights.

    The slowest replica decides, unless the workers take their steps from one pool: then their mean does, and
    the slowest parameter server.
    """
    training = job.submission.training
    if not training.demand:
        return 1.0, 1.0
    present = [incarnation for incarnation in job.incarnations.values() if incarnation.training]
    pooled = training.network is not None and not training.network.fixed_quota and len(present) > 1
    servers = [pooled and role_of(incarnation.replica) == "ps" for incarnation in present]
    return (
        _slowest([i.share for i in present], servers, pooled=pooled),
        _slowest([i.even for i in present], servers, pooled=pooled),
    )


def _slowest(shares: Sequence[float], servers: Sequence[bool], *, pooled: bool) -> float:
    if not pooled:
        return min(shares)
    workers = [share for share, server in zip(shares, servers, strict=True) if not server]
    behind = [share for share, server in zip(shares, servers, strict=True) if server]
    return min(sum(workers) / len(workers), *behind) if behind else sum(workers) / len(workers)
