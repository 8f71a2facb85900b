"""A manifest with the annotations of its pod templates, and nothing else of it changed: text is inserted."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml
from msgspec import Struct

from specon_manager.backends.kube.admission.injection import InjectionSettings, inject
from specon_manager.backends.kube.admission.trainer_container import PodRefusedError
from specon_manager.backends.kube.objects.annotation_conflicts import doubts
from specon_manager.backends.kube.objects.annotation_keys import PREFIX
from specon_manager.backends.kube.objects.annotation_mistakes import AnnotationError
from specon_manager.backends.kube.objects.annotation_reader import read_options
from specon_manager.backends.kube.objects.fields import mapping, mappings
from specon_manager.cli.begin.folder import Folder, script_at
from specon_manager.cli.begin.line import Checked, ProposedLine, check_lines
from specon_manager.cli.begin.log_lines import log_lines
from specon_manager.cli.begin.places import KINDS, PodTemplate, places_of
from specon_manager.cli.begin.script import FRAMEWORKS, Script
from specon_manager.core.given_settings import describe_no_yaml
from specon_manager.usage import UsageError
from specon_manager.views.names import cut

MOST_BYTES: Final = 4 << 20
_TRAINERS: Final = ("trainer", "pytorch", "tensorflow", "main", "node")
_LOG_FLAG: Final = re.compile(r"--?(?:log|log[-_](?:file|path)|logfile)(?:[= ]|$)")
_SAVE_FLAG: Final = re.compile(
    r"--?(?:\w*[-_])*(?:checkpoints?|ckpt|save|output|out)(?:[-_](?:dir|path))?(?:[= ]|$)"
)
_TEE: Final = re.compile(r"(?:tee(?: -a)?|>>?)\s*(/[^\s;|&]+)")
_SETTINGS: Final = InjectionSettings(image="specon/sidecar", manager="https://specon")


class Template(Struct, frozen=True, kw_only=True):
    """A pod template of a manifest with the lines that are put into it."""

    place: str
    """What it is of, in words."""
    line: int
    """After how many lines of the file they are inserted."""
    head: tuple[str, ...]
    """The keys that have to be written before them, with their indentation."""
    indentation: int
    found: Checked
    remarks: tuple[str, ...]


def read_manifest(path: Path) -> str:
    """Return the text of a manifest; raises UsageError where it cannot be read, or is too long."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise UsageError(f"{path}: longer than {MOST_BYTES} bytes")
        return content.decode()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8: {error.reason} at byte {error.start}") from error


def templates_of(path: Path, text: str, beside: Folder | None) -> list[Template]:
    """Return the pod templates of a manifest with the lines to write; raises UsageError without any.

    `beside` is what lies in the manifest's folder: where the script of a command is there, it is looked at.
    """
    try:
        documents = list(zip(yaml.compose_all(text, yaml.SafeLoader), yaml.safe_load_all(text), strict=True))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not YAML: {describe_no_yaml(error)}") from error
    found = []
    for node, content in documents:
        found += [_template(place, beside) for place in places_of(path, node, content)]
    if not found:
        raise UsageError(f"{path}: no pod template in it; known are {', '.join(KINDS)}")
    return found


def annotate(text: str, templates: Sequence[Template]) -> str:
    """Return the manifest with the lines of the templates in their places."""
    lines = text.splitlines()
    for template in sorted(templates, key=lambda each: -each.line):
        blank = " " * template.indentation
        new = [f"{blank}{line.text()}" for line in template.found.lines]
        notes = [f"{blank}# Note: {cut(note)}" for note in (*template.remarks, *template.found.refused)]
        if new:
            lines[template.line : template.line] = [*template.head, *notes, *new]
    return "\n".join([*lines, ""])


def _template(place: PodTemplate, beside: Folder | None) -> Template:
    pod = mapping(place.pod)
    there = mapping(mapping(pod.get("metadata")).get("annotations"))
    trainer = _trainer(pod)
    script, script_name = _script(trainer, beside)
    lines = _lines(pod, trainer, script, beside, partial=place.partial)
    proposed = [line for line in lines if f"{PREFIX}{line.key}" not in there]
    own = {**there}
    found = check_lines(
        [
            ProposedLine(key=f"{PREFIX}{each.key}", value=each.text_value, why=each.why, sure=each.sure)
            for each in proposed
        ],
        lambda lines: _refusal(own, lines),
    )
    return Template(
        place=place.name,
        line=place.line,
        head=place.head,
        indentation=place.indentation,
        found=found,
        remarks=tuple(_remarks(pod, own, found.lines, script, script_name)),
    )


