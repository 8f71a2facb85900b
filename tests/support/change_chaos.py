"""Rules for machines whose jobs are admitted, scaled and preempted by changes, in trouble or out of it."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from specon_manager.model import events as ev
from specon_manager.model.changes import Change, ChangeState
from specon_sidecar.classify import Category
from specon_sidecar.wire import Acknowledgement, Checkpoint
from support.chaos import Chaos, pick, steps
from support.cluster import DIGEST, Cluster, Live, key_of


def _under_way(cluster: Cluster) -> list[Change]:
    """Return the changes of which something has come about, by id."""
    begun = {ChangeState.LEAVING, ChangeState.COMING, ChangeState.VERIFYING}
    found = (change for change in cluster.state.changes.values() if change.state in begun)
    return sorted(found, key=lambda change: change.id)


class ChangeChaos(Chaos):
    """What happens to changes in particular."""

    @rule(number=pick, count=st.integers(min_value=1, max_value=6))
    @precondition(lambda self: self.cluster.state.changes)
    def get_a_change_on(self, *, number, count):
        """One change gets what it waits for, so that changes get far and not only begin."""
        changes = sorted(self.cluster.state.changes.values(), key=lambda change: change.id)
        change = changes[number % len(changes)]
        for _ in range(count):
            now = self.cluster.state.changes.get(change.job)
            if now is None or now.id != change.id:
                return
            self._one_step_of(now)

    def _one_step_of(self, change: Change) -> None:
        cluster, names = self.cluster, {*change.before, *change.after}
        keys = {*names, f"checkpoint {change.lead}", f"job {change.job}"}
        order = next((order for order in cluster.orders if key_of(order) in keys), None)
        if order is not None:
            cluster.carry_out_one(order)
        elif change.state is ChangeState.CHECKPOINTING:
            if change.lead in cluster.live:
                saved = cluster.state.replicas[change.lead].progress.step or 0
                cluster.acknowledge(change.lead, checkpoint=Checkpoint(step=saved, path="/c", digest=DIGEST))
        else:
            self._others_do(change)
            for name in sorted(names & cluster.live.keys()):
                known = cluster.state.replicas[name].progress.step or 0
                cluster.report(name, Category.PROGRESSING, step=known + 1)

    def _others_do(self, change: Change) -> None:
        """Let those other than the manager do their part of a change, where there are any."""

    @rule(number=pick, member=pick, exit_code=st.sampled_from([1, None, 0]), again=st.booleans())
    @precondition(lambda self: _under_way(self.cluster))
    def hurt_a_change(self, *, number, member, exit_code, again):
        """Something of a job that is being changed dies, once or whenever it is started again."""
        changes = _under_way(self.cluster)
        change = changes[number % len(changes)]
        for _ in range(6 if again else 1):
            here = sorted({*change.before, *change.after} & self.cluster.live.keys())
            if here:
                self.cluster.die(here[member % len(here)], exit_code)
            now = self.cluster.state.changes.get(change.job)
            if now is None or now.id != change.id:
                return
            if again:
                self._one_step_of(now)

    @rule(number=pick, passed=st.sampled_from([0.0, 1.0]))
    @precondition(lambda self: self.cluster.state.changes)
    def be_late(self, *, number, passed):
        """Let the present state of a change be overdue; nothing that it waits for came about."""
        changes = sorted(self.cluster.state.changes.values(), key=lambda change: change.id)
        change = changes[number % len(changes)]
        self.cluster.tick(max(0.0, change.deadline - self.cluster.now) + passed)
        after = self.cluster.state.changes.get(change.job)
        assert after is None or after.id != change.id or after.deadline > self.cluster.now

    @rule(
        number=pick,
        wrong=st.sampled_from(["", "", "id", "incarnation"]),
        done=st.sampled_from([True, True, False]),
        saved=st.none() | steps,
        verified=st.booleans(),
    )
    @precondition(lambda self: self.cluster.state.changes)
    def answer_a_change(self, *, number, wrong, done, saved, verified):
        """Answer though nobody waits, or for another change, or without what makes it an answer."""
        changes = sorted(self.cluster.state.changes.values(), key=lambda change: change.id)
        change = changes[number % len(changes)]
        live = self.cluster.live.get(change.lead, Live("none", "none", "none"))
        checkpoint = Checkpoint(step=saved or 0, path="/c", digest=DIGEST if verified else None)
        before = self.cluster.state
        self.cluster.post(
            ev.InstructionAcknowledged(
                Acknowledgement(
                    schema=1,
                    replica=change.lead,
                    incarnation="ghost" if wrong == "incarnation" else live.incarnation,
                    id="change-0" if wrong == "id" else change.id,
                    done=done,
                    checkpoint=None if saved is None else checkpoint,
                )
            )
        )
        if wrong or change.state is not ChangeState.CHECKPOINTING:
            assert self.cluster.state.changes[change.job] == before.changes[change.job]
