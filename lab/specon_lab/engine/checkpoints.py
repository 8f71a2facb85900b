"""Checkpoints that the manager asks for, and those that a trainer writes when it is told to end."""

import hashlib

from specon_lab.engine.observation import Observation
from specon_lab.engine.observer import step_at
from specon_lab.engine.world import Incarnation, SimulatedJob, World
from specon_manager.model import events as ev
from specon_manager.model.actions import RequestCheckpoint, WithdrawRequest
from specon_sidecar.wire import Acknowledgement, Checkpoint


class Checkpoints:
    """What the simulated sidecars and trainers answer to requests for checkpoints."""

    def __init__(self, world: World, observation: Observation) -> None:
        self._world = world
        self._observation = observation

    def ask(self, order: RequestCheckpoint) -> None:
        """Have an incarnation write a checkpoint; steps trained meanwhile are not in it."""
        world, incarnation = self._world, self._incarnation(order.replica, order.incarnation)
        if incarnation is None or incarnation.ending is not None:
            return  # the manager learns of its end from elsewhere
        if order.id in incarnation.saves:
            answer = incarnation.saves[order.id]
            if answer is not None:
                world.emit(ev.InstructionAcknowledged(answer))
            return
        world.emit(ev.InstructionDelivered(id=order.id, replica=order.replica, incarnation=order.incarnation))
        job = incarnation.job
        spec, training = job.submission.spec, job.submission.training
        if spec.checkpointing == "none":
            self._answer(incarnation, order.id, None, "its trainer writes no checkpoints")
        elif spec.checkpointing == "on-termination":
            self._answer(incarnation, order.id, None, "")
        else:
            incarnation.saves[order.id] = None
            done = job.trainer.at(world.now)
            if training.save_seconds > 0:
                world.agenda.at(
                    world.now + training.save_seconds, self._answer_saved, incarnation, order.id, done
                )
            else:
                self._answer_saved(incarnation, order.id, done)

    def withdraw(self, order: WithdrawRequest) -> None:
        """Forget a request; a checkpoint that is being written then is not answered for."""
        incarnation = self._world.incarnation_of(order.replica)
        if incarnation is not None:
            incarnation.saves.pop(order.id, None)

    def leave(self, incarnation: Incarnation) -> None:
        """Report what a replica saved when it was told to end, where a move needs to know of it."""
        job = incarnation.job
        if not incarnation.up or self._world.state.transaction_of(incarnation.replica) is None:
            return
        if job.submission.spec.checkpointing != "none":
            self._observation.report_last_checkpoint(
                incarnation, _checkpoint(job, job.trainer.saved, incarnation.replica)
            )

    def _answer_saved(self, incarnation: Incarnation, instruction: str, done: float) -> None:
        """Answer that the checkpoint is written and verified, unless nobody waits for it any more."""
        job = incarnation.job
        if instruction not in incarnation.saves or incarnation.ending is not None:
            return
        if job.incarnations.get(incarnation.replica) is not incarnation:
            return
        if done <= job.trainer.at(
            self._world.now
        ):  # else the job fell back meanwhile, and this is not its state
            job.trainer.keep(done)
        self._answer(incarnation, instruction, _checkpoint(job, done, incarnation.replica), "")

    def _answer(
        self, incarnation: Incarnation, instruction: str, checkpoint: Checkpoint | None, refusal: str
    ) -> None:
        answer = Acknowledgement(
            schema=1,
            replica=incarnation.replica,
            incarnation=incarnation.name,
            id=instruction,
            done=not refusal,
            checkpoint=checkpoint,
            reason=refusal,
        )
        incarnation.saves[instruction] = answer
        self._world.emit(ev.InstructionAcknowledged(answer))

    def _incarnation(self, replica: str, name: str) -> Incarnation | None:
        found = self._world.incarnation_of(replica)
        return found if found is not None and found.name == name else None


def _checkpoint(job: SimulatedJob, done: float, replica: str) -> Checkpoint:
    """Return a verified checkpoint; its digest is that of what it stands for."""
    training = job.submission.training
    step = step_at(done / training.seconds, training.steps)
    content = f"{replica}/{step}"
    return Checkpoint(step=step, path=content, digest=hashlib.sha256(content.encode()).hexdigest())
