"""Check the English of everything that people read, from the root of the project."""

import argparse
import sys
from collections import Counter
from itertools import chain
from pathlib import Path

from specon_tools.prose.rules import HABIT_WORDS, findings
from specon_tools.prose.sources import chart, helps, pages
from specon_tools.prose.text import words


def main() -> int:
    """Return 1 where a sentence breaks a rule."""
    parser = argparse.ArgumentParser(prog="python -m specon_tools.prose", description=__doc__)
    parser.add_argument(
        "--count", action="store_true", help="print words, sentences and findings of each file as well"
    )
    arguments = parser.parse_args()
    counted: dict[str, Counter[str]] = {}
    found = 0
    for text in chain(pages(Path()), helps(), chart(Path())):
        group = text.place if text.line else text.place.partition(" ")[0]
        counter = counted.setdefault(group, Counter())
        for _, sentence in text.sentences():
            counter.update({"words": words(sentence), "sentences": 1, "long": words(sentence) > HABIT_WORDS})
        for finding in findings(text):
            found += 1
            counter["findings"] += 1
            sys.stdout.write(f"{finding}\n")
    if arguments.count:
        columns = ("words", "sentences", "long", "findings")
        for group, counter in sorted(counted.items()):
            sys.stdout.write(f"{group:40}" + "".join(f"{counter[column]:>10}" for column in columns) + "\n")
        whole = sum(counted.values(), Counter())
        sys.stdout.write(f"{'all':40}" + "".join(f"{whole[column]:>10}" for column in columns) + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
