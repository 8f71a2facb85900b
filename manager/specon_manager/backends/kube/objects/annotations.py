"""The annotations of a pod by which its owner tells us what to do: one table, read all at once. Pure.

Whatever starts with `specon.io/` is checked. An annotation that is neither in the table nor one of those that
we write ourselves is a mistake: a typing error in a key would otherwise silently change nothing.

Anybody may write them, so their number, their length and the form of a pattern are looked at before anything
that could take long.
"""

import difflib
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct

from specon_manager.backends.kube.objects.quantities import quantity
from specon_sidecar import parse
from specon_sidecar.classify.horizon import unreachable
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.table import make_reader
from specon_sidecar.parse import CheckpointMode

PREFIX: Final = "specon.io/"
INJECT: Final = f"{PREFIX}inject"
QUEUE: Final = f"{PREFIX}queue"
SHARE: Final = f"{PREFIX}share"
SIDECAR_NAME: Final = "specon-sidecar"
"""Of our container in a pod."""
SIDECAR_LABEL: Final = f"{PREFIX}sidecar"
"""Label that the webhook gives to a pod with a sidecar; the watch selects on it."""
INJECTED: Final = "injected"
"""Its value."""
REPLICA: Final = f"{PREFIX}replica"
"""Which replica the pod is, `namespace/job/role/index`, where that is known when it is created."""
CA: Final = f"{PREFIX}ca"
"""PEM of the authorities that may have signed the manager's certificate; the sidecar reads it as a file."""
SUSPENDED_FOR: Final = f"{PREFIX}suspended-for"
"""On an owner that we suspended: the name of the move, the id of the change, or `HELD` and an id."""
HELD: Final = "held-"
"""What the value begins with where the owner stays suspended until its job is admitted."""
SCALED: Final = f"{PREFIX}scaled"
"""On an owner whose number of workers we changed, `FROM:TO`: what its user asked for, what we wrote."""
ADMISSION_GATE: Final = f"{PREFIX}admission"
"""The scheduling gate on pods of jobs that are held until they are admitted."""
PINNED: Final = f"{PREFIX}pinned"
"""On a pod: the hostname that we wrote into its node selector, which is no wish of its owner."""
STDOUT: Final = "stdout"
"""As a log path: what the trainer prints, without any volume."""
WHOLE_CPU: Final = f"{PREFIX}cpu"
"""On a pod whose trainer's processors were lowered in place: what it requested before."""
EVICT_ONLY: Final = "descheduler.alpha.kubernetes.io/request-evict-only"
"""On a pod, written when it is created: the descheduler counts an answer of ours as an eviction under way."""
IN_PROGRESS: Final = "descheduler.alpha.kubernetes.io/eviction-in-progress"
"""On a pod while such an eviction is under way."""
OURS: Final = "specon"
"""The value of either by which we know our own."""
SIGNALS: Final = f"{PREFIX}signals"
"""What we last wrote for other controllers."""
WRITTEN_BY_US: Final = frozenset({REPLICA, CA, SUSPENDED_FOR, SCALED, PINNED, WHOLE_CPU, SIGNALS})
"""Annotations that no user writes; on a pod that is created anew from its manifest they are no mistake."""

