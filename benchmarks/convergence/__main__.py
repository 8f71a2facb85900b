"""Prints the tables of docs/results/convergence.md from the committed curves, in seconds.

`python benchmarks/convergence [--part tuning|report] [--write]`; `--write` puts them into the document. The
curves are trained anew by `python benchmarks/convergence/train`.
"""

import argparse
from pathlib import Path
from typing import Final

from curves import load
from tables import tables

DOCUMENT: Final = Path(__file__).resolve().parents[2] / "docs" / "results" / "convergence.md"
BEGIN: Final = "<!-- tables: python benchmarks/convergence -->"
END: Final = "<!-- end of tables -->"


def main() -> None:
    """Print the tables of one part, or write them into the document."""
    parser = argparse.ArgumentParser(description="Judge the judges of convergence on recorded runs.")
    parser.add_argument("--part", choices=("tuning", "report"), default="report")
    parser.add_argument("--write", action="store_true", help=f"put the tables into {DOCUMENT.name}")
    arguments = parser.parse_args()
    text = "\n".join(tables(load(arguments.part)))
    if not arguments.write:
        print(text)
        return
    before, rest = DOCUMENT.read_text(encoding="utf-8").split(BEGIN)
    _, after = rest.split(END)
    DOCUMENT.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
