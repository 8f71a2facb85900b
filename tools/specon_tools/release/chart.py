"""`make chart`: package the chart with registry and digests of the images that `make images` pushed."""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from specon_tools.release.images import LOCAL, OUTPUT

_CHART: Final = Path("charts/specon")
_ADDRESS: Final = re.compile(r"https://[\w.-]+(:\d{1,5})?(/[\w.~-]+)*/?")


def put_images(values: str, registry: str, digests: Mapping[str, str]) -> str:
    """Return values.yaml with that registry and those digests; raises ValueError where one is missing."""
    values = _replace(values, f"  registry: {LOCAL}\n", f"  registry: {registry}\n")
    for name in ("manager", "sidecar"):
        head, found, tail = values.partition(f"  repository: {name}\n")
        if not found:
            raise ValueError(f"values.yaml: has no repository {name}")
        values = (
            head + found + _replace(tail, 'digest: ""\n', f"digest: {digests[name]}\n", all_of_them=False)
        )
    return values


def put_release(chart: str, registry: str, source: str) -> str:
    """Return Chart.yaml with the registry in its list of images and the address of the source."""
    if registry:
        chart = chart.replace(f"image: {LOCAL}/", f"image: {registry}/")
    return chart + (f"home: {source}\nsources: [{source}]\n" if source else "")


def _replace(text: str, old: str, new: str, *, all_of_them: bool = True) -> str:
    if old not in text or (all_of_them and text.count(old) != 1):
        raise ValueError(f"values.yaml: {old.strip()!r} is not there once")
    return text.replace(old, new, 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Return what helm returns; 2 where the chart cannot be made."""
    parser = argparse.ArgumentParser(prog="python -m specon_tools.release.chart", description=__doc__)
    parser.add_argument("--source", default="", help="address of the repository, for home and sources")
    parser.add_argument("--helm", default="helm", help="which helm packages it")
    parser.add_argument("--output", type=Path, default=Path("build"), help="folder that gets the package")
    given = parser.parse_args(arguments)
    if given.source and not _ADDRESS.fullmatch(given.source):
        sys.stderr.write(f"SOURCE: {given.source!r} is not an address such as https://host/owner/name\n")
        return 2
    if shutil.which(given.helm) is None:
        sys.stderr.write(f"{given.helm} is not in PATH: install Helm 3 or 4\n")
        return 2
    pushed = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else {}
    version = tomllib.loads(Path("pyproject.toml").read_text())["project"]["version"]
    if pushed and (pushed["version"] != version or not {"manager", "sidecar"} <= pushed["digests"].keys()):
        sys.stderr.write(
            f"{OUTPUT}: does not tell of manager and sidecar {version}; make images PUSH=... again\n"
        )
        return 2
    folder = given.output / "chart"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(_CHART, folder / "specon")
    values, chart = (folder / "specon" / name for name in ("values.yaml", "Chart.yaml"))
    if pushed:
        values.write_text(put_images(values.read_text(), pushed["registry"], pushed["digests"]))
    chart.write_text(put_release(chart.read_text(), pushed.get("registry", ""), given.source))
    command = [given.helm, "package", str(folder / "specon"), "--destination", str(given.output)]
    return subprocess.run(command, check=False).returncode  # noqa: S603 - helm, no shell


if __name__ == "__main__":
    sys.exit(main())