MOST: Final = 64
"""Annotations of ours on one object: more than twice as many as there are."""
LONGEST: Final = 4096
"""Characters of one."""
LONGEST_TOGETHER: Final = 16_384
"""Characters of all of them."""
LONGEST_PATTERN: Final = 512
MOST_GROUPS: Final = 10
"""Opening parentheses of a pattern."""
MOST_OPERATORS: Final = 96
"""Signs of a pattern that are not taken literally."""
_OPERATORS: Final = re.compile(r"[\[*+?{\\^$|]")
_MOST_NAMED: Final = 10
_LONGEST_KEY: Final = 128
_LONGEST_SHOWN: Final = 80
_LONGEST_MISTAKE: Final = 1024
_LONGEST_KIND: Final = 253
_DURATION: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)([smh]?)")
_SECONDS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_LEAST_MEMORY: Final = 2.0**20
_MOST_MEMORY: Final = 2.0**50
_DNS_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class AnnotationError(ValueError):
    """Annotations that cannot be used; each of `mistakes` names one with its value and what is wrong."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__("; ".join(mistakes))
        self.mistakes = tuple(mistakes)


class Options(Struct, frozen=True, kw_only=True):
    """What the annotations of one pod say; None where nothing was given. Durations in seconds."""

    inject: bool | None = None
    instrument: bool | None = None
    container: str | None = None
    log_path: str | None = None
    format: str | None = None
    pattern: str | None = None
    metric: str | None = None
    goal: Literal["min", "max"] | None = None
    classifier: Literal["horizon", "specon"] | None = None
    alpha: float | None = None
    interval: float | None = None
    remaining_gain: float | None = None
    confidence: float | None = None
    checkpoint: CheckpointMode | None = None
    checkpoint_path: str | None = None
    marker: str | None = None
    verify: parse.Verification | None = None
    job_class: Literal["trial", "best-effort"] | None = None
    grace_period: float | None = None
    min_workers: int | None = None
    max_workers: int | None = None
    min_cpu: float | None = None
    share: Literal["time"] | None = None
    gpu_memory: float | None = None
    utility: float | None = None
    kind: str | None = None
    queue: str | None = None
    recreate: bool | None = None
    migrate: bool | None = None
    replicas: Literal["coupled", "independent"] | None = None
    savers: Literal["lead", "all"] | None = None
    on_hang: Literal["report", "restart"] | None = None
    heartbeat: float | None = None
    eviction_patience: float | None = None


class Annotation(NamedTuple):
    """A line of the table; `name` is without the prefix, `default` as the documentation words it."""

    name: str
    default: str
    meaning: str
    example: str
    read: Callable[[str], object]

    @property
    def key(self) -> str:
        """The whole key of the annotation."""
        return PREFIX + self.name

    @property
    def field(self) -> str:
        """The field of `Options`."""
        return "job_class" if self.name == "class" else self.name.replace("-", "_")


def _duration(least: float, most: float) -> Callable[[str], float]:
    """Return a reader of durations from `least` to `most` seconds: `90`, `90s`, `1.5m` or `2h`."""

    def read(given: str) -> float:
        found = _DURATION.fullmatch(given)
        if found is None:
            raise ValueError("is not a duration such as 90, 90s, 1.5m or 2h")
        seconds = float(found[1]) * _SECONDS[found[2]]
        if not least <= seconds <= most:
            raise ValueError(f"is not between {least:g} and {most:g} seconds")
        return seconds

    return read


def _memory(given: str) -> float:
    """Read an amount of memory as Kubernetes writes it, bytes."""
    try:
        amount = quantity(given)
    except ValueError:
        amount = 0.0
    if not _LEAST_MEMORY <= amount <= _MOST_MEMORY:
        raise ValueError("is not an amount of memory from 1Mi to 1Pi, such as 20Gi")
    return amount


def _dns_label(given: str) -> str:
    if not _DNS_LABEL.fullmatch(given):
        raise ValueError("is not 1 to 63 lower-case letters, digits or -")
    return given


def _path(given: str) -> str:
    """Read a path as it stands in a container, without steps out of the volume that holds it."""
    if "$(" in parse.absolute_path(given) or {".", ".."} & set(given.split("/")):
        raise ValueError("has a part . or .., or a $(variable), which nobody would fill in")
    return given


def _log_path(given: str) -> str:
    """Read a path, or `stdout`."""
    return given if given == STDOUT else _path(given)


def _one_line(given: str) -> str:
    if not parse.text(given).isprintable():
        raise ValueError("has a line break or another character that cannot be printed")
    return given


def _kind(given: str) -> str:
    if len(_one_line(given)) > _LONGEST_KIND:
        raise ValueError(f"is longer than {_LONGEST_KIND} characters")
    return given


def _pattern(given: str) -> str:
    """Read a regular expression of a size at which finding out what it may cost is cheap.

    Whether it is one, and safe to search lines with, is judged with the format, whose reader is made for it.
    """
    if len(given) > LONGEST_PATTERN:
        raise ValueError(f"is longer than {LONGEST_PATTERN} characters")
    if given.count("(") > MOST_GROUPS:
        raise ValueError(f"has more than {MOST_GROUPS} opening parentheses")
    if sum(1 for _ in _OPERATORS.finditer(given)) > MOST_OPERATORS:
        raise ValueError(f"has more than {MOST_OPERATORS} of the signs [ * + ? {{ \\ ^ $ |")
    return parse.text(given)


def _checkpoint_mode(given: str) -> CheckpointMode:
    mode = parse.checkpoint_mode(given)
    if mode.kind == "file":
        _path(mode.target)
    return mode


ANNOTATIONS: Final = (
    Annotation("inject", "false", "give the pod a sidecar: true or false", "true", parse.boolean),
    Annotation(
        "instrument",
        "false",
        "whether frameworks save on request, report and resume, by a helper in the pod: true or false",
        "true",
        parse.boolean,
    ),
    Annotation(
        "container",
        "the only container, else the one named tensorflow or pytorch",
        "which container trains",
        "trainer",
        _dns_label,
    ),
    Annotation(
        "log-path",
        "train.log on the trainer's only persistent volume claim; with instrument none",
        "the training log, as the trainer sees it; or stdout, where the owner of the cluster allows that",
        "/data/train.log",
        _log_path,
    ),
    Annotation("format", "auto", "format of the log (docs/logs-and-checkpoints.md)", "keras", parse.text),
    Annotation(
        "pattern",
        "none",
        "regular expression with named groups, for the format regular-expression",
        r"step (?P<step>\d+) loss (?P<value>\S+)",
        _pattern,
    ),
    Annotation("metric", "the format's first choice", "metric of the log to judge by", "val_loss", _one_line),
    Annotation(
        "goal",
        "as the metric's name says, else min",
        "min for a loss, max for an accuracy",
        "max",
        parse.choice("min", "max"),
    ),
    Annotation(
        "classifier",
        "horizon",
        "horizon (how much is still to come) or specon (Algorithm 1)",
        "specon",
        parse.choice("horizon", "specon"),
    ),
    Annotation(
        "alpha",
        "0.01",
        "specon: gain per interval, of its scale, below which a job is slow",
        "0.02",
        parse.number(1e-9, 0.999),
    ),
    Annotation("interval", "30s", "categorisation interval", "60s", _duration(0.05, 86400)),
    Annotation(
        "remaining-gain",
        "0.02",
        "horizon: share of the gain that may still come to a converged job",
        "0.01",
        parse.number(1e-6, 0.999),
    ),
    Annotation("confidence", "0.7", "horizon: how sure that has to be", "0.9", parse.number(0.01, 0.999)),
    Annotation(
        "checkpoint",
        "periodic; with instrument hook",
        "how the trainer is asked to save: periodic, hook, file:PATH, http:URL, signal:USR1, sigterm or none",
        "signal:USR1",
        _checkpoint_mode,
    ),
    Annotation(
        "checkpoint-path",
        "checkpoints on the trainer's only persistent volume claim; with instrument where it says it saved",
        "directory of checkpoints, or the one file, as the trainer's container sees it",
        "/data/checkpoints",
        _path,
    ),
    Annotation("marker", "none", "file that tells a checkpoint is complete", "{name}.done", parse.marker),
    Annotation(
        "verify",
        "sampled:10",
        "how much of a checkpoint is read: whole, or after so many seconds a sample of a large one that says "
        "itself when it is complete",
        "whole",
        parse.verification,
    ),
    Annotation(
        "class",
        "best-effort",
        "trial or best-effort: who may be moved for whom",
        "trial",
        parse.choice("trial", "best-effort"),
    ),
    Annotation(
        "grace-period",
        "the pod's terminationGracePeriodSeconds",
        "how long an evicted trainer may take to end by itself",
        "2m",
        _duration(0, 86400),
    ),
    Annotation(
        "min-workers",
        "as many as there are",
        "with how many workers it can train",
        "2",
        parse.integer(1, 100_000),
    ),
    Annotation(
        "max-workers", "as many as there are", "how many workers it can use", "8", parse.integer(1, 100_000)
    ),
    Annotation(
        "min-cpu",
        "none: it is not lowered",
        "to how many cores its request may be lowered in place once it has converged",
        "0.5",
        parse.number(0.001, 1e6),
    ),
    Annotation(
        "share",
        "none: it is never stopped",
        "time: on GPUs that several pods use it takes turns with others that ask for the same",
        "time",
        parse.choice("time"),
    ),
    Annotation(
        "gpu-memory",
        "none; specon.io/share needs it",
        "how much memory it needs of each of its GPUs",
        "20Gi",
        _memory,
    ),
    Annotation("utility", "0", "how much its owner values the job", "10", parse.number(0, 1e15)),
    Annotation(
        "kind",
        "none: it has nothing in common with others",
        "the name of what it trains: what is learnt of one job counts for all of its kind in its namespace",
        "bert-large",
        _kind,
    ),
    Annotation(
        "queue",
        "none: its owner starts it at once",
        "hold its job until it is admitted, and count it against the quota of this queue",
        "team-a",
        _dns_label,
    ),
    Annotation(
        "recreate",
        "false",
        "bare pods: whether it may be deleted and created again elsewhere: true or false",
        "true",
        parse.boolean,
    ),
    Annotation("migrate", "true", "whether it may be moved at all: true or false", "false", parse.boolean),
    Annotation(
        "replicas",
        "independent where nothing hints at one training; else coupled",
        "whether its pods train as one, and move as a whole: coupled; or each by itself: independent",
        "independent",
        parse.choice("coupled", "independent"),
    ),
    Annotation(
        "savers",
        "lead",
        "where its pods train as one: the first worker saves for all (lead), or each saves its part (all)",
        "all",
        parse.choice("lead", "all"),
    ),
    Annotation(
        "on-hang",
        "report",
        "where its steps stop while its processes wait: report, or restart from its last verified checkpoint",
        "restart",
        parse.choice("report", "restart"),
    ),
    Annotation(
        "eviction-patience",
        "interception.patience of the chart",
        "how long an eviction by others is put off for its move, where evictions are answered",
        "30m",
        _duration(0, 86400),
    ),
    Annotation("heartbeat", "10s", "time between reports when nothing changes", "30s", _duration(0.1, 3600)),
)
"""All of them, in the order of the documentation."""
_BY_KEY: Final = {one.key: one for one in ANNOTATIONS}


def read_options(annotations: Mapping[Any, Any]) -> Options:
    """Return what the annotations of a pod say; those with another prefix are not ours.

    Raises AnnotationError with every mistake, or the first ten: nothing else, whatever the annotations are.
    """
    ours = [
        key
        for key in annotations
        if isinstance(key, str) and key.startswith(PREFIX) and key not in WRITTEN_BY_US
    ]
    mistakes = _too_much(annotations, ours)
    values: dict[str, Any] = {}
    for key in () if mistakes else sorted(ours):
        if len(mistakes) == _MOST_NAMED:
            mistakes.append(f"{PREFIX}*: what is wrong beyond these was not looked at")
            break
        known = _BY_KEY.get(key)
        if known is None:
            mistakes.append(f"{_cut(key, _LONGEST_KEY)}: is not known{_similar(key)}")
            continue
        try:
            values[known.field] = known.read(annotations[key])
        except Exception as error:  # noqa: BLE001  (whatever a reader runs into, the text is its owner's)
            mistakes.append(
                _cut(f"{key}: {_show(annotations[key])} {_describe_error(error)}", _LONGEST_MISTAKE)
            )
    if not mistakes:  # of a wrong value no more can be said
        mistakes += _contradictions(values)
    if mistakes:
        raise AnnotationError(mistakes)
    return Options(**values)


def options_said(annotations: Mapping[Any, Any]) -> Options:
    """Return what the annotations of an object say; those that cannot be read say nothing.

    Admission refuses them; they may be older than its rules, or on an object that no webhook sees. What
    differs from pod to pod is left out: those of a kind are read once.
    """
    ours = {
        key: value
        for key, value in annotations.items()
        if isinstance(key, str) and key.startswith(PREFIX) and key not in WRITTEN_BY_US
    }
    return Options(migrate=False) if _too_much(ours, [*ours]) else _read_values(tuple(sorted(ours.items())))


@functools.lru_cache(maxsize=1024)
def _read_values(annotations: tuple[tuple[str, str], ...]) -> Options:
    try:
        return read_options(dict(annotations))
    except AnnotationError:
        return Options(migrate=False)


def _too_much(annotations: Mapping[Any, Any], ours: Sequence[str]) -> list[str]:
    """Name what is too much to be looked at any closer, or no text at all."""
    if len(ours) > MOST:
        return [f"{PREFIX}*: there are {len(ours)} annotations that begin so, more than {MOST}"]
    for key in ours:
        if not isinstance(annotations[key], str):
            return [f"{_cut(key, _LONGEST_KEY)}: is no text, but {type(annotations[key]).__name__}"]
        if len(annotations[key]) > LONGEST:
            shown = f"{_cut(key, _LONGEST_KEY)}: {_show(annotations[key])}"
            return [f"{shown} is longer than {LONGEST} characters"]
    together = sum(len(key) + len(annotations[key]) for key in ours)
    if together > LONGEST_TOGETHER:
        return [f"{PREFIX}*: these annotations have {together} characters, more than {LONGEST_TOGETHER}"]
    return []


def doubts(options: Options) -> list[str]:
    """Return what is no mistake and still does nothing, in words for whoever wrote it."""
    found = []
    scaled = [
        f"{PREFIX}{name}"
        for name, given in (("min-workers", options.min_workers), ("max-workers", options.max_workers))
        if given is not None
    ]
    if scaled and options.checkpoint is not None and options.checkpoint.kind == "none":
        said = f"{', '.join(scaled)}: the number of workers changes only after a verified checkpoint"
        found.append(f"{said}, and {PREFIX}checkpoint is none")
    if options.job_class == "trial" and options.queue is None:
        said = f"{PREFIX}class: room is made for a trial while it waits, and without {QUEUE} it is not held"
        found.append(said)
    return found


def _similar(key: str) -> str:
    if len(key) > _LONGEST_KEY:
        return ""
    found = difflib.get_close_matches(key, _BY_KEY, n=1, cutoff=0.8)
    return (
        f"; did you mean {found[0]}?"
        if found
        else f"; known are {', '.join(one.name for one in ANNOTATIONS)}"
    )


def _show(value: str) -> str:
    return repr(_cut(value, _LONGEST_SHOWN))


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"


def _describe_error(error: Exception) -> str:
    """Return what a reader says; of an error that it does not promise, which it is."""
    return str(error) if type(error) is ValueError else f"cannot be read: {type(error).__name__}: {error}"


@functools.lru_cache(maxsize=1024)
def _objection(format_name: str, options: FormatOptions) -> str:
    """Return why logs cannot be read in this way, empty where they can; all parsers are made for it."""
    try:
        make_reader(format_name, options)
    except Exception as error:  # noqa: BLE001  (it parses an expression that anybody may have written)
        return _cut(_describe_error(error), _LONGEST_MISTAKE)
    return ""


def _contradictions(values: Mapping[str, Any]) -> list[str]:
    """Name what is right alone but not together."""
    found = []
    options = FormatOptions(
        metric=values.get("metric"), pattern=values.get("pattern"), goal=values.get("goal")
    )
    if objection := _objection(values.get("format", "auto"), options):
        found.append(f"{PREFIX}format, {PREFIX}pattern: {objection}")
    asked, judge = values.get("classifier", "horizon"), f"{PREFIX}classifier"
    for owner, fields in (("specon", ("alpha",)), ("horizon", ("remaining_gain", "confidence"))):
        found += [
            f"{PREFIX}{field.replace('_', '-')}: is for {judge}: {owner}, and it is {asked}"
            for field in fields
            if field in values and asked != owner
        ]
    why = unreachable(values.get("remaining_gain"), values.get("confidence"))
    if asked == "horizon" and why:
        found.append(f"{PREFIX}confidence, {PREFIX}remaining-gain: {why}")
    if values.get("savers") == "all" and values.get("replicas") == "independent":
        found.append(
            f"{PREFIX}savers: all is for pods that train as one, and {PREFIX}replicas is independent"
        )
    mode = values.get("checkpoint")
    if mode is not None and mode.kind == "hook" and not values.get("instrument"):
        found.append(f"{PREFIX}checkpoint: hook is for trainers with {PREFIX}instrument: true")
    found += _contradictory_turns(values)
    fewest, most = values.get("min_workers"), values.get("max_workers")
    if fewest is not None and most is not None and fewest > most:
        found.append(f"{PREFIX}min-workers: {fewest} is more than {PREFIX}max-workers, {most}")
    return found


def _contradictory_turns(values: Mapping[str, Any]) -> list[str]:
    """Name what does not go together with turns on a GPU."""
    share = f"{PREFIX}share"
    if "share" not in values:
        return [f"{PREFIX}gpu-memory: is for {share}: time"] if "gpu_memory" in values else []
    found = []
    if "gpu_memory" not in values:
        found.append(f"{share}: needs {PREFIX}gpu-memory, for jobs have to fit a GPU's memory together")
    if "min_cpu" in values:
        found.append(f"{PREFIX}min-cpu: lends processors, and {share} takes turns: one of both")
    return found
