"""The annotations of a pod by which its owner tells us what to do: one table, with how each is read. Pure."""

from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from msgspec import Struct

from specon_manager.backends.kube.objects.annotation_keys import PREFIX
from specon_manager.backends.kube.objects.annotation_values import (
    read_checkpoint_mode,
    read_container_path,
    read_dns_label,
    read_duration,
    read_kind_name,
    read_log_path,
    read_memory,
    read_one_line,
    read_pattern,
)
from specon_sidecar import parse
from specon_sidecar.parse import CheckpointMode


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
        read_dns_label,
    ),
    Annotation(
        "log-path",
        "train.log on the trainer's only persistent volume claim; with instrument none",
        "the training log, as the trainer sees it; or stdout, where the owner of the cluster allows that",
        "/data/train.log",
        read_log_path,
    ),
    Annotation("format", "auto", "format of the log (docs/logs-and-checkpoints.md)", "keras", parse.text),
    Annotation(
        "pattern",
        "none",
        "regular expression with named groups, for the format regular-expression",
        r"step (?P<step>\d+) loss (?P<value>\S+)",
        read_pattern,
    ),
    Annotation(
        "metric", "the format's first choice", "metric of the log to judge by", "val_loss", read_one_line
    ),
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
    Annotation("interval", "30s", "categorisation interval", "60s", read_duration(0.05, 86400)),
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
        read_checkpoint_mode,
    ),
    Annotation(
        "checkpoint-path",
        "checkpoints on the trainer's only persistent volume claim; with instrument where it says it saved",
        "directory of checkpoints, or the one file, as the trainer's container sees it",
        "/data/checkpoints",
        read_container_path,
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
        read_duration(0, 86400),
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
        read_memory,
    ),
    Annotation("utility", "0", "how much its owner values the job", "10", parse.number(0, 1e15)),
    Annotation(
        "kind",
        "none: it has nothing in common with others",
        "the name of what it trains: measurements of one job count for all of its kind in its namespace",
        "bert-large",
        read_kind_name,
    ),
    Annotation(
        "queue",
        "none: its owner starts it at once",
        "hold its job until it is admitted, and count it against the quota of this queue",
        "team-a",
        read_dns_label,
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
        read_duration(0, 86400),
    ),
    Annotation(
        "heartbeat", "10s", "time between reports when nothing changes", "30s", read_duration(0.1, 3600)
    ),
)
"""All of them, in the order of the documentation."""
