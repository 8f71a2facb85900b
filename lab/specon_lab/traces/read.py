"""Files to a workload: the form is recognised by its columns, every mistake is told at once."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from specon_lab.traces.alibaba import ALIBABA
from specon_lab.traces.form import Form, Shape, split_over_nodes
from specon_lab.traces.helios import HELIOS
from specon_lab.traces.mistakes import FieldError, LeftOut, Mistakes, Tally, TraceError, Warn
from specon_lab.traces.nodes import (
    OWN_SHAPE,
    lists_nodes,
    make_nodes,
    nodes_in,
    nodes_of,
    shape_of,
    tell_too_large,
    tell_unknown_models,
)
from specon_lab.traces.options import TraceOptions
from specon_lab.traces.philly import PHILLY
from specon_lab.traces.pollux import POLLUX, measurements_beside
from specon_lab.traces.records import Record, Table, json_document, json_lines, text_lines
from specon_lab.traces.row import Amounts, TraceRow, prepare_record, submission_of
from specon_lab.workloads.parameters import mismatch
from specon_lab.workloads.workload import NodeFailure, Sharing, Submission, Workload
from specon_manager.model.cluster import Node

FormName = Literal["auto", "own", "philly", "alibaba", "helios", "pollux"]


def _own(row: TraceRow, _options: TraceOptions, _shape: Shape) -> TraceRow:
    return row


OWN: Final = Form(
    name="own",
    columns=frozenset({"name", "at", "seconds"}),
    row=TraceRow,
    translate=_own,
    relative=False,
    strict=True,
    shape=OWN_SHAPE,
)
FORMS: Final[Mapping[str, Form]] = MappingProxyType(
    {form.name: form for form in (OWN, PHILLY, ALIBABA, HELIOS, POLLUX)}
)


class _Document(Struct, frozen=True, kw_only=True):
    """What a JSON document may say beside its jobs and nodes."""

    name: str | None = None
    failures: tuple[NodeFailure, ...] = ()
    sharing: Sharing = Sharing()
    bandwidth: float | None = None
    report_seconds: float | None = None


def read_workload(
    paths: Path | Sequence[Path],
    format_name: FormName = "auto",
    options: TraceOptions = TraceOptions(),  # noqa: B008  (frozen)
    warn: Warn = lambda _warning: None,
) -> Workload:
    """Return the workload of a file of jobs, or of several; a file of nodes may be among them.

    `warn` takes warnings about files that can be used. Raises TraceError with every mistake.
    """
    reading = _Reading(options, warn, format_name)
    for path in [paths] if isinstance(paths, Path) else paths:
        reading.open(path)
    return reading.workload()


class _Reading:
    """The files of one trace, as far as they are read."""

    def __init__(self, options: TraceOptions, warn: Warn, format_name: str) -> None:
        if format_name != "auto" and format_name not in FORMS:
            raise TraceError([f"format: {format_name!r} is not one of auto, {', '.join(FORMS)}"])
        self._options = options
        self._warn = warn
        self._asked = None if format_name == "auto" else FORMS[format_name]
        self._form: Form | None = None
        self._mistakes = Mistakes()
        self._nodes: tuple[Node, ...] = ()
        self._files: list[tuple[str, Iterable[Record]]] = []
        self._document = _Document()
        self._split = Tally()
        self._stem = "trace"

    def open(self, path: Path) -> None:
        """Look at a file's beginning: what it lists, and in which form; nodes are read at once."""
        begin = next((line.strip() for line in text_lines(path) if line.strip()), "")
        if begin.startswith(("{", "[")):
            self._open_json(path, begin)
            return
        table = Table(path)
        if lists_nodes(table.columns):
            self._take_nodes(nodes_of(table, self._mistakes, self._warn), table.file)
            return
        form = self._asked or _form_of(table)
        self._take_form(form, path)
        if missing := sorted(form.columns - set(table.columns)):
            raise TraceError(
                [f"{path.name}: the form {form.name} needs columns that are missing: {', '.join(missing)}"]
            )
        if len(set(table.columns)) < len(table.columns):
            twice = sorted({column for column in table.columns if table.columns.count(column) > 1})
            raise TraceError([f"{path.name}: columns are named twice: {', '.join(map(repr, twice))}"])
        if form.strict:
            self._tell_unknown(table.file, [name for name in table.columns if name not in _COLUMNS])
        self._files.append((table.file, table))

    def _open_json(self, path: Path, begin: str) -> None:
        self._take_form(self._asked or OWN, path)
        if self._form is not OWN:
            raise TraceError([f"{path.name}: JSON is read in the project's own form only"])
        try:
            first = msgspec.json.decode(begin)
        except (msgspec.DecodeError, RecursionError):
            first = None
        if isinstance(first, dict) and not first.keys() & {"jobs", "jcts", "nodes", "failures", "sharing"}:
            self._files.append((path.name, _pass_known(json_lines(path), path.name, self._tell_unknown)))
            return
        document = json_document(path)
        jobs = document
        if isinstance(document, dict):
            if "jcts" in document:
                raise TraceError([f"{path.name}: holds results, no jobs"])
            jobs = document.pop("jobs", None)
            if "nodes" in document:
                self._take_nodes(nodes_in(document.pop("nodes"), path.name, self._mistakes), path.name)
            names = [field.name for field in msgspec.structs.fields(_Document)]
            self._tell_unknown(path.name, [str(key) for key in document if key not in names])
            try:
                self._document = msgspec.convert(document, _Document)
            except msgspec.ValidationError as error:
                self._mistakes.add(path.name, None, str(error))
        if not isinstance(jobs, list):
            raise TraceError([f"{path.name}: jobs: must be a list"])
        self._files.append((path.name, _pass_known(_list(jobs), path.name, self._tell_unknown)))

    def _take_form(self, form: Form, path: Path) -> None:
        if self._form is not None and self._form is not form:
            raise TraceError([f"{path.name}: is of the form {form.name}, another file of {self._form.name}"])
        if self._form is None:
            self._stem = path.stem
        self._form = form
        if form is POLLUX and self._options.traces is None:
            self._options = msgspec.structs.replace(self._options, traces=measurements_beside(path))

    def _take_nodes(self, nodes: tuple[Node, ...], file: str) -> None:
        if self._nodes:
            raise TraceError([f"{file}: lists nodes, and another file does too"])
        self._nodes = nodes

    def _tell_unknown(self, file: str, columns: list[str]) -> None:
        if columns:
            named = ", ".join(column[:60] for column in columns[:20])
            self._warn(f"{file}: columns that are not known are not looked at: {named}")

    def workload(self) -> Workload:
        """Read the jobs, and return everything."""
        form, options = self._form, self._options
        if form is None:
            self._mistakes.check()
            raise TraceError(["no file of jobs is given"])
        if self._nodes and options.names_cluster:
            raise TraceError(["nodes are given by a file and by options; give them once"])
        shape = shape_of(self._nodes, options, form.shape)
        jobs = self._jobs(form, shape)
        self._mistakes.check()
        if not jobs:
            names = ", ".join(file for file, _ in self._files)
            raise TraceError([f"{names}: no job is left"])
        nodes = self._nodes or make_nodes(jobs, shape, options, self._warn)
        tell_too_large(jobs, nodes, self._warn)
        tell_unknown_models(jobs, nodes, self._warn)
        document = self._document
        known = {node.name for node in nodes}
        for failure in document.failures:
            if failure.node not in known:
                raise TraceError([f"failures: there is no node {failure.node!r}"])
        given = {
            name: value
            for name in ("bandwidth", "report_seconds")
            if (value := getattr(document, name)) is not None
        }
        workload = Workload(
            name=document.name or self._stem,
            nodes=nodes,
            jobs=tuple(jobs),
            failures=document.failures,
            sharing=document.sharing,
            **given,
        )
        return _check(workload, given)

    def _jobs(self, form: Form, shape: Shape) -> list[Submission]:
        """Return the jobs that the options ask for, in the order of arrival."""
        left_out = Tally()
        jobs: list[Submission] = []
        places: dict[str, int] = {}  # numbers, not pairs: there may be millions
        amounts = Amounts()
        for index, (file, records) in enumerate(self._files):
            for number, values in records:
                if isinstance(values, str):
                    self._mistakes.add(file, number, values)
                    continue
                try:
                    row = self._row(form, values, shape, (file, number))
                    if row is None:
                        continue
                    job = submission_of(row, amounts)
                except LeftOut as reason:
                    left_out.add(str(reason), f"{file}, row {number}")
                    continue
                except FieldError as error:
                    self._mistakes.add(file, number, str(error))
                    continue
                place = number * len(self._files) + index
                if (before := places.setdefault(job.spec.name, place)) != place:
                    line, other = divmod(before, len(self._files))
                    there = f"{self._files[other][0]}, row {line}"
                    self._mistakes.add(file, number, f"name: {row.name!r} is in {there} already")
                elif self._options.queue is None or row.queue == self._options.queue:
                    jobs.append(job)
        left_out.tell(self._warn, "row is left out", "rows are left out")
        self._split.tell(self._warn, "job is split over nodes", "jobs are split over nodes")
        return _arrange(jobs, form, self._options)

    def _row(
        self, form: Form, values: dict[str, Any], shape: Shape, place: tuple[str, int]
    ) -> TraceRow | None:
        """Return the record as a job's row, or None with its mistakes noted."""
        try:
            record = msgspec.convert(prepare_record(values), form.row, strict=False)
        except msgspec.ValidationError:
            found = _mend(values, form.row)
            if isinstance(found, list):
                for problem in found:
                    self._mistakes.add(*place, problem)
                return None
            record = found
        told = form.translate(record, self._options, shape)
        row = split_over_nodes(told, shape)
        if row is not told:
            self._split.add("ask for more GPUs than a node has", f"{place[0]}, row {place[1]}")
        limit = self._options.trial_seconds
        changes: dict[str, Any] = {}
        if limit is not None:
            changes["job_class"] = "trial" if row.seconds <= limit else "best-effort"
        if not row.name:
            file = "" if len(self._files) == 1 else f"{[name for name, _ in self._files].index(place[0])}-"
            changes["name"] = f"job-{file}{place[1]}"
        return msgspec.structs.replace(row, **changes) if changes else row


