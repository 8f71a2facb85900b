"""The tests that move unchanged scripts, over this year's version of each framework and an older one.

    python benchmarks/frameworks/versions.py                 all: a quarter of an hour, and 17 GB in --folder
    python benchmarks/frameworks/versions.py lightning-old   one

Each has a virtual environment of its own, beside the others in --folder; an existing one is used again.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
TORCH = os.environ.get("TORCH", "torch==2.13.0")
TESTS = ["pytest", "pytest-timeout", "pytest-asyncio", "hypothesis", "numpy"]
VERSIONS = {
    "torch-new": ("torch", ["torch==2.15.0"]),
    "torch-old": ("torch", ["torch==2.9.1"]),
    "transformers-new": ("transformers", [TORCH, "transformers==5.24.0", "accelerate==1.15.0"]),
    # With two ranks on processors 4.57 cannot read its own optimizer (`tagged with cpu:0`): one is tried.
    "transformers-old": ("transformers and not ranks", [TORCH, "transformers==4.57.6", "accelerate==1.10.1"]),
    "lightning-new": ("lightning", [TORCH, "lightning==2.6.6"]),
    "lightning-old": ("lightning", [TORCH, "lightning==2.4.0"]),
    "keras-new": ("keras", [TORCH, "keras==3.15.1"]),
    "keras-old": ("keras", [TORCH, "keras==3.8.0"]),
    "xgboost-new": ("xgboost", ["xgboost==3.2.0", "scipy"]),
    "xgboost-old": ("xgboost", ["xgboost==2.1.4", "scipy"]),
    "lightgbm-new": ("lightgbm", ["lightgbm==4.7.0"]),
    "lightgbm-old": ("lightgbm", ["lightgbm==4.3.0"]),
}


def run(name: str, folder: Path) -> bool:
    """Make the environment of a version, if there is none yet, and run its tests."""
    module, packages = VERSIONS[name]
    python = folder / name / "bin" / "python"
    if not (folder / name / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", folder / name], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *packages, *TESTS], check=True)
        (folder / name / "ready").touch()
    begun = time.monotonic()
    done = subprocess.run(
        [
            *(python, "-m", "pytest", "-q", "--tb=short", "-o", "addopts=--import-mode=importlib"),
            *("-W", "default", "-k", module, "tests/trainer/frameworks/test_moved.py"),
        ],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    seconds = time.monotonic() - begun
    print(f"{name}: {'moved' if done.returncode == 0 else 'FAILED'}, {seconds:.0f} s", flush=True)
    if done.returncode:
        print(done.stdout[-3000:])
    return done.returncode == 0


def main() -> int:
    """Return 0 where all of those that were named pass."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=list(VERSIONS))
    parser.add_argument("--folder", type=Path, default=Path("build/frameworks"))
    arguments = parser.parse_args()
    failed = [name for name in arguments.names if not run(name, arguments.folder.resolve())]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
