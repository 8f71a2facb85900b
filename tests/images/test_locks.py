"""What the images install is pinned, with hashes of PyPI's files and of nothing else."""

import importlib.metadata
import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.packaging.dockerfile import ROOT, locked

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {"manager": ["manager"], "sidecar": [], "sidecar-tensorboard": ["tensorboard"]}
LINE = re.compile(r"[a-z0-9-]+==[\w.!+-]+ \\|    --hash=sha256:[0-9a-f]{64}( \\)?| *#.*")


@pytest.fixture(params=EXTRAS)
def lock(request):
    return request.param


@pytest.fixture
def pins(lock):
    return locked(f"locks/{lock}.txt")


def test_there_is_a_lock_for_each_image_and_no_other():
    """An orphan would be installed by nobody and mended by nobody."""
    assert {path.stem for path in (ROOT / "locks").iterdir()} == EXTRAS.keys()


def test_a_lock_has_pins_hashes_and_nothing_else(lock, pins):
    """No index, no folder, no address: who installs chooses where from, and the hash says what."""
    lines = (ROOT / "locks" / f"{lock}.txt").read_text().splitlines()
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    assert "://" not in "".join(lines)
    entries = re.findall(r"^\S+==\S+ \\\n((?:    --hash=.*\n)+)", "\n".join(lines), re.MULTILINE)
    assert len(entries) == len(pins) > 5


def test_a_lock_fulfils_what_the_project_asks_for(lock, pins):
    """Each dependency of the image, in a version that pyproject.toml allows: else `make lock`."""
    extras = PROJECT["optional-dependencies"]
    for text in [*PROJECT["dependencies"], *(one for name in EXTRAS[lock] for one in extras[name])]:
        requirement = Requirement(text)
        version = pins[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{text}: locks/{lock}.txt has {version}"


def test_a_lock_names_what_its_packages_need_themselves(pins):
    """As far as the installed ones are of the same version; pip would refuse a need that is not pinned."""
    installed = {name: importlib.metadata.distribution(name) for name in pins}
    known = {name: one for name, one in installed.items() if one.version == pins[name]}
    assert known
    for name, one in known.items():
        for text in one.requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                assert canonicalize_name(requirement.name) in pins, f"{name} needs {text}"


def test_the_images_share_versions():
    """Messages between manager and sidecar are written and read by the same library."""
    manager = locked("locks/manager.txt")
    for name in ("sidecar", "sidecar-tensorboard"):
        pins = locked(f"locks/{name}.txt")
        assert {each: pins[each] for each in pins.keys() & manager.keys()} == {
            each: manager[each] for each in pins.keys() & manager.keys()
        }
