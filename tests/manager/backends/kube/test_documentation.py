"""docs/kubernetes.md says what the code does."""

import re
from pathlib import Path

from specon_manager.backends.kube.admission.annotations import table

PAGE = Path(__file__).parents[4] / "docs" / "kubernetes.md"


def test_the_table_of_annotations_is_that_of_the_code() -> None:
    """What the page says of annotations is what `annotations.table()` returns."""
    page = PAGE.read_text()
    found = re.search(r"<!-- annotations: begin -->\n(.*?)<!-- annotations: end -->", page, re.DOTALL)
    assert found is not None
    assert found[1].strip() == table().strip()
