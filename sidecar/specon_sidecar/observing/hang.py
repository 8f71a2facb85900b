"""Whether a trainer hangs: its steps stopped for many times their usual interval while its processes wait.

Pure: the caller looks at the processes and tells the time, on a clock that stands still while the trainer is
stopped. What a log alone cannot tell apart, an evaluation and a hang, the processor time does.
"""

import math
import re
from collections import deque
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from specon_sidecar.counts import format_count
from specon_sidecar.observing.step_times import StepTimes
from specon_sidecar.trainer.activity import Activity
from specon_sidecar.wire import MAX_HANG_LINE, MAX_HANG_LINES, Hang

_LEAST: Final = 30.0  # seconds
_INTERVALS: Final = 5.0
_MOSTLY: Final = 0.7  # of the patience, at its end: for so long the processes have waited
_UNSEEN_LEAST: Final = 120.0
_UNSEEN_INTERVALS: Final = 60.0  # where the processes tell nothing: evaluations of 20 steps are common
_BUSY_LEAST: Final = (
    900.0  # of processes that are busy without a step, a line or a byte: NCCL waits like that
)
_BUSY_INTERVALS: Final = 100.0
_WAITING_SHARE: Final = 0.1  # of the processor time that it wants as a rule
_TELLING: Final = 0.005  # seconds of that: less could be chance
_MOVING: Final = 65536.0  # bytes a second: more than a message of the logger now and then
_LATE: Final = (
    5.0  # seconds: looks that come so much later than they were due: this process did not run either
)
_REMEMBERED: Final = 64
_WINDOW: Final = 256  # looks
_SECRET: Final = re.compile(
    r"(?i)((?:pass(?:word|wd)?|secret|token|api[_-]?key|credential|authorization|bearer)\w*[\"']?[ =:]+)\S+"
    r"|(://)[^/@\s]+(?=@)|\b(?:hf_|ghp_|sk-|AKIA)[A-Za-z0-9_-]{8,}"
)


class Signs(Struct, frozen=True, kw_only=True):
    """Observations at one look."""

    activity: Activity | None = None
    """None where the processes of the trainer cannot be seen."""
    lines: int = 0
    """How many lines its log has, also those that name no step."""
    saved: int = 0
    """A mark of its checkpoints that changes while one is written."""


