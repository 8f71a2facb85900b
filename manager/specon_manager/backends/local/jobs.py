"""Job files: anybody's training commands for the virtual nodes of one machine.

A file is YAML: `jobs`, a list of jobs; `defaults`, values for all of them; and what the manager is to do
(`policy`, `parameters`, `budgets`, `gate`, `deadlines`), and whether it may stop jobs so that others run
(`reweight`). Reading names every mistake at once.
"""

import re
import shlex
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, field

from specon_manager.core.given_settings import convert, cut_value, describe_no_yaml, read_settings
from specon_manager.model.cluster import JobSpec
from specon_manager.model.resources import NOTHING, Resources
from specon_manager.model.settings import Settings
from specon_manager.model.spelling import suggest_word
from specon_sidecar import parse
from specon_sidecar.classify.horizon import unreachable
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.table import make_reader

LocalName = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z",
        description="lower-case letters, digits and dashes, at most 63",
    ),
]
Text = Annotated[str, Meta(min_length=1, max_length=4096)]
LocalSeconds = Annotated[float, Meta(ge=0, le=1e9)]

Workers = Annotated[int, Meta(ge=1, le=1000)]

PLACEHOLDERS: Final = (
    *("directory", "job_directory", "log", "checkpoint_path", "python", "samples"),
    *("role", "index", "rank", "workers", "world_size", "start"),
)
_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z_]*)\}")
NAMESPACE: Final = "default"


class LocalJob(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A training command, run as one replica or as a gang of them, each with its placeholders filled in.

    `{directory}` is the replica's own, `{job_directory}` that of all replicas. `{role}` is worker or ps,
    `{index}` the replica's number, `{rank}` that among the workers which train together now, `{workers}`
    (`{world_size}`) how many those are, `{start}` the ordinal of this start of the replica.
    """

    name: LocalName
    command: Annotated[tuple[Text, ...], Meta(min_length=1)] | Text
    """The program and its arguments; a text is split like a shell would, and no shell runs."""
    environment: Mapping[str, str] = {}
    working_directory: Text | None = None
    """Where the command runs; by default the folder from which the manager was started."""
    log: Text = "{directory}/train.log"
    """The training log; what the command prints goes there too unless it writes another file."""
    format: Text = "auto"
    pattern: Text | None = None
    metric: Text | None = None
    goal: Literal["min", "max"] | None = None
    """None goes by the name of the metric."""
    classifier: Literal["specon", "horizon"] = "horizon"
    remaining_gain: Annotated[float, Meta(ge=1e-6, le=0.999)] = 0.02
    confidence: Annotated[float, Meta(ge=0.01, le=0.999)] = 0.7
    alpha: Annotated[float, Meta(gt=0, lt=1)] = 0.01
    interval: Annotated[float, Meta(ge=0.05, le=86400)] = 30.0
    scale: Literal["first", "range"] = "first"
    instrument: bool = False
    """Whether the trainer's helper is put in its way: then it is asked and read through that."""
    checkpoint: Text = "periodic"
    """How checkpoints are asked for; where it is not said and `instrument` is set, `hook`."""
    checkpoint_path: Text | None = None
    """By default `checkpoints` in `{directory}`; in `{job_directory}` where several replicas train as one."""
    marker: Text | None = None
    verify: Text = "sampled"
    """How much of a checkpoint is read: `whole`, `sampled` or `sampled:SECONDS`."""
    submit_at: LocalSeconds = 0.0
    """Seconds after the begin of the run."""
    requests: Resources = NOTHING
    """What one worker reserves."""
    workers: Workers = 1
    """How many are wanted; they start together or not at all."""
    min_workers: Workers | None = None
    """With how many it can train; by default with `workers`."""
    max_workers: Workers | None = None
    """How many it can use; by default `workers`."""
    ps: Annotated[int, Meta(ge=0, le=100)] = 0
    """Parameter servers."""
    ps_requests: Resources | None = None
    """What one parameter server reserves; by default as much as a worker."""
    replicas: Literal["coupled", "independent"] = "coupled"
    """Whether its workers train as one, or each by itself (one seed each, for instance)."""
    savers: Literal["lead", "all"] = "lead"
    """Who saves where they train as one: the first worker for all of them, or each worker its part."""
    resizing: Literal["restart", "live"] | None = None
    """How the number of workers changes: all end and start again (the default), or the others go on."""
    job_class: Literal["trial", "best-effort"] = field(default="best-effort", name="class")
    """A trial is to start at once; best-effort jobs may be preempted for it (FitGpp)."""
    utility: Annotated[float, Meta(ge=0, le=1e15)] = 0.0
    queue: Annotated[str, Meta(max_length=253)] = ""
    """Whose quota it counts against."""
    kind: Annotated[str, Meta(max_length=253)] = ""
    """What it trains: measurements of one job count for all of its kind."""
    priority: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)] = 0
    """It is never preempted for a job of lower priority."""
    restarts: Annotated[int, Meta(ge=0, le=1000)] = 3
    on_hang: Literal["report", "restart"] = "report"
    """The reaction where its steps stop while its processes wait."""
    grace_seconds: Annotated[float, Meta(ge=0, le=86400)] = 30.0
    migrate: bool = True
    heartbeat: Annotated[float, Meta(ge=0.1, le=3600)] = 10.0

    @property
    def arguments(self) -> tuple[str, ...]:
        """The command as a list."""
        return tuple(shlex.split(self.command)) if isinstance(self.command, str) else self.command

    @property
    def most_workers(self) -> int:
        """How many workers it can use."""
        return self.workers if self.max_workers is None else self.max_workers

    @property
    def fewest_workers(self) -> int:
        """With how many workers it can train."""
        return self.workers if self.min_workers is None else self.min_workers

    @property
    def resizing_way(self) -> Literal["restart", "live"]:
        """How the number of workers changes; those that train by themselves go on."""
        return self.resizing or ("restart" if self.replicas == "coupled" else "live")

    @property
    def alone(self) -> bool:
        """Whether it has one replica, now and always."""
        return self.most_workers + self.ps == 1

    def saves(self, worker: int) -> bool:
        """Whether a worker is asked for checkpoints: the first one for all, or each for itself."""
        return worker == 0 or self.savers == "all" or self.replicas == "independent"

    @property
    def checkpoints(self) -> str:
        """Where its checkpoints are, with placeholders."""
        alone = self.alone or self.replicas == "independent"
        return self.checkpoint_path or ("{directory}/checkpoints" if alone else "{job_directory}/checkpoints")


