"""Named values of one moment -> sample; shared by the formats that print records."""

from collections.abc import Iterable, Sequence
from typing import Final

from specon_sidecar.formats.metric_choice import LONGEST_NAME, MetricCandidate, MetricChoice
from specon_sidecar.formats.metric_names import SUM_OF_PARTS
from specon_sidecar.formats.number import to_float, to_step
from specon_sidecar.formats.position_keys import EPISODE, Position, position_of
from specon_sidecar.formats.ranks import Ranks
from specon_sidecar.formats.sample import Sample
from specon_sidecar.formats.wall_time import wall_time

_REMEMBERED: Final = 1024
_EPISODE: Final = (Position.STEP, EPISODE)
# One episode's number; beside how many there were, `steps` are those of all.
_EPISODES: Final = ("episode", "Episode")
_LENGTHS: Final = ("steps", "Steps", "step", "Step")

_Role = tuple[MetricCandidate | None, tuple[Position, int] | None]
_UNKNOWN: Final[_Role] = (None, None)
_NOTHING: Final = (0, None)


class RecordReader:
    """Finds metric, step, epoch, total and time among the keys of records.

    `parts` are the names of losses whose sum is what the training minimises; their sum counts where it is
    given. Of several ranks the lowest counts that reports.
    """

    def __init__(self, choice: MetricChoice, parts: Sequence[str] = ()) -> None:
        self._choice = choice
        self._parts = frozenset(parts)
        self._ranks = Ranks()
        self._roles: dict[str, _Role] = {}
        self._total: int | None = None

    def sample(self, record: Iterable[tuple[str, object]]) -> Sample | None:
        """Return the sample of a record, or None where it holds no number under the followed name."""
        found: list[tuple[MetricCandidate, float]] = []
        places: dict[Position, tuple[int, object]] = {}
        roles = self._roles
        episode: object = None
        if self._parts:
            record = self._with_sum(list(record))
        for key, raw in record:
            role = roles.get(key)
            if role is None:
                role = self._role(key)
            if role is _UNKNOWN:
                continue
            candidate, position = role
            if candidate is not None:
                value = to_float(raw)
                if value is not None:
                    found.append((candidate, value))
            if position is not None:
                if position == _EPISODE and key in _EPISODES:
                    episode = raw
                elif episode is not None and key in _LENGTHS:
                    continue  # how long the episode was
                _note(places, position, raw)
        return self._pick(found, places) if found else None

    def _pick(
        self, found: list[tuple[MetricCandidate, float]], places: dict[Position, tuple[int, object]]
    ) -> Sample | None:
        picked = self._choice.pick(found)
        if picked is None:
            self._choice.note(found, _epoch_and_step(places))
            return None
        if Position.RANK in places and not self._ranks.admit(to_step(places[Position.RANK][1])):
            return None
        if len(found) > 1:
            self._choice.note(found, _epoch_and_step(places))
        if Position.STEP not in places and Position.TOTAL_STEPS in places:
            self._take_total(places)
        return _sample(picked, places)

    def _take_total(self, places: dict[Position, tuple[int, object]]) -> None:
        """Take `total_steps` for the step where it grows: it is how many there were, not how many will be."""
        total = to_step(places[Position.TOTAL_STEPS][1])
        last, self._total = self._total, total
        if last is not None and total is not None and total > last:
            places[Position.STEP] = places.pop(Position.TOTAL_STEPS)

    def _with_sum(self, record: list[tuple[str, object]]) -> list[tuple[str, object]]:
        values = [to_float(raw) for key, raw in record if key in self._parts]
        numbers = [value for value in values if value is not None]
        if len(numbers) > 1:
            record.append((SUM_OF_PARTS, sum(numbers)))
        return record

    def _role(self, key: str) -> _Role:
        if len(key) > LONGEST_NAME:
            return _UNKNOWN
        if "pisode" in key:
            self._choice.count_episodes()
        candidate, position = self._choice.named(key), position_of(key)
        role = _UNKNOWN if candidate is None and position is None else (candidate, position)
        if len(self._roles) < _REMEMBERED:
            self._roles[key] = role
        return role


def _note(places: dict[Position, tuple[int, object]], position: tuple[Position, int], raw: object) -> None:
    if raw is None or isinstance(raw, bool):
        return  # names no place, and hides none that stands under another key
    kind, rank = position
    known = places.get(kind)
    if known is None or rank < known[0]:
        places[kind] = (rank, raw)


def _epoch_and_step(places: dict[Position, tuple[int, object]]) -> tuple[float | None, int | None]:
    epoch = to_float(places.get(Position.EPOCH, _NOTHING)[1])
    step = to_step(places.get(Position.STEP, _NOTHING)[1])
    return epoch if epoch is not None and 0 <= epoch < float("inf") else None, step


def _sample(picked: tuple[str, float], places: dict[Position, tuple[int, object]]) -> Sample:
    epoch, step = _epoch_and_step(places)
    return Sample(
        name=picked[0],
        value=picked[1],
        step=step,
        epoch=epoch,
        total_steps=to_step(places.get(Position.TOTAL_STEPS, _NOTHING)[1]),
        time=wall_time(places.get(Position.TIME, _NOTHING)[1]),
        total_epochs=to_step(places.get(Position.TOTAL_EPOCHS, _NOTHING)[1]),
    )
