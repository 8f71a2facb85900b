"""Saves as frameworks save: their files in their order, in place or under another name as they do it.

The content is small; containers, indexes and names are those of the frameworks, written without them. Each
writer saves a step to a folder; what it saved is told by `content`, the bytes that stand for the tensors.
"""

import json
import os
import shutil
import struct
import zipfile
from io import BytesIO
from pathlib import Path

SIZE = 20_000


def content(step, size=SIZE):
    """Return what stands for tensors of that step."""
    return (b"%08d" % step) * (size // 8)


def pickled(**values):
    """Return a pickle (protocol 2) of a dictionary of numbers and truths, as torch writes them."""
    body = b"\x80\x02}q\x00("
    for key, value in values.items():
        body += b"X" + struct.pack("<I", len(key)) + key.encode()
        body += (
            {True: b"\x88", False: b"\x89"}[value]
            if isinstance(value, bool)
            else b"J" + struct.pack("<i", value)
        )
    return body + b"u."


def torch_zip(step, size=SIZE, **values):
    """Return an archive as `torch.save` writes it."""
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", pickled(**values))
        archive.writestr("archive/data/0", content(step, size))
        archive.writestr("archive/version", "3\n")
    return buffer.getvalue()


def safetensors(step, size=SIZE):
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return struct.pack("<Q", len(header)) + header + content(step, size)


def hdf5(step, size=SIZE):
    """Return a file with a superblock of version 0 that tells its end."""
    block = b"\x89HDF\r\n\x1a\n" + bytes([0, 0, 0, 0, 0, 8, 8, 0]) + struct.pack("<HHI", 4, 16, 0)
    block += struct.pack("<QQQQ", 0, 2**64 - 1, 96 + size, 2**64 - 1)
    return block.ljust(96, b"\0") + content(step, size)


def ubj(step, size=SIZE):
    """Return a model as XGBoost's UBJSON: typed, counted and plain arrays, and text."""

    def key(text):
        return b"L" + struct.pack(">q", len(text)) + text

    numbers = b"[$U#L" + struct.pack(">q", size) + content(step, size)
    plain = b"[#L" + struct.pack(">q", 2) + b"i\x01" + b"{" + key(b"name") + b"S" + key(b"x") + b"}"
    learner = b"{" + key(b"trees") + numbers + key(b"info") + plain + key(b"empty") + b"[]" + b"}"
    return b"{" + key(b"learner") + learner + key(b"version") + b"[i\x03i\x02]" + b"}"


def lightgbm(step, size=SIZE):
    trees = [b"Tree=%d\nnum_leaves=8\nleaf_value=%s\n\n\n" % (i, content(step, size // 2)) for i in range(2)]
    head = b"tree\nversion=v4\nnum_class=1\nfeature_names=a b\ntree_sizes=%s\n\n" % b" ".join(
        b"%d" % len(tree) for tree in trees
    )
    tail = b"end of trees\n\nfeature_importances:\na=1\n\nparameters:\n[boosting: gbdt]\nend of parameters\n"
    return head + b"".join(trees) + tail + b"\npandas_categorical:null\n"


def put(path, data, pieces=4):
    """Write in place, in pieces, as a large save is: a kill may come between any two."""
    path.parent.mkdir(parents=True, exist_ok=True)
    length = len(data) // pieces + 1
    with path.open("wb", buffering=0) as opened:
        for at in range(0, len(data), length):
            opened.write(data[at : at + length])


def distributed_index(parts):
    """Return `.metadata` with the stretch of each part, as far as it is looked at."""
    body = b"\x80\x02("
    for name, length in parts.items():
        for text, value in (("relative_path", name), ("offset", 0), ("length", length)):
            body += b"X" + struct.pack("<I", len(text)) + text.encode()
            if isinstance(value, str):
                body += b"X" + struct.pack("<I", len(value)) + value.encode()
            else:
                body += b"J" + struct.pack("<i", value)
    return body + b"t."


def transformers(root, step):
    folder = root / f"checkpoint-{step}"
    put(folder / "config.json", b'{"hidden_size": 16}')
    put(folder / "model.safetensors", safetensors(step))
    put(folder / "training_args.bin", torch_zip(step, 64, save_only_model=False))
    put(folder / "optimizer.pt", torch_zip(step))
    put(folder / "scheduler.pt", torch_zip(step, 64))
    put(folder / "rng_state.pth", torch_zip(step, 64))
    put(folder / "trainer_state.json", json.dumps({"global_step": step, "log_history": [{}] * 50}).encode())
    return folder


def lightning(root, step):
    file = root / "lightning_logs" / "version_0" / "checkpoints" / f"epoch=0-step={step}.ckpt"
    put(file, torch_zip(step, epoch=0, global_step=step))
    return file


def distributed(root, step):
    folder = root / f"step-{step}"
    parts = {f"__{rank}_0.distcp": torch_zip(step) for rank in range(2)}
    for name, data in parts.items():
        put(folder / name, data)
    put(folder / ".metadata.tmp", distributed_index({name: len(data) for name, data in parts.items()}))
    (folder / ".metadata.tmp").rename(folder / ".metadata")
    return folder


def sharded(root, step):
    folder = root / f"step_{step}"
    shards = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    for shard in shards:
        put(folder / shard, safetensors(step))
    index = {"metadata": {}, "weight_map": {f"w{number}": shard for number, shard in enumerate(shards)}}
    put(folder / "model.safetensors.index.json", json.dumps(index).encode())
    return folder


def keras(root, step):
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("metadata.json", "{}")
        archive.writestr("model.weights.h5", hdf5(step))
    file = root / f"model-step{step}.keras"
    put(file, buffer.getvalue())
    return file


def orbax(root, step):
    aside = root / f"{step}.orbax-checkpoint-tmp"
    put(aside / "default" / "manifest.ocdbt", b"ocdbt")
    put(aside / "default" / "d" / "0a1b", content(step))
    put(aside / "_CHECKPOINT_METADATA", json.dumps({"commit_timestamp_nsecs": None}).encode())
    put(aside / "_CHECKPOINT_METADATA", json.dumps({"commit_timestamp_nsecs": step + 1}).encode())
    return aside.rename(root / str(step))


def deepspeed(root, step):
    folder = root / f"global_step{step}"
    put(folder / "mp_rank_00_model_states.pt", torch_zip(step, global_steps=step, dp_world_size=2))
    for rank in range(2):
        put(folder / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt", torch_zip(step))
    put(root / "latest", folder.name.encode(), pieces=1)
    return folder


def megatron(root, step):
    folder = root / f"iter_{step:07d}"
    for rank in range(2):
        put(folder / f"mp_rank_0{rank}" / "model_optim_rng.pt", torch_zip(step))
    put(root / "latest_checkpointed_iteration.txt", str(step).encode(), pieces=1)
    return folder


def xgboost(root, step):
    file = root / f"model_{step}.ubj"
    put(file, ubj(step))
    return file


def gbm(root, step):
    file = root / f"model.txt.snapshot_iter_{step}"
    put(file, lightgbm(step))
    return file


def backup(root, step):
    folder = root / "backup"
    put(folder / "latest.weights.h5", hdf5(step))
    put(folder / "training_metadata.json", json.dumps({"epoch": step, "batch": 0}).encode())
    return folder


def single(root, step):
    file = root / "last.pt"
    put(file, torch_zip(step))
    return file


def sample(root, step):
    """Save as specon's samples do: under a hidden name, which is then changed."""
    aside = root / f".step-{step:08d}.pt.tmp"
    put(aside, torch_zip(step))
    return aside.rename(root / f"step-{step:08d}.pt")


WRITERS = {
    "transformers": transformers,
    "lightning": lightning,
    "distributed": distributed,
    "safetensors": sharded,
    "keras": keras,
    "orbax": orbax,
    "deepspeed": deepspeed,
    "megatron": megatron,
    "xgboost": xgboost,
    "lightgbm": gbm,
    "backup-and-restore": backup,
    "single": single,
    "file": sample,
}
IN_PLACE = frozenset({"backup-and-restore", "single"})
"""Those that write over what they saved before: while they do, there is no whole one."""


def remove(path):
    """Take away what was saved, as a trainer that keeps the newest does."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def files_in(path: Path):
    """Return the files of a checkpoint."""
    if path.is_file():
        return [path]
    return [Path(folder) / name for folder, _, names in os.walk(path) for name in names]


def holds(path, step):
    """Whether everything large in a checkpoint is that of the step, and all of it."""
    mark = content(step, 800)
    large = [file for file in files_in(path) if file.stat().st_size > SIZE // 2]
    return bool(large) and all(mark in file.read_bytes() for file in large)
