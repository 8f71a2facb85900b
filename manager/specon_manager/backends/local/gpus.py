"""Finds the GPUs of this machine that the manager may use."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LIST_SECONDS = 20.0
_DEVICE = re.compile(r"\s*(GPU|MIG) (.*)\(UUID: ([^)\s]+)\)\s*")
_WHOLE = re.compile(r"\d+:\s*(.*)")
_PART = re.compile(r"(\S+)\s+Device\b.*")


class Gpu(NamedTuple):
    """A GPU, or a part of one that is divided."""

    id: str
    """Fit for CUDA_VISIBLE_DEVICES."""
    model: str = ""
    """As the driver names it, with `-` for spaces as GPU feature discovery does; empty where it does not."""


def find_gpus(environment: Mapping[str, str]) -> list[Gpu]:
    """Return the usable GPUs; none where there is no driver.

    `CUDA_VISIBLE_DEVICES` in `environment` has the word, as for any CUDA program; else `nvidia-smi -L` has.
    Raises RuntimeError when that program exists and fails, for a broken driver is not an absent one. Where
    the variable says which GPUs there are, that program tells at most their models.
    """
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    program = shutil.which("nvidia-smi", path=environment.get("PATH"))
    if visible is None:
        return [] if program is None else _list_devices(program)
    devices = parse_visible_devices(visible)
    try:
        listed = [] if program is None or not devices else _list_devices(program)
    except RuntimeError:
        listed = []
    return [Gpu(device, _model_of(device, listed)) for device in devices]


def _list_devices(program: str) -> list[Gpu]:
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


def _model_of(device: str, listed: Sequence[Gpu]) -> str:
    """Return the model of a device; CUDA takes the begin of a UUID too, and what an index means is open."""
    index = device.isascii() and device.isdigit()
    models = {gpu.model for gpu in listed if index or gpu.id.startswith(device)}
    return models.pop() if len(models) == 1 else ""


def parse_visible_devices(text: str) -> list[str]:
    """Read a value of CUDA_VISIBLE_DEVICES: as in CUDA, -1 hides itself and all that follow."""
    devices = []
    for device in (part.strip() for part in text.split(",")):
        if device in {"", "-1"}:
            break
        devices.append(device)
    return devices


def parse_device_list(text: str) -> list[Gpu]:
    """Read the output of `nvidia-smi -L`: UUIDs, for indices depend on CUDA_DEVICE_ORDER.

    A GPU that is divided (MIG) is listed with its parts below it; the parts stand for it.
    """
    devices: list[Gpu] = []
    whole = Gpu("")
    for line in text.splitlines():
        match = _DEVICE.fullmatch(line)
        if match is None:
            continue
        kind, words, uuid = match.groups()
        found = (_WHOLE if kind == "GPU" else _PART).fullmatch(words.strip())
        name = "" if found is None else found[1]
        if kind == "GPU":
            whole = Gpu(uuid, "-".join(name.split()))
            devices.append(whole)
            continue
        if whole in devices:
            devices.remove(whole)
        model = f"{whole.model}-MIG-{name}" if whole.model and name else ""
        devices.append(Gpu(uuid, model))
    return devices
