from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from specon_manager.backends.local.gpus import Gpu, find_gpus, parse_device_list, parse_visible_devices

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = """\
GPU 0: NVIDIA H200 (UUID: GPU-8f6ab1f5-2f0f-0c8e-7d0e-2a1a3d8f1b11)
GPU 1: NVIDIA H200 (UUID: GPU-11aa22bb-0000-0c8e-7d0e-2a1a3d8f1b11)
"""
DIVIDED = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-aaaa)
  MIG 3g.20gb     Device  0: (UUID: MIG-bbbb)
  MIG 3g.20gb     Device  1: (UUID: MIG-cccc)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-dddd)
"""


def test_whole_gpus_are_listed_by_uuid() -> None:
    """Each line of the driver's list gives one UUID, and the model as a label names it."""
    first, second = parse_device_list(WHOLE)
    assert first == ("GPU-8f6ab1f5-2f0f-0c8e-7d0e-2a1a3d8f1b11", "NVIDIA-H200")
    assert second.id.startswith("GPU-11aa22bb")


def test_parts_stand_for_a_divided_gpu() -> None:
    """A GPU in MIG mode cannot itself be used, so its parts are listed in its place."""
    part = "NVIDIA-A100-SXM4-40GB-MIG-3g.20gb"
    assert parse_device_list(DIVIDED) == [
        ("MIG-bbbb", part),
        ("MIG-cccc", part),
        ("GPU-dddd", "NVIDIA-A100-SXM4-40GB"),
    ]


@pytest.mark.parametrize("text", ["", "No devices found.\n", "GPU\n\n(UUID: )"])
def test_other_lines_list_nothing(text: str) -> None:
    """Lines of another form name no GPU."""
    assert parse_device_list(text) == []


@pytest.mark.parametrize(
    ("value", "devices"),
    [("0,1", ["0", "1"]), (" GPU-a , GPU-b", ["GPU-a", "GPU-b"]), ("", []), ("-1", []), ("1,-1,0", ["1"])],
)
def test_visible_devices_are_read_as_by_cuda(value: str, devices: list[str]) -> None:
    """What follows -1 is hidden."""
    assert parse_visible_devices(value) == devices
    found = find_gpus({"CUDA_VISIBLE_DEVICES": value, "PATH": "/nowhere"})
    assert found == [Gpu(device) for device in devices]


def test_no_driver_means_no_gpu(tmp_path: Path) -> None:
    """Where nvidia-smi is not installed there is no GPU, and no error."""
    assert find_gpus({"PATH": str(tmp_path)}) == []


def driver(folder: Path, script: str) -> str:
    """Return a search path on which `nvidia-smi` is this script."""
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}")
    program.chmod(0o755)
    return str(folder)


LISTS = "cat <<'END'\n{}END\n"
FAILS = "echo 'Driver/library version mismatch' >&2\nexit 18\n"


@pytest.mark.processes
def test_the_driver_is_asked(tmp_path: Path) -> None:
    """Without CUDA_VISIBLE_DEVICES the driver's list counts; its failure is an error with its text."""
    path = driver(tmp_path, LISTS.format(DIVIDED))
    assert [gpu.id for gpu in find_gpus({"PATH": path})] == ["MIG-bbbb", "MIG-cccc", "GPU-dddd"]
    driver(tmp_path, FAILS)
    with pytest.raises(RuntimeError, match="code 18: Driver/library version mismatch"):
        find_gpus({"PATH": path})


@pytest.mark.processes
@pytest.mark.parametrize(
    ("script", "visible", "models"),
    [
        (LISTS.format(WHOLE), "1,GPU-8f6ab", ["NVIDIA-H200", "NVIDIA-H200"]),
        (LISTS.format(DIVIDED), "1,GPU-dd", ["", "NVIDIA-A100-SXM4-40GB"]),
        (LISTS.format(WHOLE), "GPU-none", [""]),
        (FAILS, "0", [""]),
    ],
)
def test_of_visible_devices_the_driver_says_the_model(
    tmp_path: Path, script: str, visible: str, models: list[str]
) -> None:
    """By UUID, or by index where all are alike: the order of indices is not the driver's. If not, nothing."""
    found = find_gpus({"PATH": driver(tmp_path, script), "CUDA_VISIBLE_DEVICES": visible})
    assert [gpu.model for gpu in found] == models
