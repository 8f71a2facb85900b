"""What a sidecar is told: frozen settings, read once from flags and from the environment.

The only reader of the environment. A flag `--state-file` has its variable `SPECON_STATE_FILE`; flags win.
"""

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, NoReturn

import msgspec
from msgspec import Struct

from specon_sidecar import parse
from specon_sidecar.classify import ClassifierSettings
from specon_sidecar.classify.horizon import unreachable
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.table import make_reader
from specon_sidecar.parse import CheckpointMode

STDOUT: Final = "stdout"


class SettingsError(ValueError):
    """Settings that cannot be used; `mistakes` names each field with its value and the reason."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = tuple(mistakes)


class Settings(Struct, frozen=True, kw_only=True):
    """Everything a sidecar is told."""

    log: str
    """The training log to follow; it may not exist yet. With `hook` it need not be named.

    `stdout` is what the trainer prints, as the manager relays it.
    """
    log_container: str | None = None
    """The container of this pod whose standard output the manager relays."""
    format: str = "auto"
    """Name of a log format of `formats`, or `auto`."""
    pattern: str | None = None
    """Regular expression of the format `regular-expression`."""
    metric: str | None = None
    """Which metric of the log is the evaluation function; None takes the format's first choice."""
    classifier: ClassifierSettings = ClassifierSettings()
    watch: Literal["auto", "inotify", "polling"] = "auto"
    poll_interval: float = 1.0
    """Seconds between two looks at the log where nothing wakes the sidecar."""
    manager: str | None = None
    """Base URL of the manager; None runs stand-alone, printing its observations."""
    replica: str | None = None
    """Identity `namespace/job/role/index`; needed with a manager."""
    incarnation: str | None = None
    """Which incarnation of the replica this is (a pod UID); needed with a manager."""
    token_file: str | None = None
    """File with the bearer token shown to the manager; read again when it changes."""
    ca_file: str | None = None
    """PEM file of the authorities that may have signed the manager's certificate."""
    checkpoint: CheckpointMode = CheckpointMode("periodic")
    checkpoint_path: str | None = None
    """Directory of checkpoints, or the one file that is written again and again."""
    marker: str | None = None
    """File that tells a checkpoint is complete: `_SUCCESS`, or beside it as `{name}.done`."""
    verify: parse.Verification = parse.Verification()
    """How much of a checkpoint is read before it counts as verified."""
    settle: float = 0.5
    """Seconds without a change after which a checkpoint without marker or rename is complete."""
    trainer_pid: int | Literal["auto"] | None = None
    """Process id of the trainer; `auto` looks for it in the process namespace that the pod shares."""
    fresh_from: int | None = 0
    """Size of the log in bytes when this incarnation started: earlier lines are history.

    None takes its size when the sidecar starts: right where that is before its trainer.
    """
    fresh_since: float | None = None
    """When it had been changed last by then, seconds since 1970; None where nobody looked."""
    state_file: str | None = None
    """Where the curve and the category are kept for the next incarnation of this replica."""
    hook: str | None = None
    """Unix socket on which the trainer's helper speaks; its token is beside it."""
    volume: tuple[str, ...] | None = None
    """What outlives the trainer: what it tells of is a checkpoint there alone; None: anywhere."""
    share: Literal["time"] | None = None
    """Whether the trainer runs in turns with others of its GPUs where its manager says so."""
    stopped_file: str | None = None
    """Where it is told for how long the trainer was stopped so that others could train (`trainer.stops`)."""
    heartbeat: float = 10.0
    """Seconds between two reports when nothing changes."""
    explain_after: float = 30.0
    """Seconds without a sample after which the sidecar says what the log shows instead, and what to set."""
    status_port: int | None = None
    """TCP port of loopback on which Kubeflow Trainer's status protocol is spoken; None: on none."""
    metrics_port: int | None = None
    """TCP port of the Prometheus metrics; None serves none."""
    resources: bool = True
    """Whether the trainer's CPU time and memory are reported (needs `trainer_pid`)."""
    once: bool = False
    """Read the log to its end as if replayed, print the verdict and end."""

    @property
    def format_options(self) -> FormatOptions:
        """What the reader of the log is told."""
        return FormatOptions(metric=self.metric, pattern=self.pattern, goal=self.classifier.goal)


class _Option(NamedTuple):
    flag: str
    help: str
    read: Callable[[str], object]

    @property
    def name(self) -> str:
        """The field of `Settings` (or of `ClassifierSettings`)."""
        return self.flag.removeprefix("--").replace("-", "_")

    @property
    def variable(self) -> str:
        """The variable of the environment."""
        return "SPECON_" + self.flag.removeprefix("--").replace("-", "_").upper()


