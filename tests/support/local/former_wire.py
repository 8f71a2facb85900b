"""Sidecars and a manager where one side is of version 0.1: they exchange only what both know.

The messages are frozen as version 0.1 had them (commit 015021b of this repository). A field or an instruction
that it did not know never arrives, in either direction, and what it did not ask for is not there.
"""

from typing import Any, Final

import msgspec
from aiohttp import web
from msgspec import Struct

from support.local.proxy import Proxy, Said


class _Message(Struct, frozen=True, kw_only=True, omit_defaults=True):
    pass


class Observation(_Message, frozen=True):
    name: str
    value: float | None
    age: float
    step: int | None = None


class Estimate(Struct, frozen=True):
    value: float
    uncertainty: float


class Checkpoint(_Message, frozen=True):
    step: int
    path: str
    digest: str | None = None


class Report(_Message, frozen=True):
    schema: int
    replica: str
    incarnation: str
    session: str
    sequence: int
    category: str
    category_age: float = 0.0
    reason: str = ""
    first: Observation | None = None
    last: Observation | None = None
    gain: float | None = None
    total_steps: int | None = None
    expected_gain: Estimate | None = None
    remaining_seconds: Estimate | None = None
    confidence: float | None = None
    remaining_gain: Estimate | None = None
    overfitting: bool = False
    lines: int = 0
    samples: int = 0
    unparsed: int = 0
    checkpoint: Checkpoint | None = None
    cpu_seconds: float | None = None
    memory_bytes: int | None = None
    format: str | None = None
    ended: bool = False


class CheckpointInstruction(_Message, frozen=True, tag="checkpoint"):
    id: str
    seconds_left: float


class StopInstruction(_Message, frozen=True, tag="stop"):
    id: str


class IntervalInstruction(_Message, frozen=True, tag="interval"):
    id: str
    seconds: float


class Instructions(_Message, frozen=True):
    schema: int
    instructions: tuple[CheckpointInstruction | StopInstruction | IntervalInstruction, ...] = ()


class Acknowledgement(_Message, frozen=True):
    schema: int
    replica: str
    incarnation: str
    id: str
    done: bool
    checkpoint: Checkpoint | None = None
    reason: str = ""


SENT: Final[dict[str, type[Struct]]] = {"/v1/reports": Report, "/v1/acknowledgements": Acknowledgement}
ANSWERED: Final = "/v1/instructions"


def as_formerly(body: bytes, known: type[Struct]) -> tuple[bytes, int]:
    """Return a message as version 0.1 understood it, and how many fields it did not know.

    Raises msgspec.ValidationError for what it refused.
    """
    message = msgspec.json.encode(msgspec.json.decode(body, type=known))
    return message, _fields(msgspec.json.decode(body)) - _fields(msgspec.json.decode(message))


def _fields(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(map(_fields, value.values()))
    return sum(map(_fields, value)) if isinstance(value, list) else 0


class FormerWire(Proxy):
    """A proxy that harms nothing; `done` counts what was passed on, and what was left out on the way."""

    def __init__(self) -> None:
        super().__init__(seed=0, harm=0.0)

    async def _pass(self, said: Said) -> web.Response:
        path = said.path.path
        if path not in {*SENT, ANSWERED}:
            return web.json_response({"error": "not found"}, status=404)
        if path in SENT:
            said.body, left_out = as_formerly(said.body, SENT[path])
            self.done[path] += 1
            self.done["left out"] += left_out
        answer = await super()._pass(said)
        if path == ANSWERED and answer.status == 200 and isinstance(answer.body, bytes):
            try:
                body, left_out = as_formerly(answer.body, Instructions)
            except msgspec.ValidationError:  # a sidecar of then asks again a moment later, and again
                self.done["not understood"] += 1
                return web.Response(status=502)
            self.done["left out"] += left_out
            return web.Response(body=body, content_type=answer.content_type)
        return answer
