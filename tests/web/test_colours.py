"""The page's colours: told apart by everybody, and strong enough against what is behind."""

import itertools
import re
from importlib import resources

import numpy as np
import pytest

CATEGORIES = ("progressing", "watching", "converged", "stalled", "diverging")
# Full dichromacy in linear sRGB. Protanopia and deuteranopia: Viénot, Brettel and Mollon, "Digital video
# colourmaps for checking the legibility of displays by dichromats", Color Research and Application 24 (1999).
# Tritanopia: one half plane of Brettel, Viénot and Mollon, "Computerized simulation of color appearance for
# dichromats", Journal of the Optical Society of America A 14 (1997).
SIGHT = {
    "usual": np.eye(3),
    "protanopia": np.array([[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]]),
    "deuteranopia": np.array([[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]]),
    "tritanopia": np.array(
        [[1.01277, 0.13548, -0.14826], [-0.01243, 0.86812, 0.14431], [0.07589, 0.805, 0.11911]]
    ),
}


def themes():
    """Return the colours of the light and of the dark theme, and the dark one's second copy."""
    text = resources.files("specon_manager.runtime.page").joinpath("static", "style.css").read_text()
    blocks = re.findall(r":root[^{]*\{([^}]*)\}", text)
    return [dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", block)) for block in blocks]


LIGHT, DARK, DARK_BY_SYSTEM = themes()


def linear(colour):
    parts = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    """WCAG 2.2: from 1 to 21."""
    weights = np.array([0.2126, 0.7152, 0.0722])
    bright, dim = sorted((weights @ linear(one), weights @ linear(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def lab(rgb):
    """CIE L*a*b* (1976), D65."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(np.clip(to_xyz @ np.clip(rgb, 0, 1), 0, None) / np.array([0.9505, 1.0, 1.089]))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_both_ways_to_darkness_are_the_same():
    """By the system's preference or by the button: one theme."""
    assert DARK == DARK_BY_SYSTEM
    assert set(DARK) == set(LIGHT)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("behind", ["page", "panel", "raised"])
def test_text_is_legible(theme, behind):
    """4.5 to 1 for text (WCAG 1.4.3), 3 to 1 for signs and lines (1.4.11)."""
    for text in ("ink", "soft", "bad", "good", "warn", "accent"):
        assert contrast(theme[text], theme[behind]) >= 4.5, text
    for sign in (*CATEGORIES, "neutral"):
        assert contrast(theme[sign], theme[behind]) >= 3, sign


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_on_buttons_is_legible(theme):
    """The one button that is filled."""
    assert contrast(theme["on-accent"], theme["accent"]) >= 4.5


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("sight", SIGHT)
def test_categories_are_told_apart(theme, sight):
    """Any two colours of categories differ by at least 15 units (just noticeable: 2.3), for any sight."""
    seen = {name: lab(SIGHT[sight] @ linear(theme[name])) for name in CATEGORIES}
    for one, other in itertools.combinations(CATEGORIES, 2):
        difference = float(np.linalg.norm(seen[one] - seen[other]))
        assert difference >= 15, (one, other, difference)
