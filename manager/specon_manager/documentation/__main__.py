"""Write the generated pages into docs/, from the root of the project; `--check` only compares."""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

from specon_manager.backends.kube.admission import annotations
from specon_manager.documentation import command_line, helm_values, openapi

_CHART = Path("charts/specon")


def pages(root: Path) -> Mapping[str, str]:
    """Return the generated files by their paths in docs/. Raises OSError where the chart is not there."""
    chart = root / _CHART
    document = yaml.safe_dump(openapi.document(), sort_keys=False, allow_unicode=True, width=110)
    return {
        "openapi.yaml": document,
        "reference/annotations.md": _annotations(),
        "reference/command-line.md": command_line.page(),
        "reference/values.md": helm_values.page(
            (chart / "values.yaml").read_text(), json.loads((chart / "values.schema.json").read_text())
        ),
    }


def _annotations() -> str:
    return (
        "# Annotations\n\n"
        "Generated from the code: `python -m specon_manager.documentation`. On the pod, which means on the\n"
        "pod template of its owner; what they are for is told in [On Kubernetes](../kubernetes.md). A wrong\n"
        "value and a key that is not known are refused when the pod is created.\n\n" + annotations.table()
    )


def main() -> int:
    """Return 1 where `--check` finds a page that is not as the code writes it."""
    parser = argparse.ArgumentParser(prog="python -m specon_manager.documentation", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, name what would change")
    arguments = parser.parse_args()
    stale = 0
    for name, content in pages(Path()).items():
        path = Path("docs") / name
        if path.exists() and path.read_text() == content:
            continue
        stale += 1
        sys.stdout.write(f"{'not as the code says' if arguments.check else 'written'}: {path}\n")
        if not arguments.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    return 1 if arguments.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
