"""Whether a checkpoint has all that its format asks for: looked at by names, sizes, headers and indexes."""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from threading import Event
from typing import Final

import msgspec

from specon_sidecar.checkpoints.contents import UnreadableError, check, read_pickled
from specon_sidecar.checkpoints.find import files_of
from specon_sidecar.checkpoints.parts import PartsError, Stretches, stretches
from specon_sidecar.checkpoints.table import CheckpointFormat, Step, lacking, step_in_name
from specon_sidecar.regular_file import leads_out, open_regular

_MAX_JSON: Final = 64 << 20
_MAX_INDEX: Final = 8 << 20  # of the shards of a hundred thousand tensors
_MAX_FIELD: Final = 1 << 16
_MAX_TRACKER: Final = 4096
_RANK: Final = re.compile(r"(?:bf16_)?zero_pp_rank_(\d{1,9})_mp_rank_(\d{1,9})_optim_states\.pt")


class Sizes(msgspec.Struct):
    """The facts learnt about the files of a checkpoint."""

    files: Mapping[str, int]
    """Size in bytes by relative name."""
    told: frozenset[str]
    """Names of files whose size is in a header or an index."""
    parts: Mapping[Path, Stretches]


def examine(path: Path, declared: CheckpointFormat, *, marked: bool, cancelled: Event | None = None) -> Sizes:
    """Return what there is of a checkpoint that lacks nothing.

    `marked`: whether its owner's own marker says that it is complete. Raises UnreadableError and OSError.
    """
    if not path.is_dir():
        with open_regular(path) as raw:
            size = os.fstat(raw.fileno()).st_size
            tells = check(path.name, raw, size)
        return Sizes(files={path.name: size}, told=frozenset({path.name} if tells else ()), parts={})
    files = {os.path.relpath(item.path, path): item.stat().st_size for item in files_of(path)}
    if not any(files.values()):
        raise UnreadableError(f"{path.name}: holds {'only empty files' if files else 'no file'}")
    if not marked:
        _needs(path, declared)
    try:
        parts = stretches({path / name: size for name, size in files.items()}, cancelled)
    except PartsError as error:
        raise UnreadableError(str(error)) from error
    told = {os.path.relpath(part, path) for part in parts}
    # Some formats have empty files on purpose; what must not be is a directory of nothing else.
    for name in [name for name, size in files.items() if size and name not in told]:
        with open_regular(path / name) as raw:
            if check(name, raw, files[name]):
                told.add(name)
    _indexes(path, files)
    _special(path, declared, files, marked=marked)
    return Sizes(files=files, told=frozenset(told), parts=parts)


def _needs(path: Path, declared: CheckpointFormat) -> None:
    if lack := lacking(declared, sorted(each.name for each in path.iterdir() if each.stat().st_size)):
        raise UnreadableError(f"{path.name}: {lack}, which {declared.title} writes; or declare a marker")


def _indexes(path: Path, files: Mapping[str, int]) -> None:
    """Check that all files are there that an index of safetensors or of torch names."""
    for name in files:
        if not name.endswith((".safetensors.index.json", ".bin.index.json")):
            continue
        shards = _field(path / name, "weight_map", most=_MAX_INDEX)
        if not isinstance(shards, dict):
            raise UnreadableError(f"{path.name}: {name} names no files")
        for shard in sorted({str(each) for each in shards.values()}):
            if str(PurePath(name).parent / shard) not in files:
                raise UnreadableError(f"{path.name}: lacks {shard[:100]}, which {name} names")


def _special(path: Path, declared: CheckpointFormat, files: Mapping[str, int], *, marked: bool) -> None:
    """Check what only one format asks for."""
    if declared.name == "transformers" and not marked:
        _transformers(path, files)
    elif declared.name == "deepspeed":
        _check_deepspeed(path, files)
    elif declared.name == "backup-and-restore":
        _fields(path / "training_metadata.json")
        weights = (path / "latest.weights.h5").stat().st_mtime_ns
        if (path / "training_metadata.json").stat().st_mtime_ns < weights:
            raise UnreadableError(f"{path.name}: its weights are newer than training_metadata.json")
    elif declared.name == "orbax" and not (path / "commit_success.txt").exists():
        metadata = path / "_CHECKPOINT_METADATA"
        if metadata.exists() and not _field(metadata, "commit_timestamp_nsecs"):
            raise UnreadableError(f"{path.name}: was not committed")


