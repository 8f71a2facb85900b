from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from specon_manager.backends.local.gpus import find_gpus, parse_device_list, parse_visible_devices

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
    """Each line of the driver's list gives one UUID."""
    first, second = parse_device_list(WHOLE)
    assert first == "GPU-8f6ab1f5-2f0f-0c8e-7d0e-2a1a3d8f1b11"
    assert second.startswith("GPU-11aa22bb")


def test_parts_stand_for_a_divided_gpu() -> None:
    """A GPU in MIG mode cannot itself be used, so its parts are listed in its place."""
    assert parse_device_list(DIVIDED) == ["MIG-bbbb", "MIG-cccc", "GPU-dddd"]


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
    assert find_gpus({"CUDA_VISIBLE_DEVICES": value, "PATH": "/nowhere"}) == devices


def test_no_driver_means_no_gpu(tmp_path: Path) -> None:
    """Where nvidia-smi is not installed there is no GPU, and no error."""
    assert find_gpus({"PATH": str(tmp_path)}) == []


@pytest.mark.processes
def test_the_driver_is_asked(tmp_path: Path) -> None:
    """Without CUDA_VISIBLE_DEVICES the driver's list counts; its failure is an error with its text."""
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{DIVIDED}END\n")
    program.chmod(0o755)
    assert find_gpus({"PATH": str(tmp_path)}) == ["MIG-bbbb", "MIG-cccc", "GPU-dddd"]
    program.write_text("#!/bin/sh\necho 'Driver/library version mismatch' >&2\nexit 18\n")
    with pytest.raises(RuntimeError, match="code 18: Driver/library version mismatch"):
        find_gpus({"PATH": str(tmp_path)})
