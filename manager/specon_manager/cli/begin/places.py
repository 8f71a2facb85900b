"""Where the pod templates of a manifest stand, and after which line annotations are put into each. Pure."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from msgspec import Struct

from specon_manager.backends.kube.objects.fields import mapping, mappings
from specon_manager.usage import UsageError

_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "Pod": (),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "StatefulSet": ("spec", "template"),
    "PyTorchJob": ("spec", "pytorchReplicaSpecs", "*", "template"),
    "TFJob": ("spec", "tfReplicaSpecs", "*", "template"),
    "MPIJob": ("spec", "mpiReplicaSpecs", "*", "template"),
    "JobSet": ("spec", "replicatedJobs", "*", "template", "spec", "template"),
    "LeaderWorkerSet": ("spec", "leaderWorkerTemplate", "leaderTemplate|workerTemplate"),
}
"""Where the pod templates of a kind stand; `*` is each of them, `|` stands between several."""
KINDS: Final = (*_KINDS, "TrainJob")
_PATCHES: Final = "runtimePatches"
_OVERRIDES: Final = "podTemplateOverrides"
_TO_PATCH: Final = ("trainingRuntimeSpec", "template", "spec", "replicatedJobs")
_INITIALIZERS: Final = frozenset({"dataset-initializer", "model-initializer"})
_NODE: Final = "node"
"""The replicated Job of a runtime that trains, and its container."""


class PodTemplate(Struct, frozen=True, kw_only=True):
    """A pod template, and where its annotations go."""

    name: str
    """What it is of, in words."""
    line: int
    """After how many lines of the file they are inserted."""
    head: tuple[str, ...]
    """The keys that have to be written before them, with their indentation."""
    indentation: int
    pod: Any
    """The template; of a TrainJob its known parts, for its runtime is not in the manifest."""
    partial: bool = False
    """Whether its runtime says the rest."""


def places_of(path: Path, node: Any, content: Any) -> Iterator[PodTemplate]:
    """Yield the pod templates of a document, none of another kind; raises UsageError for one in braces."""
    kind = str(mapping(content).get("kind"))
    name = f"{kind} {mapping(mapping(content).get('metadata')).get('name', '')}"
    if kind == "TrainJob":
        yield from _of_train_job(path, node, content, name)
    elif kind in _KINDS:
        for place, part, pod in _below(node, content, _KINDS[kind], name):
            yield _place_of(path, part, place, pod)


def _of_train_job(path: Path, node: Any, content: Any, name: str) -> Iterator[PodTemplate]:
    """Yield where a TrainJob patches the pods that train; else where such a patch can begin."""
    spec = mapping(mapping(content).get("spec"))
    trainer = mapping(spec.get("trainer"))
    key = _OVERRIDES if _OVERRIDES in spec else _PATCHES  # the former is that of Trainer before 2.2
    way = ("spec", key, "*") if key == _OVERRIDES else ("spec", key, "*", *_TO_PATCH, "*")
    found = False
    for place, part, each in _below(node, content, way, name):
        targets = {_name_of(one) for one in mappings(mapping(each).get("targetJobs"))} or {_name_of(each)}
        if targets <= _INITIALIZERS:
            continue
        inner = [(place, part, each)]
        if key == _PATCHES:
            inner = list(_below(part, each, ("template", "spec", "template"), place))
        for one, template, pod in inner:
            found = True
            yield _place_of(path, template, one, _patch(pod, trainer), partial=True)
    if not found:
        yield _new_patch(path, node, name, _patch({}, trainer))


def _name_of(content: Any) -> str:
    return str(mapping(content).get("name", ""))


def _patch(pod: Any, trainer: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod of a runtime as far as its TrainJob says it: its container gets the trainer's command."""
    spec = mapping(mapping(pod).get("spec"))
    containers = list(mappings(spec.get("containers")))
    patched = next((each for each in containers if each.get("name") == _NODE), {})
    said = {name: trainer[name] for name in ("image", "command", "args", "env") if name in trainer}
    others = [each for each in containers if each is not patched]
    node = {**patched, "name": _NODE, **said}
    return {**mapping(pod), "spec": {**spec, "containers": [node, *others]}}


