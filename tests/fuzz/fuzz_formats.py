"""Feeds the readers of logs with what a coverage-guided fuzzer makes of the sample logs.

`make fuzz`, or `python tests/fuzz/fuzz_formats.py SECONDS`. An input that breaks a reader is written to
`cases/`, where `test_cases.py` finds it again.
"""

import argparse
import importlib
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).parent
CASES = HERE / "cases"
SAMPLES = HERE.parent / "sidecar" / "formats" / "samples"
# What the fuzzer found worth keeping, for its next run.
CORPUS = HERE.parent.parent / "build" / "fuzz"
MAX_INPUT_BYTES = 4096
# Longer for one input, with every format, is as good as a hang.
HANG_SECONDS = 20
MEMORY_MIB = 2048


def main() -> None:
    """Fuzz for the time that was asked for; the process ends with an error where an input broke a reader."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", type=int, help="how long to go on")
    seconds = parser.parse_args().seconds
    if seconds < 1:
        parser.error(f"seconds must be at least 1, not {seconds}")  # to the fuzzer 0 means for ever
    try:
        # Imported here: nothing else needs it, and it has no wheels for some versions of Python.
        atheris = importlib.import_module("atheris")
    except ModuleNotFoundError:
        sys.exit("the package atheris is not installed; `make fuzz` installs it")
    sys.path.insert(0, str(HERE.parent))
    with atheris.instrument_imports(include=["specon_sidecar"]):
        target = importlib.import_module("fuzz.formats_target")
    warnings.simplefilter("error")  # as in the tests that replay the cases
    CORPUS.mkdir(parents=True, exist_ok=True)
    options = {
        "max_total_time": seconds,
        "max_len": MAX_INPUT_BYTES,
        "timeout": HANG_SECONDS,
        "rss_limit_mb": MEMORY_MIB,
        "artifact_prefix": f"{CASES}/",
    }
    arguments = [f"-{name}={value}" for name, value in options.items()]
    atheris.Setup([sys.argv[0], *arguments, str(CORPUS), str(SAMPLES), str(CASES)], target.check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
