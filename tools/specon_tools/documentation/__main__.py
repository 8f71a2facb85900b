"""Write the generated pages into docs/, from the root of the project; `--check` only compares."""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from specon_tools.documentation import (
    annotations,
    command_line,
    helm_values,
    log_formats,
    openapi,
    transactions,
)
from specon_tools.documentation.marked import with_table
from specon_tools.observability import catalogue

_CHART: Final = Path("charts/specon")
_TABLES: Final = {
    "architecture.md": ("transactions", transactions.table),
    "kubernetes.md": ("annotations", annotations.table),
    "log-formats.md": ("table of formats", log_formats.table),
    "metrics.md": ("metrics", catalogue.table),
}
"""Pages with one generated table: its name in the marks around it, and what writes it."""


def pages(root: Path) -> Mapping[str, str]:
    """Return the generated files by their paths in docs/, from the root of the project.

    Raises OSError where the chart or a page is not there, ValueError where a page lacks its marks.
    """
    chart = root / _CHART
    document = yaml.safe_dump(openapi.document(), sort_keys=False, allow_unicode=True, width=110)
    tables = {
        name: with_table((root / "docs" / name).read_text(), mark, table())
        for name, (mark, table) in _TABLES.items()
    }
    return {
        "openapi.yaml": document,
        "reference/annotations.md": annotations.page(),
        "reference/command-line.md": command_line.page(),
        "reference/values.md": helm_values.page(
            (chart / "values.yaml").read_text(), json.loads((chart / "values.schema.json").read_text())
        ),
        **tables,
    }


def main() -> int:
    """Return 1 where `--check` finds a page that is not as the code writes it."""
    parser = argparse.ArgumentParser(prog="python -m specon_tools.documentation", description=__doc__)
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