_COLUMNS: Final = frozenset(field.encode_name for field in msgspec.structs.fields(TraceRow))


def _form_of(table: Table) -> Form:
    """Return the form whose columns the table has; raises TraceError that names the nearest form."""
    columns = set(table.columns)
    found = [form for form in FORMS.values() if form.columns <= columns]
    if found:
        return max(found, key=lambda form: len(form.columns))
    if len(table.columns) == 1 and any(separator in table.columns[0] for separator in ";\t|"):
        raise TraceError([f"{table.file}: the columns are not separated by commas"])
    nearest = max(FORMS.values(), key=lambda form: len(form.columns & columns) / len(form.columns))
    missing = ", ".join(sorted(nearest.columns - columns))
    given = ", ".join(repr(column[:40]) for column in table.columns[:12])
    known = ", ".join(FORMS)
    problem = f"is of no form that is known ({known}): it has {given}; {nearest.name} also needs {missing}"
    raise TraceError([f"{table.file}: {problem}"])


def _mend(values: dict[str, Any], kind: type[Struct]) -> Struct | list[str]:
    """Return the record without the spaces around its values, or everything that is wrong with it."""
    stripped = {key: value.strip() if isinstance(value, str) else value for key, value in values.items()}
    stripped = {key: value for key, value in stripped.items() if value != ""}
    problems = []
    for field in msgspec.structs.fields(kind):
        if field.encode_name not in stripped:
            if field.required:
                problems.append(f"{field.encode_name}: is missing")
            continue
        value = stripped[field.encode_name]
        try:
            msgspec.convert(value, field.type, strict=False)
        except msgspec.ValidationError as error:
            problem = mismatch(str(error), field.type)
            problems.append(f"{field.encode_name}: {problem}, not {_short(value)}")
    return problems or msgspec.convert(stripped, kind, strict=False)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004  (a part of a line)


