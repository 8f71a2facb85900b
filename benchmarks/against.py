"""This working tree beside a former revision of it, in one run: `python benchmarks/against.py NAME ...`.

The former one is taken from the repository's history (`--revision`), and runs its own benchmarks with its
own packages. Both take turns (A B, B A, ...), so that other work on the machine disturbs them alike. Of each
figure that has the same name on both sides the medians are printed, and the median of the pairs' ratios: the
present one by the former one.
"""

import argparse
import compileall
import io
import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

HERE: Final = Path(__file__).resolve().parents[1]
VERSION_0_1: Final = "015021b8325343f2c97d4d918f17bb9ddfb367be"
"""Version 0.1, with the first benchmarks that all come to an end."""
_PACKAGES: Final = ("manager", "sidecar", "lab")
_COMPILED: Final = (*_PACKAGES, "samples", "benchmarks")
Values = dict[str, tuple[float, str]]


@dataclass(frozen=True)
class Tree:
    """Sources, and the Python that imports them."""

    sources: Path
    python: str

    def compile(self) -> None:
        """Write the bytecode, as an installation does: else each start of a process would compile it anew."""
        for each in _COMPILED:
            if (self.sources / each).is_dir():
                compileall.compile_dir(self.sources / each, quiet=2)

    def measure(self, name: str, flags: Sequence[str]) -> Values:
        """Run a benchmark; return value and unit of each of its figures. Raises CalledProcessError."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "figures.json"
            script = self.sources / "benchmarks" / f"{name.replace('-', '_')}.py"
            command = [self.python, str(script), "--json", str(file), *flags]
            environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
            subprocess.run(command, check=True, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
            return {each["what"]: (each["value"], each["unit"]) for each in json.loads(file.read_text())}


def former(revision: str, folder: Path) -> Tree:
    """Unpack a revision, with a Python that finds its packages and the same libraries as this one."""
    sources = folder / "sources"
    packed = subprocess.run(
        ["git", "-C", str(HERE), "archive", revision], check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(sources, filter="data")
    made = folder / "python"
    venv.create(made, symlinks=True)
    libraries = sysconfig.get_path("purelib", vars={"base": str(made), "platbase": str(made)})
    found = [str(sources / each) for each in _PACKAGES if (sources / each).is_dir()]
    # A path in a .pth file is taken as it is: editable installations of here are not found there.
    lines = [*found, sysconfig.get_path("purelib")]
    (Path(libraries) / "former.pth").write_text("".join(f"{line}\n" for line in lines))
    return Tree(sources, str(made / "bin" / "python"))


def compare(name: str, trees: tuple[Tree, Tree], pairs: int, flags: Sequence[str]) -> list[dict[str, object]]:
    """Run both in turns, the former one first; return the lines about each figure that both have."""
    runs: tuple[list[Values], list[Values]] = ([], [])
    for number in range(pairs):
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            runs[side].append(trees[side].measure(name, flags))
    told: list[dict[str, object]] = []
    for what, (_, unit) in runs[0][0].items():
        if what not in runs[1][0]:
            continue
        before, after = ([run[what][0] for run in side] for side in runs)
        ratios = [new / old for old, new in zip(before, after, strict=True) if old]
        told.append(
            {
                "what": what,
                "unit": unit,
                "former": median(before),
                "present": median(after),
                "ratio": median(ratios) if ratios else None,
                "ratios": ratios,
            }
        )
    return told


def show(told: list[dict[str, object]]) -> None:
    """Print a line for each figure."""
    width = max((len(str(each["what"])) for each in told), default=0)
    for each in told:
        ratios = each["ratios"]
        assert isinstance(ratios, list)
        spread = f"x {each['ratio']:.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if ratios else ""
        line = (
            f"  {each['what']:{width}} {each['former']:>10.4g} -> {each['present']:>10.4g} {each['unit']:9}"
        )
        print(f"{line} {spread}".rstrip())


def main() -> None:
    """Be the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="+", metavar="NAME", help="plan, move-downtime, report-ingestion, ...")
    parser.add_argument("--revision", default=VERSION_0_1, help="of git; as a rule version 0.1")
    parser.add_argument("--pairs", type=int, default=3, help="runs of each (3)")
    parser.add_argument("--smallest", action="store_true", help="show that it works, measure nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to this file")
    arguments = parser.parse_args()
    flags = ["--smallest"] if arguments.smallest else []
    measured = {}
    with tempfile.TemporaryDirectory() as folder:
        trees = former(arguments.revision, Path(folder)), Tree(HERE, sys.executable)
        for tree in trees:
            tree.compile()
        for name in arguments.names:
            measured[name] = compare(name, trees, arguments.pairs, flags)
            print(f"{name}: {arguments.revision[:12]} -> this tree, {arguments.pairs} pairs")
            show(measured[name])
            print(flush=True)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(measured, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
