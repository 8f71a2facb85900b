"""The formats of checkpoints: how one is recognised, what it needs to be whole, and which number is its step.

The first declaration that fits decides. What fits none is no checkpoint. A number in a name is a step only
where the declaration says so: `version_0`, `epoch=3` and the third save of a counter name none.
"""

import re
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final, Literal

from msgspec import Struct

WrittenAs = Literal["folder", "file"]

_WORD: Final = r"(?:global_?steps?|steps?|iter(?:ation)?s?|checkpoints?|ch?kpt|snapshot|model|weights|state)"
_STEP_WORD: Final = r"(?i:(?:global_?)?steps?|iter(?:ation)?s?)[=_.-]{0,2}(\d{1,18})(?!\d)"
OWN_STEPS: Final = (
    _STEP_WORD,
    rf"(?<![A-Za-z])(?i:{_WORD})[=_.-]{{0,2}}(\d{{1,18}})(?![\d])(?!\.\d+(?:\D|$)|-of-)",
    r"^(\d{1,18})$",
)
"""What an owner's name says of the step: the number after one of these words, or a name that is a number."""
TRAILING_STEP: Final = r"(?i:(?<!epoch)(?<!version)(?<!of))(?:[-_]|(?<!\d)\.)(\d{1,18})$"
"""In the name of a file also the number at the end of the stem, unless it is an epoch or a version."""
SUFFIXES: Final = frozenset(
    """
    .pt .pth .ckpt .bin .npz .npy .safetensors .keras .h5 .hdf5 .pkl .pickle .ubj .tar .msgpack
    .pdparams .params .joblib .zip .model .gz .zst
    """.split()  # noqa: SIM905 - words can be read
)
"""Of files that hold the state of a training."""
_PARTS: Final = frozenset(
    """
    training_args.bin optimizer.pt optimizer.bin scheduler.pt scheduler.bin scaler.pt rng_state.pth
    tokenizer.model spiece.model pytorch_model.bin adapter_model.bin adapter_model.safetensors
    """.split()  # noqa: SIM905 - words can be read
)
"""Names of files that are part of something else, never a checkpoint of their own."""
_MODEL: Final = (
    "model.safetensors|model.safetensors.index.json|pytorch_model.bin|pytorch_model.bin.index.json|"
    "adapter_model.safetensors|adapter_model.bin|pytorch_model_fsdp*|global_step*"
)


class Step(Struct, frozen=True):
    """Where a step is told: in a `name` (a pattern), in a JSON `file`, or in the pickle of an archive."""

    name: str = ""
    file: str = ""
    key: str = ""

    def __str__(self) -> str:
        if self.name:
            return "its name"
        return f"`{self.key}` in {f'`{self.file}`' if self.file else 'it'}"


class CheckpointFormat(Struct, frozen=True, kw_only=True):
    """A declaration."""

    name: str
    title: str
    kind: WrittenAs = "folder"
    example: str
    """What a path of one looks like, for readers."""
    at: str = ".+"
    """Pattern of the whole name of the folder or file."""
    holds: tuple[str, ...] = ()
    """For a folder: one of these names (globs) in it marks it as one, even while the trainer writes it."""
    needs: tuple[str, ...] = ()
    """Names (globs) that must all be there; `|` separates alternatives, where one is enough."""
    starts: tuple[bytes, ...] = ()
    """For a file: the beginnings that its content may have; none: anything."""
    steps: tuple[Step, ...] = ()
    tracker: str = ""
    """A file beside it that names the one to go on from, written last: only that one counts."""
    marked: bool = False
    """Whether something that is written last tells that it is complete."""
    declares: bool = False
    """Whether the sizes of all that is large in it are told by headers or indexes."""
    named: bool = False
    """Whether its name decides: nothing below it is looked at."""
    complete: str
    """When it is complete, for readers."""


_OWN: Final = tuple(Step(name=pattern) for pattern in OWN_STEPS)

