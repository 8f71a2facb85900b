"""The rules: how long a sentence may be, and which turns of phrase have a plainer one."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from specon_tools.prose.text import Text, show_sentence, words

HABIT_WORDS: Final = 25
"""Of one sentence: longer ones are counted."""
MOST_WORDS: Final = 35
"""Of one sentence: longer ones are findings."""
_SHOWN: Final = 80
"""Characters of a sentence that a message shows."""


@dataclass(frozen=True)
class Phrase:
    """A turn of phrase and its remedy."""

    pattern: str
    remedy: str
    """What to write instead."""


PHRASES: Final = (
    Phrase(r"\bwhoever\b", "name the reader or the part: you, the administrator, the manager"),
    Phrase(r"\bof which\b|\bof whom\b", "begin a new sentence with its subject"),
    Phrase(r"\bwhat (is|was|are|were)\b(?![^.]*\?)", "a noun: the free room, the remaining steps"),
    Phrase(r"\b(nothing|none|part|much|all) of it\b(?! is (?:lost|left))", "say of what"),
    Phrase(r"\b(is|are|was|were) being\b", "active voice: who does it?"),
    Phrase(r"^What [^.?]{3,80}, (is|are|was|were|has|have|does|must|may|can|stays)\b", "subject first"),
    Phrase(r"^(Who|Where to|How) [^.?]{3,60}, (is|are|says)\b", "subject first"),
    Phrase(
        r"^(Not|No longer|Nowhere|Never) [\w -]{0,30}\b(is|are|was|were|does|do|has|have|can)\b",
        "subject first, then the verb with not",
    ),
    Phrase(r"^(Of|To|From|For|In|On|With|Without) [^,.?]{2,60}, (is|are|says|has)\b", "subject first"),
    Phrase(
        r"^(Told|Said|Shown|Left out|Refused|Counted|Covered|Missing|Lost) (is|are|was|were)\b",
        "subject first",
    ),
    Phrase(
        r"\b(anew|thereof|therein|thereby|whereby|wherein|hereby|lest|thus|hence|albeit|beforehand)\b",
        "a plainer word: again, new, so, by this",
    ),
    Phrase(r"\bput(s)? up with\b", "tolerate"),
    Phrase(
        r"[,;] for (it|they|there|this|that|these|those|nobody|nothing|each|every|one)\b[^,.;]* "
        r"(is|are|was|were|has|have|does|do|can|may|knows?|takes?|reads?|holds?)\b",
        "because",
    ),
    Phrase(r"\bwhat it is that\b|\ball that (is|are|was|were)\b", "name it"),
    Phrase(r"\bto mend\b|\bmend(s|ed|ing)?\b", "fix"),
    Phrase(r"\bspeaks? against\b", "prevents, or: the reason against it"),
    Phrase(r"\bas good as\b", "almost"),
    Phrase(r"\bhas the last word\b", "decides"),
    Phrase(r"\bso (do|does|is|are|did) (?!not\b)\w+\b(?= *[.;,])", "also, in a sentence of its own"),
    Phrase(r"\b(neither|nor) (is|are|does|do|has|have|can) (it|they|there|the|a)\b", "and … not"),
    Phrase(r"\bby the clock\b", "in wall-clock time"),
    Phrase(r"\bit be\b|\bbe it\b|\bwere it\b|\bhad it\b", "if it …"),
    Phrase(r"\bsomebody\b", "someone, or name who"),
    Phrase(r"\b(is|are) (told|said) (in|by|to be)\b", "see …; or name who says it"),
    Phrase(r"\bsome (two|three|four|five|ten|twenty|thirty|forty|fifty|hundred)\b", "about"),
    Phrase(
        r"\butili[sz]e[sd]?\b|\bin order to\b|\bprior to\b|\bsubsequent(ly)? to\b|\bdue to the fact\b",
        "use, to, before, after, because",
    ),
    Phrase(
        r"\b(is|are|was|were) (not )?(told|said)\b(?! to (end|leave|go|start|`))",
        "name who says it, and to whom",
    ),
    Phrase(r"\bgo(es)? on\b", "continue, resume or train on"),
    Phrase(r"\bwhat (becomes|became|comes|came) of\b", "the result of"),
    Phrase(r"\bfor ever\b|\ball the same\b", "forever, without end; anyway"),
    Phrase(r"\bbef[ae]l", "what happened to"),
    Phrase(r"<<<<<<<|>>>>>>>", "finish the merge"),
    Phrase(r"\b(simply|obviously|of course|just|easily)\b", "leave it out"),
)
_COMPILED: Final = tuple(
    (re.compile(one.pattern, re.IGNORECASE if not one.pattern.startswith("^") else 0), one.remedy)
    for one in PHRASES
)


@dataclass(frozen=True)
class Finding:
    """A sentence that breaks a rule."""

    place: str
    rule: str
    sentence: str

    def __str__(self) -> str:
        """Return a line: place, rule and the beginning of the sentence."""
        sentence = show_sentence(self.sentence)
        return f"{self.place}: {self.rule}: {sentence[:_SHOWN]}{'…' if len(sentence) > _SHOWN else ''}"


def findings(text: Text) -> Iterator[Finding]:
    """Yield the faults of the sentences of a text."""
    for place, sentence in text.sentences():
        count = words(sentence)
        if count > MOST_WORDS:
            yield Finding(place, f"{count} words, at most {MOST_WORDS}: make two sentences of it", sentence)
        for pattern, remedy in _COMPILED:
            found = pattern.search(sentence)
            if found:
                yield Finding(place, f"{show_sentence(found[0])!r}: {remedy}", sentence)