_REPEATED: Final = "--volume"
_OPTIONS: Final = (
    _Option("--log", "training log to follow; it may not exist yet", parse.text),
    _Option("--log-container", "container whose standard output --log stdout means", parse.identifier),
    _Option("--format", "format of the log (auto)", parse.text),
    _Option(
        "--pattern", "regular expression with named groups: the format regular-expression", parse.pattern
    ),
    _Option("--metric", "name of the metric to judge by", parse.text),
    _Option("--watch", "auto, inotify or polling (auto)", parse.choice("auto", "inotify", "polling")),
    _Option("--poll-interval", "seconds between looks when polling (1)", parse.number(0.01, 3600)),
    _Option("--manager", "base URL of the manager; without it the sidecar prints", parse.url),
    _Option("--replica", "namespace/job/role/index", parse.replica),
    _Option("--incarnation", "which incarnation of the replica: its pod UID", parse.identifier),
    _Option("--token-file", "file with the bearer token for the manager", parse.absolute_path),
    _Option("--ca-file", "PEM file of the manager's certificate authorities", parse.absolute_path),
    _Option(
        "--checkpoint",
        "how to ask for a checkpoint: periodic, hook, file:PATH, http:URL, signal:USR1, sigterm or none"
        " (periodic)",
        parse.checkpoint_mode,
    ),
    _Option("--checkpoint-path", "directory of checkpoints, or the one file", parse.absolute_path),
    _Option("--marker", "file that tells a checkpoint is complete, such as {name}.done", parse.marker),
    _Option(
        "--verify",
        "how much of a checkpoint is read: whole, sampled, or sampled:SECONDS, after which a sample of a "
        "large one has to do (sampled:10)",
        parse.verification,
    ),
    _Option("--settle", "seconds unchanged until a checkpoint is complete (0.5)", parse.number(0.05, 600)),
    _Option(
        "--trainer-pid",
        "process id of the trainer, or auto: the process of this pod that has SPECON_TRAINER=1",
        parse.process_or_auto,
    ),
    _Option("--fresh-from", "bytes of the log when this incarnation started, or now (0)", parse.size_or_now),
    _Option("--state-file", "where the curve is kept for the next incarnation", parse.absolute_path),
    _Option("--hook", "Unix socket for the trainer's helper; its token is beside it", parse.socket_path),
    _Option(
        _REPEATED,
        "what outlives the trainer, or none: the checkpoints that its helper announces lie there; repeatable"
        " (anywhere)",
        parse.volumes,
    ),
    _Option(
        "--share",
        "time: the trainer runs in turns with others of its GPUs, as the manager says (none)",
        parse.choice("time"),
    ),
    _Option("--stopped-file", "file that says how long the trainer was stopped", parse.absolute_path),
    _Option("--heartbeat", "seconds between reports when nothing changes (10)", parse.number(0.1, 3600)),
    _Option(
        "--explain-after",
        "seconds without a sample until it reports what the log has instead, and what to set (30)",
        parse.number(0.1, 86400),
    ),
    _Option(
        "--status-port",
        "port of loopback for reports to Kubeflow Trainer; their token is the incarnation (none)",
        parse.integer(1, 65535),
    ),
    _Option("--metrics-port", "port of the Prometheus metrics (none)", parse.integer(1, 65535)),
    _Option("--resources", "report the trainer's CPU time and memory: true or false (true)", parse.boolean),
)
_CLASSIFIER_OPTIONS: Final = (
    _Option(
        "--classifier",
        "horizon (how much is still to come) or specon (Algorithm 1) (horizon)",
        parse.choice("specon", "horizon"),
    ),
    _Option(
        "--remaining-gain",
        "horizon: share of the gain that may still come to a converged job (0.02)",
        parse.number(1e-6, 0.999),
    ),
    _Option("--confidence", "horizon: how sure that has to be (0.7)", parse.number(0.01, 0.999)),
    _Option(
        "--alpha",
        "specon: gain per interval, of its scale, below which a job is slow (0.01)",
        parse.number(1e-9, 0.999),
    ),
    _Option("--interval", "categorisation interval, seconds (30)", parse.number(0.05, 86400)),
    _Option(
        "--scale",
        "specon: what gains are relative to: first or range (first)",
        parse.choice("first", "range"),
    ),
    _Option(
        "--goal",
        "min for a loss, max for an accuracy (as the name of the metric says, else min)",
        parse.choice("min", "max"),
    ),
    _Option("--literal", "specon as printed in its paper: true or false (false)", parse.boolean),
)