TABLE: Final = (
    CheckpointFormat(
        name="transformers",
        title="Hugging Face Trainer, TRL",
        example="checkpoint-500/",
        at=r"checkpoint-\d{1,18}",
        holds=(
            *("trainer_state.json", "training_args.bin", "config.json", "adapter_config.json"),
            *("model*.safetensors*", "pytorch_model*", "adapter_model.*", "optimizer.*", "scheduler.pt"),
            *("rng_state*.pth", "global_step*", "scaler.pt"),
        ),
        needs=("trainer_state.json", _MODEL),
        steps=(Step(file="trainer_state.json", key="global_step"),),
        declares=True,
        named=True,
        complete="the state, the model with all that its index names and, unless only the model is saved, "
        "optimizer, scheduler and random numbers are there",
    ),
    CheckpointFormat(
        name="megatron",
        title="Megatron-LM",
        example="iter_0000500/",
        at=r"iter_\d{7,18}|release",
        holds=("mp_rank_*", "common.pt", "metadata.json"),
        steps=(Step(name=r"^iter_(\d{7,18})$"),),
        tracker="latest_checkpointed_iteration.txt",
        marked=True,
        declares=True,
        named=True,
        complete="`latest_checkpointed_iteration.txt` beside it names it",
    ),
    CheckpointFormat(
        name="deepspeed",
        title="DeepSpeed",
        example="global_step500/",
        holds=("*mp_rank_*_model_states.pt", "*zero_pp_rank_*_optim_states.pt", "layer_*_model_states.pt"),
        needs=("*_model_states.pt",),
        steps=(Step(name=r"^global_step(\d{1,18})$"), *_OWN),
        tracker="latest",
        marked=True,
        declares=True,
        named=True,
        complete="`latest` beside it names it, and the parts of all ranks are there",
    ),
    CheckpointFormat(
        name="orbax",
        title="Orbax (JAX, Flax, MaxText)",
        example="500/",
        holds=("_CHECKPOINT_METADATA", "orbax.checkpoint", "commit_success.txt"),
        steps=_OWN,
        marked=True,
        declares=True,
        named=True,
        complete="it has its final name and was committed (`commit_success.txt`, or the time in "
        "`_CHECKPOINT_METADATA`)",
    ),
    CheckpointFormat(
        name="distributed",
        title="`torch.distributed.checkpoint` (FSDP, torchtitan, Lightning)",
        example="step-500/.metadata",
        holds=("*.distcp", ".metadata"),
        needs=(".metadata",),
        steps=_OWN,
        marked=True,
        declares=True,
        complete="`.metadata` and each part that it names, as long as it says, are there",
    ),
    CheckpointFormat(
        name="accelerate",
        title="Accelerate",
        example="step_500/",
        holds=("random_states_*.pkl", "optimizer.bin", "optimizer_*.bin"),
        needs=("random_states_0.pkl", "model*.safetensors|pytorch_model*"),
        steps=(Step(name=r"^step_(\d{1,18})$"),),
        marked=True,
        declares=True,
        complete="the model and the random numbers of the first process, which are saved last, are there",
    ),
    CheckpointFormat(
        name="backup-and-restore",
        title="Keras `BackupAndRestore`",
        example="backup/latest.weights.h5",
        holds=("training_metadata.json", "latest.weights.h5"),
        needs=("training_metadata.json", "latest.weights.h5"),
        marked=True,
        declares=True,
        complete="`training_metadata.json` is no older than the weights",
    ),
    CheckpointFormat(
        name="safetensors",
        title="Safetensors with an index",
        example="step-500/model.safetensors.index.json",
        holds=("*.safetensors.index.json", "*-00001-of-*.safetensors"),
        needs=("*.safetensors.index.json",),
        steps=_OWN,
        declares=True,
        complete="the index and each file that it names, as long as its header says, are there",
    ),
    CheckpointFormat(
        name="lightning",
        title="Lightning",
        kind="file",
        example="lightning_logs/version_0/checkpoints/epoch=1-step=500.ckpt",
        at=r".+\.ckpt",
        starts=(b"PK\x03\x04",),
        steps=(Step(name=_STEP_WORD), Step(key="global_step")),
        declares=True,
        complete="its archive has its index, which comes last",
    ),
    CheckpointFormat(
        name="keras",
        title="Keras models and weights",
        kind="file",
        example="model-03.keras",
        at=r".+\.(?:keras|h5|hdf5)",
        steps=(Step(name=_STEP_WORD),),
        declares=True,
        complete="its archive has its index (`.keras`), or the file is as long as its header says (`.h5`)",
    ),
    CheckpointFormat(
        name="xgboost",
        title="XGBoost",
        kind="file",
        example="model_500.ubj",
        at=r".+\.(?:ubj|json)",
        starts=(b"{L", b'{"learner"'),
        steps=(Step(name=r"_(\d{1,18})\.(?:ubj|json)$"), *_OWN),
        declares=True,
        complete="its outermost object is closed",
    ),
    CheckpointFormat(
        name="lightgbm",
        title="LightGBM",
        kind="file",
        example="model.txt.snapshot_iter_500",
        at=r".+\.(?:txt|model|lgb|snapshot_iter_\d{1,18})",
        starts=(b"tree\n", b"tree\r\n"),
        steps=(Step(name=r"snapshot_iter_(\d{1,18})$"), Step(name=r"_(\d{1,18})\.\w+$"), *_OWN),
        declares=True,
        complete="its trees are as long as `tree_sizes` says, and its parameters end",
    ),
    CheckpointFormat(
        name="folder",
        title="A folder of your own, what specon's samples write in parts",
        example="step-00000500/",
        at=rf"(?:.*(?<![A-Za-z]))?(?i:{_WORD})[=_.-]{{0,2}}\d{{1,18}}(?:(?!\d).*)?|\d{{1,18}}|"
        r"(?i:last|latest|current|epoch[=_-]{0,2}\d{1,9})",
        steps=_OWN,
        named=True,
        complete="your marker is there, or it was renamed, or nothing in it changed for the settle time",
    ),
    CheckpointFormat(
        name="file",
        title="A file of your own, what specon's samples write (`.pt`, `.npz`)",
        kind="file",
        example="step-00000500.pt",
        steps=(*_OWN, Step(name=TRAILING_STEP)),
        complete="your marker is there, or it was renamed, or it did not change for the settle time; archives"
        " and safetensors also as long as they say",
    ),
)
FOLDERS: Final = tuple(declared for declared in TABLE if declared.kind == "folder")
OWN_FOLDER: Final = next(declared for declared in TABLE if declared.name == "folder")
OWN_FILE: Final = next(declared for declared in TABLE if declared.name == "file")
_FILES: Final = tuple(
    (declared, re.compile(declared.at))
    for declared in TABLE
    if declared.kind == "file" and declared is not OWN_FILE
)
_AT: Final = {declared.name: re.compile(declared.at) for declared in FOLDERS}
_NUMBER_NAMED: Final = re.compile(
    rf"(?:.*(?<![A-Za-z]))?(?i:{_WORD})[=_.-]{{0,2}}\d{{1,18}}(?!\d).*|\d{{1,18}}"
)
_SHARD: Final = re.compile(r"-\d+-of-\d+\b|rng_state_\d+|random_states_\d+")
_NO_STATE: Final = frozenset(
    """
    .json .jsonl .yaml .yml .toml .csv .tsv .txt .log .md .py .sh .html .png .svg .out .err .index
    .meta .tfevents .gitignore
    """.split()  # noqa: SIM905 - words can be read
)