class JobFile(Struct, frozen=True, kw_only=True):
    """A whole file, checked."""

    jobs: tuple[LocalJob, ...]
    settings: Settings = Settings()


class JobFileError(ValueError):
    """A job file that cannot be used; `mistakes` names each field with its mistake."""

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = tuple(mistakes)


def read_job_file(text: str) -> JobFile:
    """Return the jobs and settings of a file; raises JobFileError with every mistake."""
    import yaml  # noqa: PLC0415 - jobs are read as JSON too, and shown where no file is read

    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise JobFileError([f"not YAML: {describe_no_yaml(error)}"]) from error
    if not isinstance(content, dict):
        raise JobFileError([f"a job file is a mapping with the key `jobs`, not {type(content).__name__}"])
    mistakes: list[str] = []
    settings = read_settings(content, mistakes, beside=("jobs", "defaults", "reweight"))
    reweight = convert(content.get("reweight", True), bool, "reweight", mistakes)
    settings = msgspec.structs.replace(settings, reweight=reweight is True)
    defaults = content.get("defaults") or {}
    entries = content.get("jobs")
    if not isinstance(defaults, dict):
        mistakes.append(f"defaults: must be a mapping, not {type(defaults).__name__}")
        defaults = {}
    if not isinstance(entries, list) or not entries:
        mistakes.append("jobs: must be a list of at least one job")
        entries = []
    jobs = [_job(entry, defaults, f"jobs[{index}]", mistakes) for index, entry in enumerate(entries)]
    names = [job.name for job in jobs if job is not None]
    mistakes += [
        f"jobs: the name {name!r} is used twice" for name in sorted(set(names)) if names.count(name) > 1
    ]
    if mistakes:
        raise JobFileError(mistakes)
    return JobFile(jobs=tuple(job for job in jobs if job is not None), settings=settings)


def read_job(body: bytes) -> LocalJob:
    """Return one job from JSON, as `specon submit` sends it; raises JobFileError with every mistake."""
    try:
        entry = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise JobFileError([f"not JSON: {error}"]) from error
    mistakes: list[str] = []
    job = _job(entry, {}, "job", mistakes)
    if mistakes or job is None:
        raise JobFileError(mistakes)
    return job


def job_spec(job: LocalJob) -> JobSpec:
    """Return the job as the manager knows it; the backend's share of it goes into the template."""
    mode = _mode_of(job.checkpoint).kind
    name = f"{NAMESPACE}/{job.name}"
    elastic = job.most_workers > job.fewest_workers
    return JobSpec(
        name=name,
        replicas=(
            *(f"{name}/ps/{index}" for index in range(job.ps)),
            *(f"{name}/worker/{index}" for index in range(job.most_workers)),
        ),
        requests=job.requests,
        ps_requests=job.ps_requests,
        workers=None if job.alone else job.workers,
        min_workers=None if job.alone else job.fewest_workers,
        job_class=job.job_class,
        utility=job.utility,
        queue=job.queue,
        kind=job.kind,
        priority=job.priority,
        restarts=job.restarts,
        on_hang=job.on_hang,
        grace_seconds=job.grace_seconds,
        checkpointing={"sigterm": "on-termination", "none": "none"}.get(mode, "asked"),  # type: ignore[arg-type]
        migratable=job.migrate,
        coupled=job.replicas == "coupled",
        savers=job.savers,
        resizing=job.resizing_way if elastic else "none",
        unscalable="" if elastic else "its number of workers is fixed",
        template=msgspec.to_builtins(job),
    )


