"""What a trainer puts where checkpoints are looked for leads the sidecar nowhere else."""

import os
from threading import Event

import pytest

from specon_sidecar.checkpoints.checkpoint_watch import CheckpointWatch
from specon_sidecar.checkpoints.verify import UnreadableError, verify
from specon_sidecar.regular_file import open_regular


@pytest.fixture
def folders(tmp_path):
    inside, outside = tmp_path / "checkpoints", tmp_path / "elsewhere"
    inside.mkdir()
    outside.mkdir()
    (outside / "step-9.bin").write_bytes(b"nobody's business")
    return inside, outside


def found(path):
    """Return the names of what counts as a complete checkpoint."""
    watch = CheckpointWatch(path, settle=0.0)
    watch.scan(0.0)
    return [candidate.path.name for candidate in watch.scan(10.0)]


@pytest.mark.parametrize(
    "target", ["../elsewhere/step-9.bin", "../elsewhere", "/etc/passwd", "/dev/zero", "/"]
)
def test_a_link_out_of_the_folder_is_no_checkpoint(folders, target, caplog):
    """It is passed over, with one word in the log; what is beside it counts."""
    inside, _ = folders
    (inside / "step-2.bin").symlink_to(target)
    (inside / "step-1.bin").write_bytes(b"weights")
    assert found(inside) == ["step-1.bin"]
    told = [record for record in caplog.records if "link" in record.message]
    assert len(told) == (target != "/dev/zero" or len(told))


def test_a_link_through_the_folder_and_out_again_is_none_either(folders):
    """Each step of the way counts."""
    inside, outside = folders
    (inside / ".way").symlink_to(outside)
    (inside / "step-2.bin").symlink_to(".way/step-9.bin")
    assert found(inside) == []


def test_a_link_in_a_checkpoint_to_elsewhere_spoils_it(folders):
    """A directory with a part somewhere else is no checkpoint; one with its store beside it is."""
    inside, outside = folders
    for name in ("step-1", "step-2", "blobs"):
        (inside / name).mkdir()
    (inside / "blobs" / "a").write_bytes(b"weights")
    (inside / "step-1" / "model").symlink_to("../blobs/a")
    (inside / "step-2" / "model").symlink_to(outside / "step-9.bin")
    assert found(inside) == ["step-1"]


def test_the_one_file_may_not_be_a_link_to_elsewhere(folders):
    """The file that was named may be a link to a neighbour, as `latest` often is, and to nothing else."""
    inside, outside = folders
    (inside / "step-1.bin").write_bytes(b"weights")
    (inside / "latest").symlink_to("step-1.bin")
    assert found(inside / "latest") == ["latest"]
    (inside / "latest").unlink()
    (inside / "latest").symlink_to(outside / "step-9.bin")
    assert found(inside / "latest") == []


def test_the_folder_that_was_named_may_be_a_link(folders):
    """The author of the annotation decides where it is."""
    inside, outside = folders
    (inside / "run").symlink_to(outside)
    assert found(inside / "run") == ["step-9.bin"]


def test_a_link_in_a_circle_is_no_checkpoint(folders):
    """Nothing hangs and nothing is raised."""
    inside, _ = folders
    (inside / "a").symlink_to("b")
    (inside / "b").symlink_to("a")
    assert found(inside) == []


def test_a_link_that_came_after_the_look_is_noticed(folders):
    """The content is compared with what was looked at: exchanging the file in between gains nothing."""
    inside, outside = folders
    (inside / "step-1.bin").write_bytes(b"weights")
    watch = CheckpointWatch(inside, settle=0.0)
    watch.scan(0.0)
    (candidate,) = watch.scan(10.0)
    (inside / "step-1.bin").unlink()
    (inside / "step-1.bin").symlink_to(outside / "step-9.bin")
    with pytest.raises(UnreadableError, match="changed while it was read"):
        verify(candidate, Event())


def test_a_pipe_in_place_of_a_checkpoint_hangs_nobody(folders):
    """It would never open; it is refused, wherever the sidecar reads."""
    inside, _ = folders
    (inside / "step-1.bin").write_bytes(b"weights")
    watch = CheckpointWatch(inside, settle=0.0)
    watch.scan(0.0)
    (candidate,) = watch.scan(10.0)
    (inside / "step-1.bin").unlink()
    os.mkfifo(inside / "step-1.bin")
    with pytest.raises(UnreadableError, match="no regular file"):
        verify(candidate, Event())
    with pytest.raises(OSError, match="no regular file"):
        open_regular(inside / "step-1.bin")
    with pytest.raises(OSError, match="no regular file"):
        open_regular("/dev/zero")


def test_a_pipe_in_place_of_a_declaration_hangs_nobody(folders):
    """The step is then that of the name."""
    inside, _ = folders
    (inside / "step-7.bin").write_bytes(b"weights")
    os.mkfifo(inside / "step-7.bin.json")
    watch = CheckpointWatch(inside, settle=0.0)
    watch.scan(0.0)
    assert [candidate.step for candidate in watch.scan(10.0)] == [7]


def test_a_declaration_elsewhere_is_not_read(folders):
    """A step is taken from the checkpoint's own folder alone."""
    inside, outside = folders
    (outside / "secret.json").write_text('{"step": 4242}')
    (inside / "step-7.bin").write_bytes(b"weights")
    (inside / "step-7.bin.json").symlink_to(outside / "secret.json")
    watch = CheckpointWatch(inside, settle=0.0)
    watch.scan(0.0)
    assert [candidate.step for candidate in watch.scan(10.0)] == [7]
