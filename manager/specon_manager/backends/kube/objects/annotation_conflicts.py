"""What annotations say that is right alone and wrong together, and what does nothing as things are. Pure."""

import functools
from collections.abc import Mapping
from typing import Any

from specon_manager.backends.kube.objects.annotation_keys import PREFIX, QUEUE
from specon_manager.backends.kube.objects.annotation_mistakes import LONGEST_MISTAKE, cut_text, describe_error
from specon_manager.backends.kube.objects.annotations import Options
from specon_sidecar.classify.horizon import unreachable
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.table import make_reader


@functools.lru_cache(maxsize=1024)
def _format_objection(format_name: str, options: FormatOptions) -> str:
    """Return why logs cannot be read in this way, empty where they can; all parsers are made for it."""
    try:
        make_reader(format_name, options)
    except Exception as error:  # noqa: BLE001  (it parses an expression that anybody may have written)
        return cut_text(describe_error(error), LONGEST_MISTAKE)
    return ""


def contradictions(values: Mapping[str, Any]) -> list[str]:
    """Name annotations that are right alone but not together."""
    found = []
    options = FormatOptions(
        metric=values.get("metric"), pattern=values.get("pattern"), goal=values.get("goal")
    )
    if objection := _format_objection(values.get("format", "auto"), options):
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


def doubts(options: Options) -> list[str]:
    """Return which annotations are valid and still do nothing, in words for their author."""
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