def _list(jobs: list[Any]) -> Iterator[Record]:
    for number, job in enumerate(jobs, start=1):
        yield number, job if isinstance(job, dict) else "must be an object"


def _pass_known(
    records: Iterable[Record], file: str, tell: Callable[[str, list[str]], None]
) -> Iterator[Record]:
    """Pass the records on, and tell keys that are not known, each once, as far as they can be counted."""
    told: set[str] = set()
    for record in records:
        if isinstance(record[1], dict) and len(told) < len(_COLUMNS):
            unknown = [key for key in record[1] if key not in _COLUMNS and key not in told]
            if unknown:
                tell(file, unknown)
                told.update(unknown)
        yield record


def _arrange(jobs: list[Submission], form: Form, options: TraceOptions) -> list[Submission]:
    """Return the jobs of the window in the order of arrival, with the times that they have in it."""
    jobs.sort(key=lambda job: job.at)
    if not jobs:
        return jobs
    begin = jobs[0].at if form.relative else 0.0
    first = begin + options.start
    if options.start or options.end is not None:
        last = float("inf") if options.end is None else begin + options.end
        jobs = [job for job in jobs if first <= job.at < last]
    jobs = jobs[: options.limit]
    if not first and options.scale == 1.0:
        return jobs
    return [
        Submission(at=(job.at - first) * options.scale, spec=job.spec, training=job.training) for job in jobs
    ]


def _check(workload: Workload, given: Mapping[str, object]) -> Workload:
    """Return the workload; raises TraceError where a number of the document is out of bounds."""
    for field in msgspec.structs.fields(Workload):
        if field.name in given:
            try:
                msgspec.convert(given[field.name], field.type)
            except msgspec.ValidationError as error:
                raise TraceError([f"{field.name}: {error}"]) from error
    return workload
