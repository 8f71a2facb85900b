"""What `specon classify` found out, in words and as JSON. Pure."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final

import msgspec
from msgspec import Struct

from specon_manager.backends.kube.objects.annotation_keys import PREFIX
from specon_manager.cli.pattern_proposal import PatternProposal
from specon_manager.cli.study.course import Course, Mark, place
from specon_manager.cli.study.likeliest import FormatGuess
from specon_manager.views.names import printable
from specon_sidecar.classify import Category, ClassifierSettings
from specon_sidecar.counts import format_count, format_times
from specon_sidecar.event_files.event_reader import FORMAT
from specon_sidecar.formats.detect import Evidence
from specon_sidecar.formats.reader import Reader
from specon_sidecar.formats.sample import Sample
from specon_sidecar.formats.surroundings import Total
from specon_sidecar.formats.table import REGULAR_EXPRESSION
from specon_sidecar.observing.bounds import whole_epoch

_SCHEMA: Final = 1
_EXAMPLES: Final = 3
_EXAMPLE: Final = 160
_SCRIPTS: Final = frozenset({".py", ".sh"})
_EXAMPLE_PATTERN: Final = r"step (?P<step>\d+) cost (?P<value>\S+)"


class Classification(Struct, frozen=True, kw_only=True):
    """Everything that is known of a log that was read to its end."""

    path: str
    """The file, or the directory of event files, that was read."""
    why: str
    """Why that one."""
    reader: Reader
    settings: ClassifierSettings
    goal_from: str
    """What says whether less or more is better."""
    metric: str | None
    lines: int
    samples: int
    oversized: int
    first: Sample | None
    last: Sample | None
    total: Total | None
    """How long the training is, as far as the log says it."""
    course: Course | None
    """None where nothing could be judged."""
    notes: Sequence[str] = ()
    readings: Sequence[FormatGuess] = ()
    """Where nothing was recognised: what it could be."""
    proposal: PatternProposal | None = None
    """Where nothing was recognised and no number has a name: a pattern that was tried."""
    examples: Sequence[bytes] = ()
    """Where nothing was recognised: some of its lines."""

    @property
    def recognised(self) -> bool:
        """Whether there is a curve, or a reason why there can be none."""
        return self.samples > 0 or self.reader.unclassifiable is not None

    @property
    def unparsed(self) -> int:
        """Lines without a sample."""
        return max(0, self.lines - self.samples)


def head(found: Classification) -> Iterator[str]:
    """Yield the lines about the log: the values read, how, and why so."""
    yield f"log       {printable(found.path)} ({found.why})"
    evidence = found.reader.evidence
    chosen = found.reader.chosen
    if chosen is not None:
        own = next((one for one in evidence if one.format == chosen), None)
        yield f"format    {chosen}{'' if own is None else ', by its first ' + _describe(own)}"
        for other in evidence:
            if other is not own:
                yield f"          less likely {other.format}: {_describe(other)}"
    if found.metric is not None:
        less = "more" if found.settings.goal == "max" else "less"
        yield f"metric    {printable(found.metric)!r}, {less} is better ({found.goal_from})"
    long = f", {found.oversized:,} too long to be read" if found.oversized else ""
    yield (
        f"read      {format_count(found.lines, 'line', form=',')},"
        f" {format_count(found.samples, 'sample', form=',')},"
        f" {format_count(found.unparsed, 'line', form=',')} without one"
        f"{long}"
    )
    for name, sample in (("first", found.first), ("last", found.last)):
        if sample is not None:
            yield f"{name:<9} {sample.value:.6g} at {place(sample)}"
    if found.samples:
        yield f"total     {_length(found.total)}"
    yield from (f"note      {printable(note)}" for note in found.notes)


def verdict(found: Classification) -> Iterator[str]:
    """Yield the lines about the course: since when it is what, and what specon would have done."""
    why = found.reader.unclassifiable
    if why is not None:
        yield f"verdict   {Category.NOT_CLASSIFIABLE}: {why}"
        yield "would     never have been moved for its curve"
        return
    course = found.course
    if course is None:
        yield "verdict   not recognised: no sample was found"
        if (suffix := PurePath(found.path).suffix) in _SCRIPTS:
            yield f"  a {suffix} file is a script; name the log that it prints: specon classify train.log"
            return
        yield from _advice(found)
        return
    for name, mark in (("watching", course.watching_at), ("converged", course.converged_at)):
        yield f"{name:<9} {'never' if mark is None else 'first at ' + place(mark)}"
    judgement = course.judgement
    yield (
        f"verdict   {judgement.category} after {format_count(course.intervals, 'interval')}:"
        f" {judgement.reason}"
    )
    yield f"would     {_action(found, course)}"


def report(found: Classification) -> bytes:
    """Return all of it as a JSON document; numbers that are not finite are null."""
    course = found.course
    answer: dict[str, Any] = {
        "schema": _SCHEMA,
        "path": found.path,
        "why": found.why,
        "recognised": found.recognised,
        "format": found.reader.chosen,
        "evidence": [_evidence(one) for one in found.reader.evidence],
        "metric": found.metric,
        "goal": found.settings.goal or "min",
        "goal_from": found.goal_from,
        "classifier": msgspec.to_builtins(found.settings),
        "lines": found.lines,
        "samples": found.samples,
        "total": None if found.total is None else _total(found.total),
        "unparsed": found.unparsed,
        "oversized": found.oversized,
        "restarts": found.reader.restarts,
        "unclassifiable": found.reader.unclassifiable,
        "first": _at(found.first, None if course is None or course.first is None else course.first.category),
        "last": _at(found.last, None if course is None else course.judgement.category),
        "category": _category(found),
        "reason": found.reader.unclassifiable or (course.judgement.reason if course is not None else None),
        "intervals": 0 if course is None else course.intervals,
        "watching_at": None if course is None else _mark(course.watching_at),
        "converged_at": None if course is None else _mark(course.converged_at),
        "reopened": 0 if course is None else course.reopened,
        "curve": [] if course is None else [_mark(mark) for mark in course.points],
        "notes": list(found.notes),
        "readings": [
            {"annotations": annotations(one), "evidence": _evidence(one.evidence)} for one in found.readings
        ],
        "proposal": None if found.proposal is None else _proposal(found.proposal),
    }
    return msgspec.json.format(msgspec.json.encode(answer), indent=2) + b"\n"


def annotations(reading: FormatGuess) -> Mapping[str, str]:
    """Return the annotations of a pod that make the sidecar read its log so.

    Event files are told by what they are. A name that no annotation can hold is left out.
    """
    found = {} if reading.format == FORMAT else {f"{PREFIX}format": reading.format}
    metric = " ".join(reading.metric.split())  # names are compared with single blanks
    return found | ({f"{PREFIX}metric": metric} if metric.isprintable() else {})


def _length(total: Total | None) -> str:
    if total is None:
        return "none was understood: a log that prints its number of steps or epochs is judged better"
    counts = ((total.steps, "steps"), (total.epochs, "epochs"))
    return f"{', '.join(f'{count:,} {unit}' for count, unit in counts if count)} ({printable(total.source)})"


def _total(total: Total) -> dict[str, Any]:
    return {"steps": total.steps, "epochs": total.epochs, "from": total.source}


def _advice(found: Classification) -> Iterator[str]:
    if found.readings:
        yield "likeliest readings, and the annotations that choose them:"
    for number, one in enumerate(found.readings, 1):
        yield f"  {number}. {one.format}, metric {printable(one.metric)!r}: {_describe(one.evidence)}"
        yield from _paste(annotations(one))
    if not found.readings:
        proposal = found.proposal
        if proposal is None:
            yield "  no number was found; lines of another form need a pattern (here: --pattern), such as"
        else:
            yield (
                f"  no named number was found; this pattern (here: --pattern) finds"
                f" {format_count(proposal.samples, 'sample')},"
                f" {proposal.first.value:.6g} at {place(proposal.first)}"
                f" to {proposal.last.value:.6g} at {place(proposal.last)}"
            )
        pattern = _EXAMPLE_PATTERN if proposal is None else proposal.pattern
        yield from _paste({f"{PREFIX}format": REGULAR_EXPRESSION, f"{PREFIX}pattern": pattern})
    yield from (
        f"  a line    {printable(line[:_EXAMPLE].decode('utf-8', 'replace'))}"
        for line in found.examples[:_EXAMPLES]
    )


def _paste(found: Mapping[str, str]) -> Iterator[str]:
    """Yield the annotations, and the same as lines of a job of `specon local`."""
    yield from _yaml(found)
    yield "     in a job file:"
    yield from _yaml({key.removeprefix(PREFIX): value for key, value in found.items()})


def _yaml(found: Mapping[str, str]) -> Iterator[str]:
    """Yield annotations as they stand in a manifest: a text of JSON is one of YAML."""
    yield from (f"       {key}: {json.dumps(value, ensure_ascii=False)}" for key, value in found.items())


def _action(found: Classification, course: Course) -> str:
    mark = course.converged_at
    if mark is None:
        return "never have been moved to make room: it had not converged"
    ends = [end for end in (found.first, found.last) if end is not None]
    by_epochs = all(end.step is None for end in ends)
    if by_epochs and any(whole_epoch(end.epoch) is None for end in ends):
        return (
            "never have been moved: its log names no steps, so a resume could not be proven;"
            " where its lines hold a number that counts, --pattern with (?P<step>...) reads it"
        )
    again = ""
    if course.reopened:
        again = f"; it grew again {format_times(course.reopened)}, and was wanted where it was then"
    share = _share_after(found, mark)
    left = "" if share is None else f", with {share:.0%} of this log still to come"
    counts = "; each epoch counts as a step" if by_epochs else ""
    return (
        f"have been movable from {place(mark)} on{left}: asked for a checkpoint, and moved to another node"
        f" once that was verified, if a growing job needed the room{again}{counts}"
    )


def _share_after(found: Classification, mark: Mark) -> float | None:
    first, last = found.first, found.last
    if first is None or last is None or None in (mark.step, first.step, last.step):
        return None
    begin, at, end = first.step or 0, mark.step or 0, last.step or 0
    return (end - at) / (end - begin) if begin <= at <= end and end > begin else None


def _describe(evidence: Evidence) -> str:
    ends = [one for one in (evidence.first, evidence.last) if one is not None]
    values = " to ".join(f"{one.value:.4g}" for one in ends)
    return (
        f"{format_count(evidence.samples, 'sample')} at"
        f" {format_count(evidence.steps, 'step or epoch', 'steps or epochs')},"
        f" {evidence.share_of_lines:.0%} of"
        f" the lines, {values}"
    )


def _category(found: Classification) -> Category | None:
    if found.reader.unclassifiable is not None:
        return Category.NOT_CLASSIFIABLE
    return None if found.course is None else found.course.judgement.category


def _evidence(evidence: Evidence) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(evidence)
    return plain | {"first": _at(evidence.first, None), "last": _at(evidence.last, None)}


def _at(sample: Sample | None, category: Category | None) -> dict[str, Any] | None:
    if sample is None:
        return None
    value = sample.value if math.isfinite(sample.value) else None
    plain = {"step": sample.step, "epoch": sample.epoch, "value": value, "time": sample.time}
    return plain | {"name": sample.name, "category": category}


def _proposal(proposal: PatternProposal) -> dict[str, Any]:
    first, last = _at(proposal.first, None), _at(proposal.last, None)
    return {"pattern": proposal.pattern, "samples": proposal.samples, "first": first, "last": last}


def _mark(mark: Mark | None) -> dict[str, Any] | None:
    return None if mark is None else msgspec.to_builtins(mark)
