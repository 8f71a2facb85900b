"""Kills trainers while they save, and sees which checkpoint is named afterwards.

`python tests/support/checkpoints/kills.py 10000` kills so many, over all formats, and prints what came of
it. A trainer begins where the named checkpoint is, beside what the killed one has left, as after a crash.
"""

import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from threading import Event

from specon_sidecar.checkpoints.checkpoint_watch import CheckpointWatch
from specon_sidecar.checkpoints.verify import UnreadableError, verify

sys.path.insert(0, str(Path(__file__).parents[2]))
from support.checkpoints.writers import IN_PLACE, WRITERS, holds, remove

_KEPT = 3
_SAVES = 2  # a kill comes while one of the first so many is saved
_START = 0.003  # seconds a fork takes


def killed(name, root, first, seconds):
    """Have a trainer save from a step on, kill it after so many seconds, return the last step it saved."""
    out, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        _train(WRITERS[name], root, first, told, keeps=name not in IN_PLACE)
    os.close(told)
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with os.fdopen(out, "rb") as opened:
        said = opened.read().split()
    return int(said[-1]) if said else None


def _train(save, root, step, told, *, keeps):
    try:
        saved = []
        while True:
            path = save(root, step)
            os.write(told, b"%d\n" % step)
            saved.append(path)
            if keeps and len(saved) > _KEPT:
                remove(saved.pop(0))
            step += 1
    finally:
        os._exit(1)


def named(root):
    """Return the newest checkpoint that is whole, as the sidecar names it once its trainer is gone."""
    watch = CheckpointWatch(root, settle=0.0)
    watch.scan(0.0)
    complete = watch.scan(1.0)
    for old in complete[: -2 * _KEPT]:
        remove(old.path)
    for candidate in reversed(complete):
        try:
            verify(candidate, Event())
        except UnreadableError:
            continue
        return candidate, candidate is complete[-1]
    return None, True


def step_inside(path, *, upto):
    """Return which of the last steps all that is in a checkpoint is of; None where it is of several."""
    return next((step for step in range(upto, max(0, upto - 50), -1) if holds(path, step)), None)


def one_kill(name, root, last, seconds):
    """Kill one, judge what is named; return the step to go on from, and what came of it.

    `last` is the step that the former one was known to hold.
    """
    done = killed(name, root, last + 1, seconds)
    candidate, first_choice = named(root)
    known = last if done is None else done
    if candidate is None:
        return known, _nothing(name, root, known)
    inside = step_inside(candidate.path, upto=known + 1)
    if inside is None:
        return known, f"WRONG: {candidate.path.name} is torn and was named"
    if name not in IN_PLACE and candidate.step != inside:
        return known, f"WRONG: {candidate.path.name} holds step {inside} and was named {candidate.step}"
    if inside < known:
        return known, f"WRONG: step {inside} is named, and {known} was saved"
    if not first_choice:
        return inside, "WRONG: a torn one was reported before it was verified"
    return inside, "the newest" if inside == known else "the newest, which the trainer did not know yet"


def _nothing(name, root, known):
    """Return why nothing is named."""
    if known == 0:
        return "none was saved yet"
    if name in IN_PLACE:
        return "none: it writes over the only one"
    if any(not tracker.stat().st_size for tracker in root.glob("latest*")):
        return "none: what names the one to go on from was torn itself, and the framework goes on from none"
    return "WRONG: nothing is named, and one was whole"


def _saving(name, root):
    """Return how long saving takes here, seconds."""
    begun = time.monotonic()
    for step in (1, 2):
        WRITERS[name](root, step)
    seconds = (time.monotonic() - begun) / 2
    shutil.rmtree(root)
    return seconds


def kills(name, number, seed, root):
    """Kill so many trainers that save in one format; return how often what came of it."""
    random, found, last = Random(f"{name}{seed}"), Counter(), 0
    root.mkdir(parents=True, exist_ok=True)
    longest = _SAVES * max(_saving(name, root.with_name("tried")), _START)
    for _ in range(number):
        last, what = one_kill(name, root, last, random.uniform(0.0, longest))
        found[what] += 1
        for path in sorted(root.glob("*.orbax-checkpoint-tmp")) + sorted(root.glob(".step*")):
            remove(path)  # as these frameworks do when they begin
    return found


def main():
    """Return 1 where a torn one was named, or the newest whole one was not."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    wrong = 0
    for name in WRITERS:
        with tempfile.TemporaryDirectory() as folder:
            found = kills(name, -(-number // len(WRITERS)), 1, Path(folder) / "out")
        wrong += sum(count for what, count in found.items() if what.startswith("WRONG"))
        told = "; ".join(f"{count} {what}" for what, count in found.most_common())
        sys.stdout.write(f"{name}: {told}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{-(-number // len(WRITERS)) * len(WRITERS)} kills, {wrong} wrong\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
