"""Whose files a manager trusts: a state directory says which commands are run, so it has to be ours alone."""

import errno
import grp
import os
import pwd
import stat
from pathlib import Path
from typing import Final

_MOST_LINKS: Final = 40
_ROOT: Final = 0
_GROUP_OR_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_PRIVATE: Final = 0o077


class NotOursError(Exception):
    """Something is somebody else's, or others may write it; the text names it, its owner and its mode."""


def check_ours(directory: Path) -> None:
    """See to it that nobody else can have put anything into a directory, or can put another in its place.

    The directory and everything directly in it has to be ours, and nobody else's to write. It has to lie in a
    directory of ours that nobody else may write, in a sticky one, or in those of the system. Raises
    NotOursError, and OSError where something cannot be looked at.
    """
    *links, (real, found) = _follow(directory)
    for link, seen in links:
        if seen.st_uid not in {os.geteuid(), _ROOT}:
            raise NotOursError(_describe(link, seen, "another user made this link"))
        _check_place(link)
    _check(real, found)
    _check_place(real)
    with os.scandir(real) as entries:
        for entry in entries:
            try:
                _check(Path(entry.path), entry.stat(follow_symlinks=False))
            except FileNotFoundError:
                continue  # a manager that runs here replaces its files


def check_private(path: Path) -> None:
    """See to it that a key is ours and that nobody else may read it. Raises NotOursError, OSError."""
    found = path.lstat()
    _check(path, found)
    if stat.S_ISREG(found.st_mode) and found.st_mode & _PRIVATE:
        raise NotOursError(_describe(path, found, f"others may read this key: chmod 600 {path}"))
    if not stat.S_ISREG(found.st_mode):
        raise NotOursError(_describe(path, found, "a key is a regular file"))


def _check(path: Path, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid():
        us = _user(os.geteuid())
        raise NotOursError(
            _describe(path, found, f"it does not belong to {us}, who runs this: use another directory")
        )
    if not stat.S_ISLNK(found.st_mode) and _others_may_write(found):
        raise NotOursError(_describe(path, found, f"others may write it: chmod go-w {path}"))


def _check_place(path: Path) -> None:
    """Ensure that nobody else can replace the file or folder under a path without links."""
    for parent in path.parents:
        found = parent.lstat()
        if found.st_uid not in {os.geteuid(), _ROOT}:
            raise NotOursError(_describe(parent, found, f"{path} lies in a directory of another user"))
        if found.st_mode & stat.S_ISVTX:
            return
        if _others_may_write(found):
            raise NotOursError(_describe(parent, found, f"others may put something else in place of {path}"))
        if found.st_uid == os.geteuid():
            return


def _others_may_write(found: os.stat_result) -> bool:
    """Whether more than its owner may write it; a group in which nobody else is, is nobody else."""
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and not _is_private_group(found)


def _is_private_group(found: os.stat_result) -> bool:
    try:
        group, owner = grp.getgrgid(found.st_gid), pwd.getpwuid(found.st_uid)
    except KeyError:
        return False
    return group.gr_name == owner.pw_name and set(group.gr_mem) <= {owner.pw_name}


def _follow(path: Path) -> list[tuple[Path, os.stat_result]]:
    """Return every link on the way to a directory, and the directory itself as the last. Raises OSError.

    The paths of all of them have no links in them.
    """
    current = Path("/")
    links = []
    left = list(reversed(path.absolute().parts[1:]))
    while left:
        part = left.pop()
        entry = current.parent if part == ".." else current / part
        found = entry.lstat()
        if not stat.S_ISLNK(found.st_mode):
            current = entry
            continue
        links.append((entry, found))
        if len(links) > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        target = entry.readlink()
        if target.is_absolute():
            current = Path("/")
        left += reversed([each for each in target.parts if each != "/"])
    return [*links, (current, current.lstat())]


def _describe(path: Path, found: os.stat_result, what: str) -> str:
    mode = stat.S_IMODE(found.st_mode)
    return f"{path} (owner {_user(found.st_uid)}, mode {mode:04o}): {what}"


def _user(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} ({uid})"
    except KeyError:
        return str(uid)