def _trainer(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    containers = list(mappings(mapping(pod.get("spec")).get("containers")))
    named = [each for each in containers if each.get("name") in _TRAINERS]
    return next(iter(named or containers), {})


def _command(trainer: Mapping[str, Any]) -> list[str]:
    words = [*_list(trainer.get("command")), *_list(trainer.get("args"))]
    return [word for word in words if isinstance(word, str)]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _script(trainer: Mapping[str, Any], beside: Folder | None) -> tuple[Script | None, str]:
    """Return the script of a command, where one of that name lies beside the manifest."""
    words = [part for word in _command(trainer) for part in word.split()]
    name = next((word.rpartition("/")[2] for word in words if word.endswith(".py")), "")
    if not name or beside is None:
        return None, name
    path = next((each for each, _ in beside.scripts if each.rpartition("/")[2] == name), None)
    return (None if path is None else script_at(beside.path / path)), name


def _lines(
    pod: Mapping[str, Any],
    trainer: Mapping[str, Any],
    script: Script | None,
    beside: Folder | None,
    *,
    partial: bool,
) -> Iterator[ProposedLine]:
    yield ProposedLine(key="inject", value=True, why="the pod gets a sidecar")
    containers = list(mappings(mapping(pod.get("spec")).get("containers")))
    if len(containers) > 1:
        sure = trainer.get("name") in _TRAINERS
        why = (
            "which container trains"
            if sure
            else f"which of {len(containers)} containers trains: is it this one?"
        )
        yield ProposedLine(key="container", value=str(trainer.get("name")), why=why)
    if script is not None and script.instrumented and script.framework is not None:
        title = FRAMEWORKS[script.framework].title
        yield ProposedLine(
            key="instrument", value=True, why=f"{title} saves, reports and resumes by the helper"
        )
    claims = _claims(pod, trainer)
    words = _command(trainer)
    instrumented = script is not None and script.instrumented
    yield from _log_path(claims, words, instrumented=instrumented)
    if beside is not None and beside.log is not None and not instrumented:
        for line in log_lines(beside.log):
            yield ProposedLine(
                key=line.key, value=line.value, why=f"{line.why}; of the log beside the manifest", sure=False
            )
    yield from _checkpoint_path(claims, words, instrumented=instrumented, partial=partial)


def _claims(pod: Mapping[str, Any], trainer: Mapping[str, Any]) -> list[str]:
    """Return where the trainer sees persistent volume claims."""
    volumes = mappings(mapping(pod.get("spec")).get("volumes"))
    durable = {each.get("name") for each in volumes if "persistentVolumeClaim" in each}
    mounts = mappings(trainer.get("volumeMounts"))
    return [str(each.get("mountPath")) for each in mounts if each.get("name") in durable]


def _log_path(claims: Sequence[str], words: Sequence[str], *, instrumented: bool) -> Iterator[ProposedLine]:
    named = _value_of(words, _LOG_FLAG)
    shell = next((found[1] for word in words if (found := _TEE.search(word))), None)
    path = named or shell
    if path is not None and path.startswith("/"):
        usual = len(claims) == 1 and path == f"{claims[0].rstrip('/')}/train.log"
        why = "the command writes it there" + (", which is where it is looked for anyway" if usual else "")
        yield ProposedLine(key="log-path", value=path, why=why)
    elif not instrumented:
        why = "no file is named in the command: its output is read, where the cluster's owner allows that"
        yield ProposedLine(key="log-path", value="stdout", why=why)


def _checkpoint_path(
    claims: Sequence[str], words: Sequence[str], *, instrumented: bool, partial: bool
) -> Iterator[ProposedLine]:
    path = _value_of(words, _SAVE_FLAG)
    if path is not None and path.startswith("/"):
        yield ProposedLine(
            key="checkpoint-path", value=path.rstrip("/") or "/", why="the command saves there"
        )
    elif not instrumented and claims:
        why = "FILL IN where your trainer saves: the command does not say it"
        value = f"{claims[0].rstrip('/')}/checkpoints"
        yield ProposedLine(key="checkpoint-path", value=value, why=why, sure=False)
    elif not instrumented:
        why = "no persistent volume claim is mounted: nothing outlives the pod: it is watched only"
        why = f"{why}; unless its runtime mounts one" if partial else why
        yield ProposedLine(key="checkpoint", value="none", why=why, sure=not partial)


def _value_of(words: Sequence[str], flag: re.Pattern[str]) -> str | None:
    """Return the value of a flag: behind `=`, or the next word."""
    parts = [part for word in words for part in (word.split() if " " in word else [word])]
    for number, word in enumerate(parts):
        if flag.match(word):
            _, found, value = word.partition("=")
            if found:
                return value
            if number + 1 < len(parts):
                return parts[number + 1]
    return None


def _refusal(own: Mapping[str, Any], lines: Sequence[ProposedLine]) -> str | None:
    """Return what admission's reader of annotations has against these lines."""
    try:
        read_options({**own, **{line.key: line.value for line in lines}})
    except AnnotationError as error:
        return str(error)
    return None


def _remarks(
    pod: Mapping[str, Any],
    own: Mapping[str, Any],
    lines: Sequence[ProposedLine],
    script: Script | None,
    name: str,
) -> Iterator[str]:
    """Yield the answer of admission to the pod with these lines, and the parts not looked at."""
    if script is None and name:
        yield f"{name} was not found beside the manifest: its imports are not known"
    annotations = {**own, **{line.key: line.value for line in lines if line.sure}}
    try:
        options = read_options(annotations)
        made = {"metadata": {"name": "x", "annotations": annotations}, "spec": mapping(pod.get("spec"))}
        injected = inject(made, "default", options, _SETTINGS, {})
    except (AnnotationError, PodRefusedError) as error:
        yield f"admission would refuse the pod: {error}"
        return
    yield from (*injected.warnings, *doubts(options))
