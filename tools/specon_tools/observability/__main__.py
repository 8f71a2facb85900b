"""`python -m specon_tools.observability DIRECTORY`: write dashboards and alert rules.

`DIRECTORY` is `charts/specon/files` in this repository, or any other where no chart is used.
"""

import argparse
import sys
from pathlib import Path

from specon_tools.observability.files import chart_files


def main(arguments: list[str] | None = None) -> int:
    """Write the files, or with `--check` name those that are out of step; 1 where some are."""
    parser = argparse.ArgumentParser(prog="python -m specon_tools.observability", description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if something would be"
    )
    given = parser.parse_args(arguments)
    wanted = {given.directory / name: content for name, content in chart_files().items()}
    late = [
        path for path, content in wanted.items() if not path.exists() or path.read_text("utf-8") != content
    ]
    for path in late:
        sys.stdout.write(f"{'out of step' if given.check else 'written'}: {path}\n")
        if not given.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
    return 1 if given.check and late else 0


if __name__ == "__main__":
    sys.exit(main())
