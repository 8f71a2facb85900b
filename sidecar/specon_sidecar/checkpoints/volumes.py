"""Where a checkpoint may lie that a trainer tells of: on what outlives the trainer, and nowhere else."""

import os
from pathlib import Path
from typing import Final

_KERNEL: Final = ("/proc", "/sys", "/dev")  # of a process or a machine, and gone with it


def describe_misplacement(path: str, volumes: tuple[str, ...] | None) -> str:
    """Return why no checkpoint can be at `path`, with every link in it followed; empty where one can.

    `volumes` None: anywhere but where the kernel shows itself. Looks at the file system: run it in a thread.
    """
    found = Path(os.path.realpath(path))
    roots = [Path(os.path.realpath(each)) for each in (("/",) if volumes is None else volumes)]
    holding = [root for root in roots if found.is_relative_to(root)]
    kernel = next((each for each in _KERNEL if found.is_relative_to(each)), None)
    if kernel is not None and not any(root.is_relative_to(kernel) for root in holding):
        return f"{path}: no checkpoint outlives its trainer under {kernel}"
    if not holding:
        there = ", ".join(volumes or ()) or "nothing"
        return f"{path}: not on a volume that outlives the trainer ({there}): save there, or declare the path"
    return ""
