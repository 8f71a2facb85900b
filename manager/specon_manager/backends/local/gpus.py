"""Finds the GPUs of this machine that the manager may use."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

LIST_SECONDS = 20.0
_DEVICE = re.compile(r"\s*(GPU|MIG) .*\(UUID: ([^)\s]+)\)\s*")


def find_gpus(environment: Mapping[str, str]) -> list[str]:
    """Return the ids of the usable GPUs, fit for CUDA_VISIBLE_DEVICES; none where there is no driver.

    `CUDA_VISIBLE_DEVICES` in `environment` has the word, as for any CUDA program; else `nvidia-smi -L` has.
    Raises RuntimeError when that program exists and fails, for a broken driver is not an absent one.
    """
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return parse_visible_devices(visible)
    program = shutil.which("nvidia-smi", path=environment.get("PATH"))
    if program is None:
        return []
    try:
        listed = subprocess.run(  # noqa: S603 - a fixed argument list, no shell
            [program, "-L"], capture_output=True, text=True, timeout=LIST_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RuntimeError(f"GPUs: {program} -L: {error}") from error
    if listed.returncode != 0:
        reason = (listed.stderr or listed.stdout).strip()
        raise RuntimeError(f"GPUs: {program} -L ended with code {listed.returncode}: {reason}")
    return parse_device_list(listed.stdout)


def parse_visible_devices(text: str) -> list[str]:
    """Read a value of CUDA_VISIBLE_DEVICES: as in CUDA, -1 hides itself and all that follow."""
    devices = []
    for device in (part.strip() for part in text.split(",")):
        if device in {"", "-1"}:
            break
        devices.append(device)
    return devices


def parse_device_list(text: str) -> list[str]:
    """Read the output of `nvidia-smi -L`: UUIDs, for indices depend on CUDA_DEVICE_ORDER.

    A GPU that is divided (MIG) is listed with its parts below it; the parts stand for it.
    """
    devices: list[str] = []
    whole: str | None = None
    for line in text.splitlines():
        match = _DEVICE.fullmatch(line)
        if match is None:
            continue
        kind, uuid = match.groups()
        if kind == "MIG" and whole is not None:
            devices.remove(whole)
        whole = uuid if kind == "GPU" else None
        devices.append(uuid)
    return devices
