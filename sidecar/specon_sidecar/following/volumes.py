"""Which file system a path lies on, as far as watching it goes. Pure: the mount table is passed in."""

import re
from typing import Final

# Other machines write to these without this kernel being told, so inotify stays silent.
_NETWORK: Final = frozenset(
    {
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "smb3",
        "smbfs",
        "virtiofs",
    },
)
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")
# Fields of a line of /proc/self/mountinfo, see proc(5): the mount point is the fifth of those before " - ".
_MOUNT_POINT: Final = 4


def file_system_type(path: str, mountinfo: str) -> str | None:
    """Return the type of the file system of an absolute, resolved path; None if no mount holds it."""
    best: tuple[int, str] | None = None
    for line in mountinfo.splitlines():
        before, separator, after = line.partition(" - ")
        fields, kind = before.split(" "), after.partition(" ")[0]
        if not separator or len(fields) <= _MOUNT_POINT:
            continue
        point = _ESCAPE.sub(lambda found: chr(int(found[1], 8)), fields[_MOUNT_POINT]).rstrip("/")
        # Of mounts on the same point the last one hides the others.
        if (path == point or path.startswith(point + "/")) and (best is None or len(point) >= best[0]):
            best = len(point), kind
    return best[1] if best is not None else None


def is_network(kind: str | None) -> bool:
    """Whether others can write to a file system of this type behind the kernel's back."""
    return kind is not None and (kind in _NETWORK or kind.startswith("fuse."))