def fill_in(text: str, values: Mapping[str, str]) -> str:
    """Return the text with its placeholders filled in; braces around anything else stay."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)


def _job(entry: object, defaults: Mapping[str, Any], place: str, mistakes: list[str]) -> LocalJob | None:
    """Return one job, or None with every mistake in it added."""
    if not isinstance(entry, dict):
        mistakes.append(f"{place}: must be a mapping, not {type(entry).__name__}")
        return None
    if isinstance(entry.get("name"), str):
        place = f"{place} ({entry['name']})"
    before = len(mistakes)
    merged = {**defaults, **entry}
    for key in ("environment", "requests", "ps_requests"):
        if isinstance(defaults.get(key), dict) and isinstance(entry.get(key), dict):
            merged[key] = {**defaults[key], **entry[key]}
    fields = {one.encode_name: one for one in msgspec.structs.fields(LocalJob)}
    mistakes += [
        f"{place}.{key}: is not known{suggest_word(str(key), fields)}" for key in merged if key not in fields
    ]
    values: dict[str, Any] = {}
    for name, one in fields.items():
        if name not in merged:
            if one.required:
                mistakes.append(f"{place}.{name}: is missing")
            continue
        value = convert(merged[name], one.type, f"{place}.{name}", mistakes)
        if value is not UNSET:
            values[one.name] = value
    if values.get("instrument"):
        values.setdefault("checkpoint", "hook")
    mistakes += [f"{place}.{found}" for found in _disagreements(values)]
    return LocalJob(**values) if len(mistakes) == before else None


def _mode_of(checkpoint: str) -> parse.CheckpointMode:
    """Return how checkpoints are asked for, its placeholders standing for the root; raises ValueError."""
    return parse.checkpoint_mode(fill_in(checkpoint, dict.fromkeys(PLACEHOLDERS, "/")))


def _disagreements(values: Mapping[str, Any]) -> list[str]:
    """Return what each field for itself does not show."""
    found = []
    try:
        options = FormatOptions(metric=values.get("metric"), pattern=values.get("pattern"))
        make_reader(values.get("format", "auto"), options)
    except ValueError as error:
        found.append(f"format: {error}")
    try:
        if _mode_of(values.get("checkpoint", "periodic")).kind == "hook" and not values.get("instrument"):
            found.append("checkpoint: 'hook' needs instrument: true")
    except ValueError as error:
        found.append(f"checkpoint: {values['checkpoint']!r} {error}")
    try:
        parse.verification(values.get("verify", "sampled"))
    except ValueError as error:
        found.append(f"verify: {values['verify']!r} {error}")
    why = unreachable(values.get("remaining_gain"), values.get("confidence"))
    if values.get("classifier", "horizon") == "horizon" and why:
        found.append(f"confidence, remaining_gain: {why}")
    command = values.get("command", ())
    try:
        words = shlex.split(command) if isinstance(command, str) else command
    except ValueError as error:
        found.append(f"command: {error}: {cut_value(command)}")
        words = ()
    texts = {f"command[{index}]": word for index, word in enumerate(words)}
    texts |= {f"environment.{name}": text for name, text in values.get("environment", {}).items()}
    texts |= {
        name: values[name] for name in ("log", "checkpoint_path", "working_directory") if values.get(name)
    }
    for name, text in texts.items():
        found += [
            f"{name}: the placeholder {{{unknown}}} is not one of {', '.join(PLACEHOLDERS)}; "
            "put a command with other braces into a script"
            for unknown in _PLACEHOLDER.findall(text)
            if unknown and unknown not in PLACEHOLDERS
        ]
    return found + _disagreements_of_numbers(values)


def _disagreements_of_numbers(values: Mapping[str, Any]) -> list[str]:
    """Return what the numbers of replicas do not allow."""
    workers = values.get("workers", 1)
    fewest, most = values.get("min_workers") or workers, values.get("max_workers") or workers
    found = []
    if fewest > workers:
        found.append(f"min_workers: must be at most workers ({workers}), not {fewest}")
    if most < workers:
        found.append(f"max_workers: must be at least workers ({workers}), not {most}")
    log = values.get("log", "{directory}")
    if most + values.get("ps", 0) > 1 and "{directory}" not in log and "{index}" not in log:
        found.append(f"log: each replica writes its own, so {{directory}} or {{index}} is in it, not {log!r}")
    return found


def classifier_arguments(job: LocalJob) -> list[str]:
    """Return the sidecar's flags for the job's classifier."""
    flags: dict[str, object] = {"classifier": job.classifier, "interval": job.interval}
    if job.classifier == "specon":
        flags |= {"alpha": job.alpha, "scale": job.scale}
    else:
        flags |= {"remaining-gain": job.remaining_gain, "confidence": job.confidence}
    if job.goal is not None:
        flags["goal"] = job.goal
    return [f"--{flag}={value}" for flag, value in flags.items()]
