import json
import math
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_sidecar.classify import Category
from specon_sidecar.classify.curve import Estimate
from specon_sidecar.wire import (
    MAX_MESSAGE_BYTES,
    Acknowledgement,
    Checkpoint,
    CheckpointInstruction,
    Instructions,
    IntervalInstruction,
    Observation,
    ReleaseInstruction,
    Report,
    Share,
    StopInstruction,
    Turn,
    Turns,
    WireError,
    decode_acknowledgement,
    decode_instructions,
    decode_report,
    decode_resumable,
    decode_turns,
    encode,
)

RECORDED = Path(__file__).parents[1] / "wire" / "v1"
DECODERS = {
    "report": decode_report,
    "acknowledgement": decode_acknowledgement,
    "instructions": decode_instructions,
    "resumable": decode_resumable,
    "turns": decode_turns,
}
MINIMAL = {
    "schema": 1,
    "replica": "ns/job/worker/0",
    "incarnation": "uid",
    "session": "s",
    "sequence": 1,
    "category": "unknown",
}


def body(**changes):
    return msgspec.json.encode({**MINIMAL, **changes})


@pytest.mark.parametrize("file", sorted(RECORDED.glob("*.json")), ids=lambda file: file.stem)
def test_recorded_messages_are_understood_for_ever(file):
    """A sidecar lives as long as its job: what version 1 once sent is decoded, and loses nothing we know."""
    decode = DECODERS[file.stem.split("-")[0]]
    message = decode(file.read_bytes())
    assert decode(encode(message)) == message
    again, recorded = msgspec.to_builtins(message), msgspec.json.decode(file.read_bytes())
    for name, value in again.items():
        if name in recorded and not isinstance(value, dict | tuple):
            assert recorded[name] == value


def test_every_message_has_a_recording():
    """Each kind of message and of instruction is recorded."""
    assert {file.stem.split("-")[0] for file in RECORDED.glob("*.json")} == set(DECODERS)
    recorded = (decode_instructions(file.read_bytes()) for file in RECORDED.glob("instructions-*.json"))
    assert {type(one) for message in recorded for one in message.instructions} == {
        CheckpointInstruction,
        IntervalInstruction,
        ReleaseInstruction,
        StopInstruction,
    }


NAMES = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?", fullmatch=True)
REPLICAS = st.builds(
    lambda namespace, job, role, index: f"{namespace}/{job}/{role}/{index}",
    NAMES,
    NAMES,
    st.sampled_from(["worker", "ps"]),
    st.integers(0, 999999),
)
IDS = st.from_regex(r"[A-Za-z0-9._:/-]{1,128}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=512)
COUNTS = st.integers(0, 2**62)
AGES = st.floats(0, 1e10)
AMOUNTS = st.floats(0, 1e18)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
ESTIMATES = st.builds(Estimate, value=AMOUNTS, uncertainty=AMOUNTS)
DIGESTS = st.from_regex(r"[0-9a-f]{64}", fullmatch=True)
CHECKPOINTS = st.builds(Checkpoint, step=COUNTS, path=TEXTS.filter(bool), digest=st.none() | DIGESTS)
OBSERVATIONS = st.builds(Observation, name=TEXTS, value=st.none() | FINITE, age=AGES, step=st.none() | COUNTS)
REPORTS = st.builds(
    Report,
    schema=st.just(1),
    replica=REPLICAS,
    incarnation=IDS,
    session=IDS,
    sequence=COUNTS,
    category=st.sampled_from(Category),
    category_age=AGES,
    reason=TEXTS,
    first=st.none() | OBSERVATIONS,
    last=st.none() | OBSERVATIONS,
    gain=st.none() | AMOUNTS,
    total_steps=st.none() | COUNTS,
    expected_gain=st.none() | ESTIMATES,
    remaining_seconds=st.none() | ESTIMATES,
    lines=COUNTS,
    checkpoint=st.none() | CHECKPOINTS,
    cpu_seconds=st.none() | AMOUNTS,
    memory_bytes=st.none() | COUNTS,
    stopped_seconds=st.none() | AMOUNTS,
    format=st.none() | TEXTS,
    share=st.none() | st.builds(Share, why=TEXTS, devices=st.lists(IDS, max_size=3).map(tuple)),
    ended=st.booleans(),
)
ACKNOWLEDGEMENTS = st.builds(
    Acknowledgement,
    schema=st.just(1),
    replica=REPLICAS,
    incarnation=IDS,
    id=IDS,
    done=st.booleans(),
    checkpoint=st.none() | CHECKPOINTS,
    reason=TEXTS,
    paused=st.booleans(),
)
INSTRUCTIONS = st.builds(
    Instructions,
    schema=st.just(1),
    instructions=st.lists(
        st.builds(CheckpointInstruction, id=IDS, seconds_left=AGES, pause=st.floats(0, 3600))
        | st.builds(ReleaseInstruction, id=IDS, request=IDS)
        | st.builds(StopInstruction, id=IDS)
        | st.builds(IntervalInstruction, id=IDS, seconds=st.floats(0.1, 3600)),
        max_size=16,
    ).map(tuple),
)


@given(REPORTS)
def test_reports_come_back_as_they_were(report):
    """Every report that can be built within the bounds is decoded to the same report."""
    assert decode_report(encode(report)) == report


@given(ACKNOWLEDGEMENTS)
def test_acknowledgements_come_back_as_they_were(acknowledgement):
    """Every acknowledgement within the bounds is decoded to the same one."""
    assert decode_acknowledgement(encode(acknowledgement)) == acknowledgement


@given(INSTRUCTIONS)
def test_instructions_come_back_as_they_were(instructions):
    """Every list of instructions within the bounds is decoded to the same list."""
    assert decode_instructions(encode(instructions)) == instructions


TURNS = st.builds(
    Turns,
    schema=st.just(1),
    id=st.from_regex(r"[a-z0-9]{0,64}", fullmatch=True),
    period=st.floats(0.001, 60),
    on=st.lists(st.builds(Turn, begin=st.floats(0, 60), length=st.floats(0, 60)), max_size=4).map(tuple),
    clock=AGES,
    seconds=st.floats(0, 10),
)


@given(TURNS)
def test_turns_come_back_as_they_were(turns):
    """Whatever is within the bounds is decoded to the same."""
    assert decode_turns(encode(turns)) == turns


@given(st.binary(max_size=300))
def test_garbage_is_a_wire_error(garbage):
    """Bytes of any kind are refused with WireError and nothing else."""
    for decode in DECODERS.values():
        try:
            decode(garbage)
        except WireError:
            continue


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("replica", "no-slashes"),
        ("replica", "ns/job/chief/0"),
        ("replica", "ns/job/worker/01"),
        ("incarnation", ""),
        ("incarnation", "a b"),
        ("sequence", -1),
        ("category", "asleep"),
        ("gain", -0.5),
        ("lines", 2**63),
        ("category_age", -1.0),
        ("reason", "x" * 513),
        ("format", 7),
    ],
)
def test_errors_name_the_field(field, value):
    """A value out of its bounds is refused, and the message names the field."""
    with pytest.raises(WireError, match=rf"\$\.{field}"):
        decode_report(body(**{field: value}))