def folder_format(name: str, names: list[str]) -> CheckpointFormat | None:
    """Return the format of a folder of that name with these names in it; None: it is no checkpoint."""
    for declared in FOLDERS:
        if not _AT[declared.name].fullmatch(name):
            continue
        if not declared.holds or any(fnmatchcase(each, glob) for glob in declared.holds for each in names):
            return declared
    return None


@lru_cache(maxsize=1 << 14)  # asked for every file in every scan
def file_formats(name: str) -> tuple[CheckpointFormat, ...]:
    """Return the formats that a file of that name may have; what it begins with is not known yet."""
    return tuple(declared for declared, at in _FILES if at.fullmatch(name))


@lru_cache(maxsize=1 << 14)  # as above
def may_be_own(name: str, *, deep: bool) -> bool:
    """Whether a file of that name is a checkpoint of an owner's own making.

    `deep`: whether it lies in a folder below the one that was named; there its name has to say the step.
    """
    if name in _PARTS or _SHARD.search(name):
        return False
    stem, dot, suffix = name.rpartition(".")
    suffix = f".{suffix.lower()}" if dot and stem else ""
    if suffix in SUFFIXES:
        return not deep or _NUMBER_NAMED.fullmatch(stem) is not None
    return suffix not in _NO_STATE and _NUMBER_NAMED.fullmatch(name) is not None


def lacking(declared: CheckpointFormat, names: list[str]) -> str:
    """Return which of the needed names are not among these, in words; empty: all are there."""
    for need in declared.needs:
        if not any(fnmatchcase(each, glob) for glob in need.split("|") for each in names):
            return f"lacks {need.split('|', maxsplit=1)[0]}"
    return ""


def step_in_name(patterns: tuple[Step, ...], name: str) -> int | None:
    """Return the step that a name tells by these declarations; None where it tells none."""
    stem = name.rpartition(".")[0] if any(map(str.isalpha, name.rpartition(".")[2])) else name
    for step in patterns:
        found = re.findall(step.name, name) or re.findall(step.name, stem or name) if step.name else []
        if found:
            return int(found[-1])
    return None