def read_settings(
    arguments: Sequence[str] | None = None, environment: Mapping[str, str] | None = None
) -> Settings:
    """Return the settings in the flags (by default of this process) and, behind them, the environment.

    Raises SettingsError with all mistakes at once, and SystemExit after `--help`.
    """
    flags, mistakes = _flags(arguments)
    environment = os.environ if environment is None else environment
    fields = _values(_OPTIONS, flags, environment, mistakes)
    classifier = _values(_CLASSIFIER_OPTIONS, flags, environment, mistakes)
    if classifier.get("literal"):
        classifier.setdefault("classifier", "specon")
    if "log" not in fields and "hook" in fields:
        fields["log"] = f"{fields['hook']}.log"  # where there is none: the trainer tells by itself
    elif "log" not in fields:
        mistakes.append("--log: is missing; name the training log to follow")
    changes: dict[str, Any] = {
        **fields,
        "classifier": msgspec.structs.replace(ClassifierSettings(), **classifier),
        "once": flags.get("--once") == "true",
    }
    settings = msgspec.structs.replace(Settings(log=""), **changes)
    mistakes += _contradictions(settings)
    if mistakes:
        raise SettingsError(mistakes)
    return settings


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Report like any other mistake; an option without its value ends the reading."""
        raise SettingsError([message])


def _flags(arguments: Sequence[str] | None) -> tuple[dict[str, str], list[str]]:
    """Return the flags that were given, still as text, and those that are no option of ours."""
    parser = _Parser(
        prog="specon-sidecar",
        description="Follow a training log and say whether the job still grows.",
        epilog="Each option may be given as a variable instead: --log as SPECON_LOG.",
        allow_abbrev=False,
    )
    for option in (*_OPTIONS, *_CLASSIFIER_OPTIONS):
        parser.add_argument(
            option.flag,
            action="append" if option.flag == _REPEATED else "store",
            metavar="X",
            help=option.help,
            default=argparse.SUPPRESS,
            dest=option.flag,
        )
    parser.add_argument(
        "--once",
        action="store_const",
        const="true",
        default=argparse.SUPPRESS,
        dest="--once",
        help="read the log to its end as if replayed, print the verdict and end",
    )
    known, strange = parser.parse_known_args(arguments)
    flags = vars(known)
    if _REPEATED in flags:
        flags[_REPEATED] = "\0".join(flags[_REPEATED])
    return flags, [f"{argument}: is not an option; --help lists them" for argument in strange]


def _values(
    options: Sequence[_Option], flags: Mapping[str, str], environment: Mapping[str, str], mistakes: list[str]
) -> dict[str, Any]:
    """Read each option that is given; an empty variable counts as not given, as manifests leave them."""
    values: dict[str, Any] = {}
    for option in options:
        text, source = flags.get(option.flag), option.flag
        if text is None:
            text, source = environment.get(option.variable) or None, option.variable
        if text is None:
            continue
        try:
            values[option.name] = option.read(text)
        except ValueError as error:
            mistakes.append(f"{source}: {text!r} {error}")
    return values


def _contradictions(settings: Settings) -> list[str]:
    """Name the settings that are right alone but not together."""
    found: list[str] = []
    if settings.log == STDOUT and (settings.manager is None or settings.log_container is None):
        found.append(
            "--log: stdout is relayed by a manager: name it and --log-container, or ./stdout for a file"
        )
    if settings.status_port is not None and settings.incarnation is None:
        found.append("--status-port: needs --incarnation, which is the token of its clients")
    if settings.manager is not None:
        found += [
            f"{flag}: is missing; a manager needs to know it"
            for flag, value in (("--replica", settings.replica), ("--incarnation", settings.incarnation))
            if value is None
        ]
        if settings.once:
            found.append("--once: prints a verdict and talks to no manager; leave out --manager")
    if settings.classifier.literal and settings.classifier.classifier != "specon":
        found.append("--literal: is SpeCon's algorithm as printed; leave out --classifier horizon")
    classifier = settings.classifier
    if classifier.classifier == "horizon":
        why = unreachable(classifier.remaining_gain, classifier.confidence)
        found += [f"--confidence, --remaining-gain: {why}"] if why else []
    if settings.checkpoint.kind == "hook" and settings.hook is None:
        found.append("--checkpoint: 'hook' needs --hook, the socket to ask by")
    found += _without_trainer(settings)
    try:
        make_reader(settings.format, settings.format_options)
    except ValueError as error:
        found.append(f"--format, --pattern: {error}")
    return found


def _without_trainer(settings: Settings) -> list[str]:
    """Name the settings by which something is done to the trainer's process, where that is not named."""
    found = []
    if settings.checkpoint.kind == "signal" and settings.trainer_pid is None:
        found.append(f"--checkpoint: '{settings.checkpoint}' needs --trainer-pid")
    if settings.share is not None and (settings.trainer_pid is None or settings.manager is None):
        found.append(f"--share: {settings.share!r} needs --trainer-pid and --manager, which says when")
    return found