def _new_patch(path: Path, node: Any, name: str, pod: Any) -> PodTemplate:
    """Return a place in a patch of its own: the owners of patches are told apart by their managers."""
    spec = _child(node, "spec")
    if spec is None or not isinstance(spec[1], yaml.MappingNode) or not spec[1].value:
        raise UsageError(f"{path}: {name}: its spec is empty")
    if spec[1].flow_style:
        raise _flow(path, name)
    there = _child(spec[1], _OVERRIDES) or _child(spec[1], _PATCHES)
    key = _PATCHES if there is None else str(there[0].value)
    listed = None if there is None else there[1]
    if isinstance(listed, yaml.SequenceNode) and listed.value:
        if listed.flow_style:
            raise _flow(path, name)
        line, column, head = listed.start_mark.line, listed.start_mark.column, []
    elif there is not None:
        raise UsageError(f"{path}: {name}: its {key} is empty; leave it out, and ask again")
    else:
        column = spec[1].value[0][0].start_mark.column + 2
        line, head = _end_of_first(spec[1]), [f"{' ' * (column - 2)}{key}:"]
    if key == _OVERRIDES:
        words = ["- targetJobs:", f"    - name: {_NODE}", "  metadata:", "    annotations:"]
        deep = 6
    else:
        words = ["- manager: specon.io/init", *_list_nested(*_TO_PATCH, start=2)]
        words += [f"{' ' * 10}- name: {_NODE}"]
        words += _list_nested("template", "spec", "template", "metadata", "annotations", start=12)
        deep = 22
    blank = " " * column
    lines = (*head, *(f"{blank}{each}" for each in words))
    return PodTemplate(name=name, line=line, head=lines, indentation=column + deep, pod=pod, partial=True)


def _list_nested(*keys: str, start: int) -> list[str]:
    return [f"{' ' * (start + 2 * number)}{key}:" for number, key in enumerate(keys)]


def _below(node: Any, content: Any, way: tuple[str, ...], place: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield each pod template: its place in words, its node with the lines of the file, and its content."""
    if not way:
        yield place, node, content
        return
    if way[0] == "*" and isinstance(node, yaml.SequenceNode):
        for number, (each, inner) in enumerate(zip(node.value, content, strict=True)):
            yield from _below(each, inner, way[1:], f"{place}/{mapping(inner).get('name', number)}")
        return
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        names = way[0].split("|")
        if way[0] == "*" or key.value in names:
            name = place if [key.value] == names else f"{place}/{key.value}"
            yield from _below(value, mapping(content).get(key.value), way[1:], name)


def _place_of(path: Path, node: Any, name: str, pod: Any, *, partial: bool = False) -> PodTemplate:
    """Return where the annotations of a pod template go."""
    line, head, indentation = _insertion(path, node, name)
    return PodTemplate(name=name, line=line, head=head, indentation=indentation, pod=pod, partial=partial)


def _insertion(path: Path, node: Any, name: str) -> tuple[int, tuple[str, ...], int]:
    """Return after which line annotations go, what has to be written before them, and their indentation."""
    if not isinstance(node, yaml.MappingNode) or not node.value:
        raise UsageError(f"{path}: {name}: its template is empty")
    metadata = _child(node, "metadata")
    if metadata is None:
        column, line = node.value[0][0].start_mark.column, node.value[0][0].start_mark.line
        blank = " " * column
        if node.flow_style:
            raise _flow(path, name)
        # Behind the first key: before it there may be a dash.
        line = _end_of_first(node)
        return line, (f"{blank}metadata:", f"{blank}  annotations:"), column + 4
    key, value = metadata
    if not isinstance(value, yaml.MappingNode):  # `metadata:` with nothing in it
        column = key.start_mark.column
        return key.start_mark.line + 1, (f"{' ' * column}  annotations:",), column + 4
    if value.flow_style or not value.value:
        raise _flow(path, name)
    annotations = _child(value, "annotations")
    if annotations is None:
        column = value.value[0][0].start_mark.column
        return key.start_mark.line + 1, (f"{' ' * column}annotations:",), column + 2
    inner_key, inner = annotations
    if not isinstance(inner, yaml.MappingNode):
        return inner_key.start_mark.line + 1, (), inner_key.start_mark.column + 2
    if inner.flow_style or not inner.value:
        raise _flow(path, name)
    return inner_key.start_mark.line + 1, (), inner.value[0][0].start_mark.column


def _end_of_first(node: Any) -> int:
    """Return the line at which the second key of a template begins, or where the template ends."""
    if len(node.value) > 1:
        return int(node.value[1][0].start_mark.line)
    end = node.end_mark
    return int(end.line) if end.column == 0 or end.column <= node.start_mark.column else int(end.line) + 1


def _child(node: Any, name: str) -> tuple[Any, Any] | None:
    return next(((key, value) for key, value in node.value if key.value == name), None)


def _flow(path: Path, name: str) -> UsageError:
    return UsageError(
        f"{path}: {name}: its metadata or annotations are written between braces; write them on lines of "
        "their own, and ask again"
    )
