"""`make images`: build the images with docker, podman or buildah; push them where a registry is named."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

NAMES: Final = ("manager", "sidecar", "samples")
LOCAL: Final = "docker.io/specon"
"""Registry and prefix that the chart and the samples name where nobody says otherwise."""
OUTPUT: Final = Path("build/images.json")
"""Where registry, version and digests of the pushed images are written, for the chart."""
_PREFIX: Final = re.compile(r"(?P<host>[a-z0-9.-]+(:\d{1,5})?)(/[a-z0-9]+([._-]+[a-z0-9]+)*)*")
_SECONDS: Final = 30


class Builder(NamedTuple):
    """A program that builds images."""

    name: str
    answers: tuple[str, ...]
    """What it is asked to learn whether it works here: docker needs its daemon."""


BUILDERS: Final = (
    Builder("docker", ("version", "--format", "{{.Server.Version}}")),
    Builder("podman", ("info",)),
    Builder("buildah", ("info",)),
)


class UnusableError(Exception):
    """The request cannot be carried out; the text says why and what to do."""


def choose_builder(wanted: str) -> Builder:
    """Return the builder of that name, or the first one that works. Raises UnusableError where none does."""
    names = [one.name for one in BUILDERS]
    if wanted and wanted not in names:
        raise UnusableError(f"BUILDER: {wanted!r} is not one of {', '.join(names)}")
    refused = []
    for one in BUILDERS:
        if wanted not in {"", one.name}:
            continue
        trouble = _trouble(one)
        if not trouble:
            return one
        refused.append(f"  {one.name}: {trouble}")
    raise UnusableError(
        "no program here can build images. Install docker, podman or buildah; buildah needs no daemon.\n"
        + "\n".join(refused)
    )


def _trouble(builder: Builder) -> str:
    """Return why a builder cannot be used, empty where it can."""
    if shutil.which(builder.name) is None:
        return "is not in PATH"
    command = [builder.name, *builder.answers]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)  # noqa: S603 - one of BUILDERS
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    lines = (answer.stderr or answer.stdout).strip().splitlines()
    return "" if answer.returncode == 0 else (lines or [f"exits with {answer.returncode}"])[-1]


def check_prefix(prefix: str) -> str:
    """Return registry and prefix. Raises UnusableError where images cannot be pushed to such a name."""
    found = _PREFIX.fullmatch(prefix)
    if found is None or not ({".", ":"} & set(found["host"]) or found["host"] == "localhost"):
        raise UnusableError(
            f"PUSH: {prefix!r} is not a registry with a prefix; write it as registry.example/team, "
            "without a scheme, a tag or a slash at its end"
        )
    return prefix


def build_command(builder: str, name: str, references: Sequence[str], pip_flags: str) -> list[str]:
    """Return the command that builds an image from the root of the project."""
    # The others keep the layers of a build for the next one without being asked.
    command = [builder, "build", *(["--layers"] if builder == "buildah" else [])]
    command += ["--file", f"{name}/Dockerfile"]
    command += [word for reference in references for word in ("--tag", reference)]
    return [*command, *(["--build-arg", f"PIP_FLAGS={pip_flags}"] if pip_flags else []), "."]


def push_image(builder: str, reference: str, scratch: Path) -> str:
    """Push an image and return its digest; raises CalledProcessError, UnusableError where there is none."""
    if builder == "docker":
        _run(["docker", "push", reference])
        inspect = ["docker", "image", "inspect", "--format", "{{json .RepoDigests}}", reference]
        known = _run(inspect, stdout=subprocess.PIPE).stdout
        name = reference.rpartition(":")[0]
        # Docker leaves the name of its own registry out.
        names = {name, name.removeprefix("docker.io/")}
        digests: list[str] = [
            digest for one, _, digest in (each.partition("@") for each in json.loads(known)) if one in names
        ]
    else:
        digest_file = scratch / "digest"
        _run([builder, "push", "--digestfile", str(digest_file), reference])
        digests = [digest_file.read_text().strip()]
        digest_file.unlink()
    if not digests or not re.fullmatch(r"sha256:[0-9a-f]{64}", digests[0]):
        raise UnusableError(f"{reference}: {builder} tells no digest of what it pushed")
    return digests[0]


def _run(command: Sequence[str], stdout: int | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=True, stdout=stdout, text=True)  # noqa: S603 - a builder, no shell


def make(names: Sequence[str], builder: str, push: str, pip_flags: str, output: Path) -> None:
    """Build the images; where `push` names a registry, push them and write their digests to the output."""
    version = tomllib.loads(Path("pyproject.toml").read_text())["project"]["version"]
    digests = {}
    for name in names:
        references = [f"{prefix}/{name}:{version}" for prefix in dict.fromkeys((LOCAL, push or LOCAL))]
        _run(build_command(builder, name, references, pip_flags))
        if push:
            digests[name] = push_image(builder, references[-1], output.parent)
        sys.stdout.write(f"{references[-1]}{'@' if push else ''}{digests.get(name, '')}\n")
        sys.stdout.flush()
    if push:
        output.write_text(json.dumps({"registry": push, "version": version, "digests": digests}, indent=2))


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0, 1 where a builder fails, 2 where nothing can be built."""
    parser = argparse.ArgumentParser(prog="python -m specon_tools.release.images", description=__doc__)
    parser.add_argument("--push", default="", help="registry and prefix to push to, as registry.example/team")
    parser.add_argument("--builder", default="", help="docker, podman or buildah (the first that works)")
    parser.add_argument("--pip-flags", default="", help="handed to pip in the build")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="gets the digests of the pushed images")
    parser.add_argument("names", nargs="*", default=NAMES, choices=[*NAMES, NAMES], help="which images (all)")
    given = parser.parse_args(arguments)
    try:
        builder = choose_builder(given.builder)
        push = check_prefix(given.push) if given.push else ""
        given.output.parent.mkdir(parents=True, exist_ok=True)
        sys.stderr.write(f"building with {builder.name}\n")
        make(given.names, builder.name, push, given.pip_flags, given.output)
    except UnusableError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"failed with {error.returncode}: {' '.join(map(os.fspath, error.cmd))}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
