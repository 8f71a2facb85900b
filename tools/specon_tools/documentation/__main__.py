"""Write the generated pages, from the root of the project; `--check` only compares."""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from specon_tools.documentation import (
    annotations,
    checkpoint_formats,
    command_line,
    helm_values,
    log_formats,
    openapi,
    results_pictures,
    transactions,
)
from specon_tools.documentation.marked import put_table
from specon_tools.observability import catalogue

_CHART: Final = Path("charts/specon")
_TABLES: Final = {
    "architecture.md": {"transactions": transactions.table},
    "commands.md": {"flags": command_line.sections},
    "kubernetes.md": {"annotations": annotations.table},
    "logs-and-checkpoints.md": {
        "table of formats": log_formats.table,
        "checkpoint formats": checkpoint_formats.table,
    },
    "metrics.md": {"metrics": catalogue.table},
}
"""Pages with generated parts: the name in the marks around each, and what writes it."""


def pages(root: Path) -> Mapping[str, str]:
    """Return the generated files by their paths, all of them from the root of the project.

    Raises OSError where the chart or a page is not there, ValueError where a page lacks its marks.
    """
    chart = root / _CHART
    document = yaml.safe_dump(openapi.document(), sort_keys=False, allow_unicode=True, width=110)
    marked = {}
    for name, parts in _TABLES.items():
        page = (root / "docs" / name).read_text()
        for mark, part in parts.items():
            page = put_table(page, mark, part())
        marked[f"docs/{name}"] = page
    for picture in results_pictures.PICTURES:
        name = f"docs/results/{picture.page}.md"
        page = marked.get(name) or (root / name).read_text()
        marked[results_pictures.path_of(picture)] = results_pictures.draw(page, picture)
        marked[name] = put_table(page, f"picture {picture.name}", results_pictures.line_of(picture))
    values, schema = (chart / "values.yaml").read_text(), (chart / "values.schema.json").read_text()
    table = helm_values.table(values, json.loads(schema))
    readme = (chart / "README.md").read_text()
    return {
        "docs/openapi.yaml": document,
        "docs/reference/values.md": helm_values.page(values, json.loads(schema)),
        f"{_CHART}/README.md": put_table(readme, "values", f"\n{table}\n"),
        **marked,
    }


def main() -> int:
    """Return 1 where `--check` finds a page that is not as the code writes it."""
    parser = argparse.ArgumentParser(prog="python -m specon_tools.documentation", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, name what would change")
    arguments = parser.parse_args()
    stale = 0
    for name, content in pages(Path()).items():
        path = Path(name)
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
