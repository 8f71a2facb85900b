"""The check of the English: what it finds, where it says it is, and what it leaves alone."""

import pytest

from specon_tools.prose import markdown
from specon_tools.prose.rules import MOST_WORDS, findings
from specon_tools.prose.text import Text


def found(content):
    return [str(finding) for finding in findings(Text("page.md", content, 1))]


@pytest.mark.parametrize(
    "sentence",
    [
        "Whoever edits an object by hand is corrected.",
        "It keeps ten, of which two are open.",
        "The node is being drained.",
        "The plan takes what is free on a node.",
        "What is not covered, is listed below.",
        "Not covered is the rest.",
        "Told is the reason alone.",
        "Crashes that are put up with.",
        "It waits, for it has no room.",
        "Who leads anew begins new curves.",
        "A file that somebody mended.",
    ],
)
def test_a_turn_of_phrase_with_a_plainer_one_is_found(sentence):
    """With what to write instead."""
    assert found(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "A new leader starts with empty curves.",
        "Manual edits are overwritten.",
        "The sidecar waits because it has no room.",
        "What happens when the manager dies?",
        "It waits for this node.",
    ],
)
def test_plain_english_passes(sentence):
    """Subject first, active voice."""
    assert found(sentence) == []


def test_a_long_sentence_is_found_with_its_line():
    """Its place is where it starts, not where its paragraph does."""
    long = " ".join(["word"] * (MOST_WORDS + 1))
    (finding,) = found(f"A short one.\nAnother.\nNow {long}.")
    assert finding.startswith(f"page.md:3: {MOST_WORDS + 2} words")
    assert found(" ".join(["word"] * MOST_WORDS) + ".") == []


def test_code_is_one_word_and_is_not_judged():
    """In a page neither blocks of code nor spans; the prose around them keeps its lines."""
    block = "```text\nwhoever\n```"
    page = f"# Title\n\nUse `whoever anew`.\n\n{block}\n\n| a | b |\n|---|---|\n| x | whoever waits |\n"
    texts = list(markdown.texts("page.md", page))
    lines = [finding.place for text in texts for finding in findings(text)]
    assert lines == ["page.md:11"]
