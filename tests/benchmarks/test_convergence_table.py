import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.long
@pytest.mark.timeout(400)  # twenty seconds of an idle processor
def test_the_table_is_what_the_classifiers_do():
    """The committed tables are printed again from the committed curves: no classifier changes unnoticed."""
    command = [sys.executable, str(ROOT / "benchmarks" / "convergence")]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    document = (ROOT / "docs" / "results" / "convergence.md").read_text(encoding="utf-8")
    _, rest = document.split("<!-- tables: python benchmarks/convergence -->\n")
    committed, _ = rest.split("<!-- end of tables -->")
    assert committed == printed
