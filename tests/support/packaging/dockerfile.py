"""Lays out what a Dockerfile of this project puts into its image, without a container engine.

Understands the instructions that these Dockerfiles use, and raises ValueError for any other form: what is not
understood would not be tested. Distributions come from the environment of the tests, by their metadata.
"""

import importlib.metadata
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import venv
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
_KNOWN = {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "ENTRYPOINT"}


class Image(NamedTuple):
    """What a Dockerfile says; `copies` are from the checkout into the first stage."""

    base: str
    arguments: dict[str, str]
    copies: list[tuple[str, str]]
    listing: list[str]
    """The command whose output is what pip is asked for; empty where that is a file."""
    required: str
    """The file of requirements that pip is given, within the checkout unless `listing` writes it."""
    prefix: str
    carried: list[tuple[str, str]]
    environment: dict[str, str]
    user: str
    workdir: str
    entrypoint: list[str]


def instructions(file: Path) -> list[tuple[str, str]]:
    """Return each instruction with its text, lines joined."""
    lines = [line for line in file.read_text().splitlines() if line.strip() and not line.startswith("#")]
    found = []
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        name, _, text = line.partition(" ")
        if name not in _KNOWN:
            raise ValueError(f"{file}: {name} is not understood")
        found.append((name, text.strip()))
    return found


def read(file: Path) -> Image:
    """Return what the Dockerfile says."""
    stages: list[dict[str, list[str]]] = [{}]
    for name, text in instructions(file):
        if name == "FROM":
            stages.append({})
        stages[-1].setdefault(name, []).append(text)
    if len(stages) != 3 or not any("-m pip" in text for text in stages[1].get("RUN", [])):
        raise ValueError(f"{file}: is not made of two stages, with a first one that installs")
    before, build, last = stages
    arguments = {
        key: value.strip('"')
        for key, _, value in (text.partition("=") for text in before["ARG"] + build["ARG"])
    }
    (base,) = {text.split()[0] for text in build["FROM"] + last["FROM"]}
    (install,) = (text for text in build["RUN"] if "-m pip" in text)
    listing, required, prefix = _installed(install, arguments)
    return Image(
        base=base.replace("${PYTHON}", arguments["PYTHON"]),
        arguments=arguments,
        copies=[_pair(text) for text in build["COPY"]],
        listing=listing,
        required=required,
        prefix=prefix,
        carried=[_pair(text.removeprefix("--from=build ")) for text in last["COPY"]],
        environment=dict(pair.split("=", 1) for text in last["ENV"] for pair in shlex.split(text)),
        user=last["USER"][-1],
        workdir=last["WORKDIR"][-1],
        entrypoint=json.loads(last["ENTRYPOINT"][-1]),
    )


def _pair(text: str) -> tuple[str, str]:
    source, target = text.split()
    return source, target


def _installed(run: str, arguments: dict[str, str]) -> tuple[list[str], str, str]:
    """Return the command that lists the requirements, their file, and the folder they are installed into."""
    first, *further = [shlex.split(part) for part in run.split(" && ")]
    listing = first[: first.index(">")] if ">" in first else []
    steps = further if listing else [first, *further]
    (made,) = [part for part in steps if part[1:3] == ["-m", "venv"]]
    (installed,) = [part for part in steps if part[1:3] == ["-m", "pip"]]
    if installed[installed.index("--python") + 1] != made[-1] or installed[-2] != "--requirement":
        raise ValueError(f"what pip installs is not read from one file into the environment: {run}")
    if listing and installed[-1] != first[-1]:
        raise ValueError(f"what pip installs is not what was listed: {run}")
    if not listing and "--require-hashes" not in installed:
        raise ValueError(f"what pip installs from a file of the checkout is not checked by hashes: {run}")
    return listing, _expanded(installed[-1], arguments), made[-1]


