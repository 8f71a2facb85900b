"""The site is built without a warning and needs nothing from another host."""

import re
import subprocess
import sys

import pytest

from support.packaging.documents import ROOT

LOADED = re.compile(
    r"""<(?:link|script|img|source|iframe)\b[^>]*\b(?:src|href)=["']((?:https?:)?//[^"']+)""", re.IGNORECASE
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return folder


def test_every_page_is_in_the_site(site):
    """Each file of docs/ that is a page, and the description of the API."""
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs")).with_suffix(".html").exists(), page
    assert (site / "openapi.yaml").exists()


def test_nothing_is_loaded_from_elsewhere(site):
    """No script, style, font or picture of another host: the site works offline."""
    for page in site.rglob("*.html"):
        loaded = [url for url in LOADED.findall(page.read_text()) if 'rel="canonical"' not in url]
        assert not loaded, (page.name, loaded)
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:@import|url\()\s*['\"]?(?:https?:)?//", style.read_text()), style
    for picture in site.rglob("*.svg"):
        assert not re.search(r"(?:href|src)=[\"'](?:https?:)?//", picture.read_text()), picture
