"""Named values of one moment -> sample; shared by the formats that print records."""

from collections.abc import Iterable
from typing import Final

from specon_sidecar.formats.metric_choice import Candidate, MetricChoice
from specon_sidecar.formats.number import to_float, to_step
from specon_sidecar.formats.position_keys import Position, position_of
from specon_sidecar.formats.wall_time import wall_time
from specon_sidecar.sample import Sample

_REMEMBERED: Final = 1024

_Role = tuple[Candidate | None, tuple[Position, int] | None]
_UNKNOWN: Final[_Role] = (None, None)


class RecordReader:
    """Finds metric, step, epoch, total and time among the keys of records."""

    def __init__(self, choice: MetricChoice) -> None:
        self._choice = choice
        self._roles: dict[str, _Role] = {}

    def sample(self, record: Iterable[tuple[str, object]]) -> Sample | None:
        """Return the sample of a record, or None where it holds no number under the followed name."""
        found: list[tuple[Candidate, float]] = []
        places: dict[Position, tuple[int, object]] = {}
        roles = self._roles
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
                kind, rank = position
                known = places.get(kind)
                if known is None or rank < known[0]:
                    places[kind] = (rank, raw)
        picked = self._choice.pick(found) if found else None
        if picked is None:
            return None
        return _sample(picked, places)

    def _role(self, key: str) -> _Role:
        candidate, position = self._choice.candidate(key), position_of(key)
        role = _UNKNOWN if candidate is None and position is None else (candidate, position)
        if len(self._roles) < _REMEMBERED:
            self._roles[key] = role
        return role


def _sample(picked: tuple[str, float], places: dict[Position, tuple[int, object]]) -> Sample:
    nothing = (0, None)
    epoch = to_float(places.get(Position.EPOCH, nothing)[1])
    return Sample(
        name=picked[0],
        value=picked[1],
        step=to_step(places.get(Position.STEP, nothing)[1]),
        epoch=epoch if epoch is not None and 0 <= epoch < float("inf") else None,
        total_steps=to_step(places.get(Position.TOTAL_STEPS, nothing)[1]),
        time=wall_time(places.get(Position.TIME, nothing)[1]),
    )
