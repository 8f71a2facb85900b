"""A manager of this machine is killed, frozen and away while moves are in flight: what that costs in steps.

`python tests/support/local/outages.py --kills 40 --freeze 60 --away 600`. Each outage begins in another state
of a move of a trainer that keeps nothing when it is told to end. What is lost is read from the trainer's own
log; two live copies show in the lock that every incarnation takes; a step that is lost or done twice in the
trainer's state shows in its result.
"""

import argparse
import itertools
import math
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

sys.path.insert(0, str(Path(__file__).parents[2]))  # tests are no package

from specon_manager.model.transactions import FINAL_STATES, Kind, Transaction, TransactionState
from specon_manager.runtime.journal import NAME, recover
from support.local.stage import MOVER, PATIENCE, Running, Stage, check_succeeded

STEP_SECONDS: Final = 0.01
MARGIN: Final = 2.0
"""Between the last look at a checkpoint's age and the end of its trainer, seconds, on a busy machine."""
STATES: Final = [state for state in TransactionState if state not in FINAL_STATES]


class Outage(Struct, frozen=True, kw_only=True):
    """One of them, and what became of the move."""

    kind: str
    state: TransactionState
    """In which the move was."""
    ended: TransactionState | None
    """None: the request was on no record yet, and nothing came of it."""
    steps_lost: int
    seconds: float
    """From the request to the end of the move."""


class Outages:
    """A job and its manager on a stage."""

    def __init__(self, stage: Stage, *, age: float, longest: float, seed: int = 1) -> None:
        """Begin; `age` is `deadlines.checkpoint_age`, `longest` bounds the seconds that all will take."""
        self.stage, self.bound = stage, math.ceil((age + MARGIN) / STEP_SECONDS)
        self._rng = random.Random(seed)
        self._steps = int(longest / STEP_SECONDS)
        deadlines = {**PATIENCE, "checkpoint_age": age}
        trainer = stage.trainer("--forget-on-sigterm", "--flat", steps=self._steps, step_seconds=STEP_SECONDS)
        job = {"name": MOVER, "command": trainer}
        budgets = {"cooldown": 0, "retry_cooldown": 0}
        stage.write_jobs(job, policy="fifo", parameters={}, deadlines=deadlines, budgets=budgets)
        self._manager = stage.manager(hurry=False)
        self._lost = 0

    def run(self, kind: str, state: TransactionState, seconds: float) -> Outage:
        """Have the job moved, and let the manager be away for so long once the move is in that state."""
        self._trains()
        began = time.monotonic()
        asked = self._ask()
        move = self._told_of_move(state)
        time.sleep(self._rng.uniform(0, 0.05))
        if kind == "freeze":
            self._manager.send(signal.SIGSTOP)
            time.sleep(seconds)
            self._manager.send(signal.SIGCONT)
        else:
            self._manager.send(signal.SIGKILL)
            self._manager.wait()
            time.sleep(seconds)
        ended = self._end_of(move, killed=kind != "freeze")
        asked.wait()
        lost = self.stage.steps_lost(MOVER)
        passed, self._lost = lost - self._lost, lost
        return Outage(
            kind=kind, state=state, ended=ended, steps_lost=passed, seconds=time.monotonic() - began
        )

    def finish(self) -> None:
        """Let the training end; raises AssertionError unless one copy trained each step once."""
        self.stage.hurry.touch()
        check_succeeded(self._manager.end)
        self.stage.check_trained(MOVER, steps=self._steps)

    def _trains(self) -> None:
        before = self.stage.steps_done(MOVER)
        self.stage.eventually(lambda: self.stage.steps_done(MOVER) > before + 20)

    def _ask(self) -> Running:
        return self.stage.specon("migrate", MOVER, "--state", str(self.stage.state))

    def _told_of_move(self, state: TransactionState) -> str:
        """Wait until a move that nobody has told of before is in the state; return its id."""
        earlier = {move.id for move in self._on_disk() if move.state in FINAL_STATES}

        def told() -> str | None:
            lines = [line for line in self._manager.told if line.get("kind") == Kind.MOVE]
            found = [line["transaction"] for line in lines if line["state"] == state]
            return next((name for name in found if name not in earlier), None)

        return self.stage.eventually(told)

    def _end_of(self, move: str, *, killed: bool) -> TransactionState | None:
        """Return how the move ended; a manager that was killed is followed by another one."""
        if killed:
            left = {each.id: each.state for each in self._on_disk()}
            self._manager = self.stage.manager(hurry=False)
            if move not in left or left[move] in FINAL_STATES:
                return left.get(move)

        def ended() -> TransactionState | None:
            lines = [line for line in self._manager.told if line.get("transaction") == move]
            states = (TransactionState(line["state"]) for line in lines)
            return next((state for state in states if state in FINAL_STATES), None)

        return self.stage.eventually(ended, 120)

    def _on_disk(self) -> list[Transaction]:
        recovered = recover(self.stage.state / NAME)
        assert recovered is not None
        return [*recovered.state.history, *recovered.state.transactions.values()]


def outages(stage: Stage, *, kills: int, freeze: float, away: float, age: float) -> Iterator[Outage]:
    """Yield each outage: as many kills, then freezes and absences in the states from which work is ended."""
    longest = 2 * (10 * kills + 2 * freeze + 2 * away + 120)
    run = Outages(stage, age=age, longest=longest)
    ends = (TransactionState.CHECKPOINTING, TransactionState.LEAVING)
    wanted = [("kill", state, 0.0) for state in itertools.islice(itertools.cycle(STATES), kills)]
    wanted += [("freeze", state, freeze) for state in ends]
    wanted += [("away", state, away) for state in ends]
    for kind, state, seconds in wanted:
        outage = run.run(kind, state, seconds)
        yield outage
        assert outage.steps_lost <= run.bound, f"{outage}: more than {run.bound} steps, of {age:g} s"
    run.finish()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Be the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--freeze", type=float, default=60.0, help="seconds, twice")
    parser.add_argument("--away", type=float, default=600.0, help="seconds, twice")
    parser.add_argument("--age", type=float, default=10.0, help="deadlines.checkpoint_age, seconds")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder))
        found: list[Outage] = []
        try:
            for each in outages(stage, **vars(arguments)):
                found.append(each)
                ended = "not begun" if each.ended is None else each.ended
                cost = f"{each.steps_lost:5} steps lost, {each.seconds:.1f} s"
                _say(f"{each.kind:6} in {each.state:13} {ended:10} {cost}")
        finally:
            stage.close()
    for kind in dict.fromkeys(each.kind for each in found):
        lost = [each.steps_lost for each in found if each.kind == kind]
        _say(f"{kind}: {len(lost)} outages, {sum(lost)} steps lost, at most {max(lost)} in one")
    bound = math.ceil((arguments.age + MARGIN) / STEP_SECONDS)
    _say(f"bound: {bound} steps in each; two live copies: none; every step is in the result once")


if __name__ == "__main__":
    main()