def _expanded(word: str, arguments: dict[str, str]) -> str:
    """Return what the shell makes of a word with the build's arguments."""
    answer = subprocess.run(
        ["sh", "-c", f"echo {word}"], env=arguments, check=True, capture_output=True, text=True
    )
    return answer.stdout.strip()


def requirements(image: Image) -> list[str]:
    """Return what pip is asked for: what the Dockerfile's own program lists, or the names in its lock."""
    if not image.listing:
        return sorted(locked(image.required))
    words = [
        re.sub(r"\$\{(\w+)\}", lambda found: image.arguments[found[1]], word) for word in image.listing[3:]
    ]
    command = [sys.executable, *image.listing[1:3], *(part for word in words for part in word.split())]
    answer = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return answer.stdout.split("\n")[:-1]


def locked(file: str) -> dict[str, str]:
    """Return the versions that a lock of this project pins, by name."""
    pins = re.findall(r"^([a-z0-9-]+)==(\S+) \\$", (ROOT / file).read_text(), re.MULTILINE)
    return dict(pins)


def distributions(required: list[str]) -> dict[str, importlib.metadata.Distribution]:
    """Return the distributions that fulfil the requirements, with all that they need themselves."""
    found: dict[str, importlib.metadata.Distribution] = {}
    done: set[tuple[str, frozenset[str]]] = set()
    waiting = [Requirement(text) for text in required]
    while waiting:
        requirement = waiting.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        distribution = importlib.metadata.distribution(name)
        if not requirement.specifier.contains(distribution.version, prereleases=True):
            raise ValueError(f"{requirement} is not fulfilled by {distribution.version}")
        found[name] = distribution
        if (name, extras) in done:
            continue
        done.add((name, extras))
        for text in distribution.requires or ():
            needed = Requirement(text)
            if needed.marker is None or any(
                needed.marker.evaluate({"extra": extra}) for extra in (extras or {""})
            ):
                waiting.append(needed)
    return found


def lay_out(image: Image, folder: Path) -> Path:
    """Make the environment of the image in a folder and return it: linked distributions, copied files."""
    venv.create(folder, with_pip=False, symlinks=True)
    packages = folder / "lib" / "python3.11" / "site-packages"
    if not packages.exists():
        packages.parent.mkdir(parents=True, exist_ok=True)
        packages.symlink_to(next(folder.glob("lib/python3.*/site-packages")))
    for distribution in distributions(requirements(image)).values():
        for top in {file.parts[0] for file in distribution.files or () if file.parts[0] not in {"..", "."}}:
            source, target = Path(str(distribution.locate_file(top))), packages / top
            if top != "__pycache__" and source.exists() and not target.exists():
                target.symlink_to(source)
    for source, target in image.copies:
        if not target.startswith(image.prefix + "/"):
            continue
        copied(source, folder / Path(target).relative_to(image.prefix))
    return folder


def copied(source: str, place: Path) -> None:
    """Copy a file or a folder of the context, which is what .dockerignore lets through."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if (ROOT / source).is_dir():
        shutil.copytree(ROOT / source, place, ignore=_ignored)
    else:
        shutil.copy(ROOT / source, place)


def in_context(path: str) -> bool:
    """Return whether .dockerignore lets a path of the checkout into the context."""
    let = True
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        pattern = line.removeprefix("!").removeprefix("**/")
        parts = Path(path).parts
        prefixes = ["/".join(parts[: end + 1]) for end in range(len(parts))]
        names = parts if "**/" in line else prefixes
        if any(fnmatch(name, pattern) for name in names):
            let = line.startswith("!")
    return let


def _ignored(folder: str, names: list[str]) -> set[str]:
    place = Path(folder).relative_to(ROOT)
    return {name for name in names if not in_context(os.fspath(place / name))}


def environment(image: Image, folder: Path) -> dict[str, str]:
    """Return the variables that a container of the image has."""
    return {key: value.replace(image.prefix, os.fspath(folder)) for key, value in image.environment.items()}
