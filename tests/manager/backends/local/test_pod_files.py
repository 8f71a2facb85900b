from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.backends.local.pod_files import (
    Exit,
    is_lock_free,
    lock_replica,
    make_checkpoint_directory,
    read_record,
    replica_directory,
)
from specon_manager.backends.local.supervise import write_json

if TYPE_CHECKING:
    from conftest import Place

PART = st.text("abz019-", min_size=1, max_size=6).filter(lambda text: not text.startswith("-"))
JOB = st.text("ab0.-", min_size=1, max_size=8).filter(lambda text: text[0] not in ".-")


@given(one=st.tuples(PART, JOB, PART, PART), other=st.tuples(PART, JOB, PART, PART))
def test_no_two_replicas_share_a_directory(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    """Two replicas have the same directory only if they are the same, though job names may contain dots."""
    root = Path("/pods")
    same = replica_directory(root, "/".join(one)) == replica_directory(root, "/".join(other))
    assert same == (one == other)


def test_the_parts_are_joined_by_dots() -> None:
    """The directory of a replica can be told by a person who looks for it."""
    assert replica_directory(Path("/pods"), "default/vae-1/worker/0") == Path("/pods/default.vae-1.worker.0")


@pytest.mark.parametrize(
    "replica", ["", "a", "a/b/c", "a/b/c/d/e", "a//c/d", "../../../etc", "a.b/c/d/e", "a/b/c.d/0", "a/.b/c/0"]
)
def test_other_identities_are_refused(replica: str) -> None:
    """Only namespace/job/role/index names a replica, and nothing may lead out of the root."""
    with pytest.raises(ValueError, match="replica: "):
        replica_directory(Path("/pods"), replica)


@pytest.mark.parametrize("name", ["model.pt", "weights.tar.gz", "last.ckpt", "last"])
def test_the_one_file_of_checkpoints_is_left_to_the_trainer(tmp_path: Path, name: str) -> None:
    """Where the checkpoint path names a file its folder is made, and never a folder of its name."""
    path = tmp_path / "out" / name
    make_checkpoint_directory(path)
    path.write_bytes(b"weights")
    make_checkpoint_directory(path)
    assert path.read_bytes() == b"weights"


def test_a_file_without_a_suffix_is_one_too(tmp_path: Path) -> None:
    """What is there says whether a checkpoint path names a file."""
    (tmp_path / "checkpoint").write_bytes(b"weights")
    make_checkpoint_directory(tmp_path / "checkpoint")
    assert (tmp_path / "checkpoint").is_file()


@pytest.mark.parametrize("name", ["checkpoints", "lr0.1", ".hidden"])
def test_a_folder_of_checkpoints_is_made(tmp_path: Path, name: str) -> None:
    """Any other checkpoint path is a folder, and so is one that ends in a slash."""
    for _ in range(2):
        make_checkpoint_directory(tmp_path / "out" / name)
        make_checkpoint_directory(tmp_path / "run.d", directory=True)
    assert (tmp_path / "out" / name).is_dir()
    assert (tmp_path / "run.d").is_dir()
    make_checkpoint_directory(tmp_path / "run.d")
    assert (tmp_path / "run.d").is_dir()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("incarnation", "../other"),
        ("incarnation", ""),
        ("directory", "relative"),
        ("working_directory", ""),
        ("log", "trainer.log"),
        ("command", []),
        ("sidecar_command", []),
        ("grace_seconds", -1.0),
        ("grace_seconds", float("nan")),
        ("sidecar_grace_seconds", float("inf")),
    ],
)
def test_a_bad_specification_names_its_field(place: Place, field: str, value: Any) -> None:
    """What cannot be right is refused before anything is started, naming the field."""
    spec = place.spec(["true"])
    spec.check()
    with pytest.raises(ValueError, match=f"^{field}: "):
        place.spec(**{"command": ["true"], field: value}).check()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"reason": "bored"}', b"\xff", b'{"code": 0}'])
def test_garbage_is_no_record(tmp_path: Path, content: bytes) -> None:
    """A record that cannot be read counts as absent."""
    path = tmp_path / "exit.json"
    assert read_record(path, Exit) is None
    path.write_bytes(content)
    assert read_record(path, Exit) is None
    write_json(str(path), {"reason": "exited", "code": 0, "of a later version": 1})
    assert read_record(path, Exit) == Exit(reason="exited", code=0)
    assert [entry.name for entry in tmp_path.iterdir()] == ["exit.json"]


def test_the_lock_is_held_once(tmp_path: Path) -> None:
    """The second to ask is refused until the last copy of the first one's descriptor is closed."""
    assert is_lock_free(tmp_path)
    with lock_replica(tmp_path) as lock:
        copy = os.dup(lock)
    assert not is_lock_free(tmp_path)
    with pytest.raises(BlockingIOError), lock_replica(tmp_path):
        pass
    os.close(copy)
    assert is_lock_free(tmp_path)
