"""Jobs that are held and elastic, placed by their owners: described, run, and changed as a whole."""

import msgspec

from specon_manager.core.settle import settle
from specon_manager.core.state import State
from specon_manager.core.step import step
from specon_manager.core.transaction import begin
from specon_manager.model import events as ev
from specon_manager.model.actions import AdmitGang, MigrateGang, Preempt, ScaleIn, ScaleOut
from specon_manager.model.cluster import JobSpec, Phase
from specon_manager.model.resources import Resources
from specon_manager.model.transactions import Kind, Transaction
from specon_sidecar.classify import Category
from specon_sidecar.wire import Acknowledgement, Checkpoint, Observation, Report
from support.decisions.cluster import DIGEST, SETTINGS

CHECKPOINT = Checkpoint(step=100, path="/c/100", digest=DIGEST)


def elastic(job="bert", workers=2, most=4, ps=1, **changed):
    """Return a job that is held, with so many workers of one to `most`."""
    names = [f"default/{job}/ps/{index}" for index in range(ps)]
    names += [f"default/{job}/worker/{index}" for index in range(most)]
    given = {
        "held": True,
        "resizing": "live",
        "queue": "research",
        "present": workers,
        "min_workers": 1,
        "requests": Resources(cpu=1.0),
        **changed,
    }
    return JobSpec(name=f"default/{job}", replicas=tuple(names), workers=workers, placed_by="owner", **given)


class Changing:
    """A manager's state with the truth about pods: what is told of them, and what is ordered."""

    def __init__(self, now=1_000_000.0, settings=SETTINGS, state=None):
        self.state = State(settings=settings) if state is None else state
        self.now = now
        self.orders = []
        self.pods: dict[str, str] = {}
        """UID by replica."""
        self.count = 0
        self.sequences: dict[str, int] = {}
        if state is None:
            for index in range(4):
                self.post(
                    ev.NodeObserved(
                        node=f"node-{index}", capacity=Resources(cpu=8.0, memory=8e9), usage=Resources()
                    )
                )

    def post(self, event):
        self.state, actions = step(self.state, event, self.now)
        self.noted(event, actions)
        self.orders += actions
        return actions

    def noted(self, event, actions):
        """Take note of a step."""

    def observe(self, spec=None):
        spec = elastic() if spec is None else spec
        self.post(ev.JobObserved(spec))
        return spec.name

    def begin(self, proposal):
        """Let the plan accept a proposal."""
        before = self.state
        state, actions = begin.begin(before, proposal, self.now)
        self.state, followed = settle(before, state, self.now)
        self.noted(ev.Tick(), actions + followed)
        self.orders += actions + followed
        return self.flying(proposal.job)

    def flying(self, job="default/bert"):
        """Return what is in flight of a job as a whole."""
        return self.state.whole_transaction_of(job)

    def propose(self, kind, job="default/bert"):
        """Let the plan accept a change of that kind that makes sense at present."""
        spec = self.state.jobs[job].spec
        runs = [n for n in spec.worker_names if self.state.replicas[n].phase is Phase.RUNNING]
        spare = [n for n in spec.worker_names if self.state.replicas[n].phase is Phase.ABSENT]
        if kind is Kind.ADMIT:
            names = (*spec.ps, *spec.worker_names[: spec.wanted_workers])
            placement = {name: f"node-{index % 4}" for index, name in enumerate(names)}
            return self.begin(AdmitGang(job=job, placement=placement, reason="there is room"))
        if kind is Kind.SCALE_OUT:
            placement = dict.fromkeys(spare[:1], "node-3")
            return self.begin(ScaleOut(job=job, placement=placement, reason="it grows"))
        if kind is Kind.MOVE:
            names = [name for name in spec.replicas if self.state.replicas[name].phase is Phase.RUNNING]
            placement = dict.fromkeys(names, "node-3")
            return self.begin(MigrateGang(job=job, placement=placement, purpose="test", reason="it gains"))
        if kind is Kind.SCALE_IN:
            return self.begin(ScaleIn(job=job, replicas=(runs[-1],), reason="it has converged"))
        return self.begin(Preempt(job=job, beneficiary="default/trial", reason="a trial waits"))

    def holds_room(self, move: Transaction):
        """Let the room be held that a move needs."""
        for name in move.moved:
            self.post(ev.RoomHeld(transaction=move.id, replica=name))

    def delivered(self, move: Transaction):
        """Let the sidecars know that a checkpoint is asked for."""
        for name, witness in move.witnesses.items():
            self.post(ev.InstructionDelivered(id=move.request, replica=name, incarnation=witness.incarnation))

    def refuses(self, move: Transaction, why: str):
        """Let the owner say that it cannot carry an order out."""
        self.post(ev.JobRefused(job=move.job, transaction=move.id, reason=why))

    # -- pods ------------------------------------------------------------------------------------

    def starts(self, replica, node=None):
        self.count += 1
        self.pods[replica] = f"uid-{self.count}"
        where = node or self.state.replicas[replica].node or "node-0"
        return self.post(ev.ReplicaStarted(replica=replica, incarnation=self.pods[replica], node=where))

    def ends(self, replica):
        uid = self.pods.pop(replica)
        return self.post(ev.ReplicaGone(replica=replica, incarnation=uid, evicted=True, reason="evicted"))

    def reports(self, replica, step_=100):
        self.sequences[replica] = self.sequences.get(replica, 0) + 1
        last = Observation(name="loss", value=1.0, step=step_, age=0.0)
        return self.post(
            ev.ReportReceived(
                Report(
                    schema=1,
                    replica=replica,
                    incarnation=self.pods[replica],
                    session=f"session-{self.pods[replica]}",
                    sequence=self.sequences[replica],
                    category=Category.PROGRESSING,
                    first=last,
                    last=last,
                )
            )
        )

    def acknowledges(self, change: Transaction, *, done=True):
        """Let those whose checkpoints are asked for save them, or say why not."""
        actions = []
        for name, witness in change.witnesses.items():
            actions += self.post(
                ev.InstructionAcknowledged(
                    Acknowledgement(
                        schema=1,
                        id=change.request,
                        replica=name,
                        incarnation=witness.incarnation,
                        done=done,
                        checkpoint=CHECKPOINT if done else None,
                        reason="" if done else "disk full",
                    )
                )
            )
        return actions

    def ticks(self, seconds=1.0):
        self.now += seconds
        return self.post(ev.Tick())

    def run_all(self, job="default/bert"):
        """Let the job be admitted and train with the workers that its owner asked for."""
        for name in sorted(self.propose(Kind.ADMIT, job).after):
            self.starts(name)
        for name in self.state.jobs[job].spec.replicas:
            if name in self.pods:
                self.reports(name)


def bare(order):
    """Return an order without what the description of the job says, and when it is overdue."""
    fields = {"grace_seconds": 0.0, "deadline": 0.0, "template": {}}
    return msgspec.structs.replace(order, **{k: v for k, v in fields.items() if hasattr(order, k)})


class Recording(Changing):
    """A manager of such jobs whose memory is in custom resources; `commit` is for the test to call."""

    def __init__(self, memory, now, state):
        self.memory = memory
        super().__init__(now=now, state=state)

    def noted(self, event, actions):
        self.memory.note(self.now, event, actions)

    async def commit(self):
        return await self.memory.commit(self.state, acting=True)
