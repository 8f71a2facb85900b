"""The mount table says how a path can be watched."""

import pytest

from specon_sidecar.following.volumes import file_system_type, is_network

MOUNTS = r"""
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
25 27 0:23 / /dev/shm rw,relatime shared:5 - tmpfs tmpfs rw
40 27 0:50 / /data rw,relatime - ext4 /dev/vdb rw
41 40 0:51 / /data/shared rw,relatime shared:7 master:2 - nfs4 server:/export rw
42 27 0:52 / /with\040blank rw - fuse.s3fs s3fs rw
43 27 0:53 / /twice rw - ext4 /dev/vdc rw
44 43 0:54 / /twice rw - ceph monitors rw
broken line
45 27 - xfs
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        *(
            ("/log", "ext4"),
            ("/dev/shm/log", "tmpfs"),
            ("/data/log", "ext4"),
            ("/data/shared/run/log", "nfs4"),
        ),
        *(("/data/shared", "nfs4"), ("/data/sharedness/log", "ext4"), ("/with blank/log", "fuse.s3fs")),
        ("/twice/log", "ceph"),
    ],
)
def test_nearest_mount_counts(path, kind):
    """The longest mount point above the path counts, and of equal ones the last."""
    assert file_system_type(path, MOUNTS) == kind


def test_no_mount():
    """A table that does not hold the path gives nothing, and nothing is no network."""
    assert file_system_type("/log", "") is None
    assert not is_network(None)


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "ceph", "fuse.gcsfuse", "glusterfs", "lustre", "9p"]
)
def test_network(kind):
    """These are written to from elsewhere."""
    assert is_network(kind)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "overlay", "tmpfs", "fuseblk", "btrfs", "zfs"])
def test_local(kind):
    """These are written to from here only."""
    assert not is_network(kind)