def test_infinite_numbers_do_not_exist():
    """JSON has no NaN: a gain that is not a number is refused."""
    with pytest.raises(WireError):
        decode_report(body().replace(b'"sequence":1', b'"sequence":1,"gain":NaN'))
    assert msgspec.json.encode(math.inf) == b"null"


def test_another_schema_is_refused():
    """Version 2 is not guessed at."""
    with pytest.raises(WireError, match="schema"):
        decode_report(body(schema=2))


def test_long_and_deep_messages_are_refused():
    """Sizes are bounded before anything is decoded, and nesting does not end the process."""
    with pytest.raises(WireError, match="longer than"):
        decode_report(b" " * (MAX_MESSAGE_BYTES + 1))
    with pytest.raises(WireError):
        decode_report(b'{"x":' + b"[" * 60000)


@pytest.mark.parametrize("field", ["replica", "incarnation", "session"])
def test_a_name_may_not_end_in_a_newline(field):
    """A pattern's end is the end of the text, not the place before a last newline."""
    message = {
        "schema": 1,
        "replica": "default/a/worker/0",
        "incarnation": "1",
        "session": "s",
        "sequence": 0,
        "category": "unknown",
    }
    decode_report(json.dumps(message).encode())
    with pytest.raises(WireError, match=field):
        decode_report(json.dumps({**message, field: message[field] + "\n"}).encode())


class OldInstruction(msgspec.Struct, frozen=True, tag="checkpoint", omit_defaults=True):
    """The request as version 0.1 knew it."""

    id: str
    seconds_left: float


class OldInstructions(msgspec.Struct, frozen=True, omit_defaults=True):
    schema: int
    instructions: tuple[OldInstruction, ...] = ()


class OldAcknowledgement(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer as version 0.1 knew it."""

    schema: int
    replica: str
    incarnation: str
    id: str
    done: bool
    checkpoint: Checkpoint | None = None
    reason: str = ""


def test_an_earlier_sidecar_takes_a_request_to_pause_as_one_to_save():
    """It ignores the pause, and answers without a word of it: its trainer trains on."""
    asked = CheckpointInstruction(id="move-1", seconds_left=20.0, pause=30.0)
    told = encode(Instructions(schema=1, instructions=(asked,)))
    (understood,) = msgspec.json.decode(told, type=OldInstructions).instructions
    assert (understood.id, understood.seconds_left) == ("move-1", 20.0)
    old = OldAcknowledgement(schema=1, replica="ns/job/worker/0", incarnation="u", id="move-1", done=True)
    assert decode_acknowledgement(encode(old)).paused is False


def test_an_earlier_manager_takes_the_answer_of_a_sidecar_whose_trainer_pauses():
    """It ignores that; it never asks for a pause, so it is not told of one, either."""
    answer = Acknowledgement(
        schema=1, replica="ns/job/worker/0", incarnation="u", id="move-1", done=True, paused=True
    )
    assert msgspec.json.decode(encode(answer), type=OldAcknowledgement).done
    old = OldInstructions(schema=1, instructions=(OldInstruction(id="move-1", seconds_left=20.0),))
    (instruction,) = decode_instructions(encode(old)).instructions
    assert instruction == CheckpointInstruction(id="move-1", seconds_left=20.0, pause=0.0)


def test_an_earlier_sidecar_understands_nothing_beside_a_release():
    """That is why only one that said that its trainer pauses is told so."""
    message = encode(Instructions(schema=1, instructions=(ReleaseInstruction(id="r", request="move-1"),)))
    with pytest.raises(msgspec.ValidationError, match="release"):
        msgspec.json.decode(message, type=OldInstructions)


@pytest.mark.parametrize("seconds", [-1.0, 3600.5])
def test_a_pause_is_bounded(seconds):
    """Nobody keeps a trainer waiting for a day."""
    message = Instructions(
        schema=1, instructions=(CheckpointInstruction(id="i", seconds_left=1.0, pause=seconds),)
    )
    with pytest.raises(WireError, match="pause"):
        decode_instructions(encode(message))