def _transformers(path: Path, files: Mapping[str, int]) -> None:
    step = _field(path / "trainer_state.json", "global_step")
    if not isinstance(step, int):
        raise UnreadableError(f"{path.name}: its trainer_state.json tells no global_step")
    if any(name.startswith("global_step") for name in files) or _only_model(path):
        return
    for kind in ("optimizer", "scheduler.pt", "rng_state"):
        if not any(name.startswith(kind) for name in files):
            raise UnreadableError(f"{path.name}: lacks {kind}, and its arguments do not leave it out")


def _only_model(path: Path) -> bool:
    """Whether the arguments beside it say that nothing but the model is saved."""
    try:
        with open_regular(path / "training_args.bin") as raw:
            return read_pickled(raw, "save_only_model") is True
    except OSError:
        return False


def _check_deepspeed(path: Path, files: Mapping[str, int]) -> None:
    """Check that each rank's part is there: how many there are the model's file says."""
    ranks: dict[str, set[int]] = {}
    for name in files:
        if (found := _RANK.fullmatch(name)) is not None:
            ranks.setdefault(found[2], set()).add(int(found[1]))
    if not ranks:
        return
    model = next((name for name in sorted(files) if name.endswith("_model_states.pt")), None)
    world = None
    if model is not None:
        with open_regular(path / model) as raw:
            world = read_pickled(raw, "dp_world_size")
    for shown in ranks.values():
        number = world if isinstance(world, int) and not isinstance(world, bool) else max(shown) + 1
        if len(shown) != number:
            raise UnreadableError(f"{path.name}: has the parts of {len(shown)} of {number} ranks")


def _fields(file: Path) -> dict[str, msgspec.Raw]:
    """Return the fields of the object in a file, unread; raises UnreadableError, and OSError."""
    with open_regular(file) as opened:
        # As much as is asked for is reserved at once, however little is there.
        content = opened.read(min(_MAX_JSON, os.fstat(opened.fileno()).st_size))
    try:
        return msgspec.json.decode(content or b"", type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableError(f"{file.parent.name}: {file.name} is damaged: {error}"[:300]) from error


def _field(file: Path, key: str, *, most: int = _MAX_FIELD) -> object:
    """Return one field, None where it is missing: the others may be of any size. Raises as `_fields`."""
    raw = _fields(file).get(key)
    if raw is None:
        return None
    if len(bytes(raw)) > most:
        raise UnreadableError(f"{file.parent.name}: {key} in {file.name} is longer than {most} bytes")
    try:
        found: object = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableError(f"{file.parent.name}: {file.name} is damaged: {error}"[:300]) from error
    return found


def is_tracked(path: Path, tracker: str) -> bool:
    """Whether the file beside it names a checkpoint: by its name, or by the number in it."""
    try:
        if leads_out(path.parent / tracker, path.parent):
            return False
        with open_regular(path.parent / tracker) as opened:
            said = opened.read(_MAX_TRACKER).decode("utf-8", "replace").strip()
    except OSError:
        return False
    number = re.search(r"(\d+)$", path.name)
    return said == path.name or (said.isdecimal() and number is not None and int(number[1]) == int(said))


def read_step(path: Path, steps: Iterable[Step]) -> int | None:
    """Return the step that a checkpoint tells by these declarations, the first that says one."""
    for step in steps:
        if step.file:
            found: object = _key(path / step.file, step.key)
        elif step.key:
            found = _read_pickled(path, step.key)
        else:
            found = step_in_name((step,), path.name)
        if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 10**18:
            return found
    return None


def _key(file: Path, key: str) -> object:
    try:
        return None if leads_out(file, file.parent) else _field(file, key)
    except (OSError, UnreadableError):
        return None


def _read_pickled(path: Path, key: str) -> int | None:
    try:
        with open_regular(path) as raw:
            return read_pickled(raw, key)
    except OSError:
        return None