class HangWatch:
    """Judges look by look."""

    def __init__(self, steps: StepTimes) -> None:
        """Watch over the steps that are noted there."""
        self._steps = steps
        self._looked_at: float | None = None
        self._signs = Signs()
        self._moved_at = 0.0  # the latest sign of life but processor time
        self._active_at = 0.0  # the latest of these that counts
        self._busy_at = 0.0  # the latest look at which its processes did more than wait
        self._step_at: float | None = None
        self._rates: deque[float] = deque(maxlen=_REMEMBERED)
        self._wanted: deque[tuple[float, float]] = deque(maxlen=_WINDOW)
        self._quiet: deque[float] = deque(maxlen=_REMEMBERED)
        self._rate = 0.0
        self.since: float | None = None
        """Since when it is known to hang, on the caller's clock; None: it does not."""

    @property
    def pace(self) -> float:
        """How long to wait before the next look, seconds."""
        return min(10.0, max(1.0, self.patience / 10))

    @property
    def patience(self) -> float:
        """How long its steps may stop while its processes wait, seconds."""
        usual = self._steps.usual or 0.0
        return max(_LEAST, _INTERVALS * usual, 1.5 * max(self._quiet, default=0.0))

    def silence(self, now: float) -> float:
        """Return for how long no step came, seconds."""
        return 0.0 if self._steps.last_at is None else max(0.0, now - self._steps.last_at)

    def look(self, now: float, signs: Signs, *, paused: float = 0.0, done: bool = False) -> bool:
        """Take in the observations at `now` and return whether the trainer is known to hang.

        `paused`: for how long it was kept from training since the last look; `done`: whether it has trained
        all its steps, so that no other one is awaited.
        """
        self._take(now, signs, paused)
        hangs = not done and self._hangs(now)
        self.since = (now if self.since is None else self.since) if hangs else None
        return hangs

    def evidence(self, now: float, lines: Sequence[str] = ()) -> Hang | None:
        """Return what shows that it hangs, with the last lines of its log; None where it does not."""
        usual = self._steps.usual
        if self.since is None or usual is None:
            return None
        return Hang(
            age=max(0.0, now - self.since),
            silent=self.silence(now),
            usual=usual,
            processes=self._in_words()[:MAX_HANG_LINE],
            lines=tuple(show_line(line) for line in lines[-MAX_HANG_LINES:]),
        )

    def _take(self, now: float, signs: Signs, paused: float) -> None:
        since = 0.0 if self._looked_at is None else now - self._looked_at
        former, latter = self._signs.activity, signs.activity
        # Who takes turns with others is stopped often, and has its own clock; here nothing ran in between.
        stopped = former is not None and former.stopped and latter is not None and latter.stopped
        stopped = stopped and latter is not None and latter.wanted_seconds <= 0
        late = since - self.pace - _LATE
        rest = since if stopped else max(paused, late, 0.0)
        if rest > 0:
            self._steps.rest(now, rest)
            self._active_at = min(now, self._active_at + rest)
            self._moved_at = min(now, self._moved_at + rest)
            self._wanted.clear()  # nobody could want anything meanwhile
        at = self._steps.last_at
        if at is not None and at != self._step_at and rest <= 0:
            if self._step_at is not None and self._wanted:
                self._quiet.append(max(0.0, at - max(self._active_at, self._busy_at, self._step_at)))
            self._active_at, self._moved_at = max(self._active_at, at), max(self._moved_at, at)
        works = signs.saved != self._signs.saved
        works |= signs.activity is not None and signs.activity.moved_bytes > _MOVING * max(since, 1.0)
        tells = signs.lines != self._signs.lines
        if works or tells:
            self._moved_at = now
        # A log that goes on without steps may tell of an evaluation, or of what waits for ever.
        if works or (tells and self.silence(now) < self._unseen()):
            self._active_at = now
        self._measure(now, signs.activity, since)
        self._step_at, self._looked_at, self._signs = at, now, signs

    def _measure(self, now: float, activity: Activity | None, since: float) -> None:
        """Note how much processor time its processes wanted since the last look, and how much as a rule."""
        if activity is None or self._signs.activity is None:
            self._wanted.clear()
            return
        if since <= 0:
            return
        if not self._wanted:
            self._wanted.append((now - since, 0.0))
        self._wanted.append((now, self._wanted[-1][1] + activity.wanted_seconds))
        self._rate = activity.wanted_seconds / since
        if self._steps.last_at != self._step_at:
            self._rates.append(self._rate)  # it trained meanwhile
        if self._rate > _WAITING_SHARE * self._usual_rate:
            self._busy_at = now

    def _hangs(self, now: float) -> bool:
        usual, silent = self._steps.usual, self.silence(now)
        if usual is None or self._steps.last_at is None:
            return False
        waiting = self._waits(now)
        if waiting is None:
            return min(silent, now - self._moved_at) >= self._unseen()
        if waiting:
            return silent >= self.patience
        longest = max(_BUSY_LEAST, _BUSY_INTERVALS * usual, 3 * self._steps.longest)
        return min(silent, now - self._moved_at) >= longest

    def _waits(self, now: float) -> bool | None:
        """Whether its processes did next to nothing for most of the patience; None where they do not tell."""
        long = _MOSTLY * self.patience
        expected = self._usual_rate * long
        if not self._wanted or expected < _TELLING:
            return None
        at, wanted = next((each for each in reversed(self._wanted) if each[0] <= now - long), (math.inf, 0.0))
        if at > now - long or now - self._active_at < long:
            return False
        return self._wanted[-1][1] - wanted <= _WAITING_SHARE * expected * (now - at) / long

    def _unseen(self) -> float:
        usual = self._steps.usual or 0.0
        return max(_UNSEEN_LEAST, _UNSEEN_INTERVALS * usual, 3 * self._steps.longest)

    @property
    def _usual_rate(self) -> float:
        return sorted(self._rates)[len(self._rates) // 2] if self._rates else 0.0

    def _in_words(self) -> str:
        activity = self._signs.activity
        if activity is None:
            return "its processes cannot be seen"
        count = sum(activity.states.values())
        states = ", ".join(f"{number} {state}" for state, number in activity.states.items())
        usual = f" (usually {self._usual_rate:.2f})" if self._rates else ""
        who = format_count(count, "process", "processes")
        return f"{who} ({states}) that want {self._rate:.2f} processors{usual}"


def show_line(line: str) -> str:
    """Return a line of a log as it is shown to its owner: on one line, short, without what looks secret."""
    masked = _SECRET.sub(lambda found: f"{found[1] or found[2] or ''}***", line)
    return "".join(one if one.isprintable() else " " for one in masked)[:MAX_HANG_LINE]
