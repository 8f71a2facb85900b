"""What annotations say, and with which words wrong ones are refused."""

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.backends.kube.objects import annotation_conflicts
from specon_manager.backends.kube.objects.annotation_conflicts import doubts
from specon_manager.backends.kube.objects.annotation_keys import WRITTEN_BY_US
from specon_manager.backends.kube.objects.annotation_mistakes import AnnotationError
from specon_manager.backends.kube.objects.annotation_reader import options_said, read_options
from specon_manager.backends.kube.objects.annotations import ANNOTATIONS, Options
from specon_sidecar.parse import CheckpointMode
from specon_tools.documentation.annotations import table
from support.kube.pods import annotated

CPU_SECONDS = 0.5
"""Ten times what it may take on an idle machine; unbounded it took seconds, or never came to an end."""


def mistakes_of(annotations):
    with pytest.raises(AnnotationError) as caught:
        read_options(annotations)
    return list(caught.value.mistakes)


def test_nothing_given_is_nothing_said():
    """Other people's annotations are none of ours."""
    assert read_options({}) == Options()
    assert read_options({"example.com/log-path": "x", "specon.ioX/y": "z"}) == Options()


def test_every_annotation_reaches_its_field():
    """Each line of the table fills the field of its name, with the value in its type."""
    read = read_options(
        annotated(
            container="trainer",
            log_path="/data/train.log",
            metric="val_loss",
            goal="max",
            interval="1.5m",
            remaining_gain="0.01",
            confidence="0.9",
            checkpoint="signal:SIGUSR1",
            checkpoint_path="/data/checkpoints",
            marker="{name}.done",
            **{"class": "trial"},
            grace_period="2h",
            min_workers="2",
            max_workers="8",
            utility="10",
            kind="bert large",
            queue="team-a",
            recreate="true",
            migrate="false",
            heartbeat="30",
        )
    )
    assert read == Options(
        inject=True,
        container="trainer",
        log_path="/data/train.log",
        metric="val_loss",
        goal="max",
        interval=90.0,
        remaining_gain=0.01,
        confidence=0.9,
        checkpoint=CheckpointMode("signal", "USR1"),
        checkpoint_path="/data/checkpoints",
        marker="{name}.done",
        job_class="trial",
        grace_period=7200.0,
        min_workers=2,
        max_workers=8,
        utility=10.0,
        kind="bert large",
        queue="team-a",
        recreate=True,
        migrate=False,
        heartbeat=30.0,
    )


@pytest.mark.parametrize("one", ANNOTATIONS, ids=lambda one: one.name)
def test_each_example_is_right(one):
    """What the documentation shows as an example is read, in the company that it needs."""
    company = {
        "pattern": {"format": "regular-expression"},
        "alpha": {"classifier": "specon"},
        "share": {"gpu-memory": "20Gi"},
        "gpu-memory": {"share": "time"},
    }
    read = read_options(annotated(**company.get(one.name, {}), **{one.name: one.example}))
    assert getattr(read, one.field) is not None


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("inject", "yes", "specon.io/inject: 'yes' is not one of true, false"),
        ("log-path", "train.log", "specon.io/log-path: 'train.log' is not an absolute path"),
        ("log-path", "/data/../etc/x", "specon.io/log-path: '/data/../etc/x' has a part . or .."),
        ("interval", "soon", "specon.io/interval: 'soon' is not a duration such as 90, 90s, 1.5m or 2h"),
        ("heartbeat", "2h", "specon.io/heartbeat: '2h' is not between 0.1 and 3600 seconds"),
        ("confidence", "nan", "specon.io/confidence: 'nan' is not between 0.01 and 0.999"),
        ("checkpoint", "signal:KILL", "specon.io/checkpoint: 'signal:KILL' is not one of USR1, USR2, HUP"),
        ("checkpoint", "http://other.host/save", "specon.io/checkpoint: 'http://other.host/save' is not on"),
        ("min-workers", "0", "specon.io/min-workers: '0' is not between 1 and 100000"),
        ("queue", "Team A", "specon.io/queue: 'Team A' is not 1 to 63 lower-case letters, digits or -"),
        ("kind", "b" * 254, f"specon.io/kind: '{'b' * 80}…' is longer than 253 characters"),
        ("kind", "b\nc", "specon.io/kind: 'b\\nc' has a line break or another character"),
        ("format", "keras9", "specon.io/format, specon.io/pattern: format 'keras9' is unknown"),
        ("logpath", "/x", "specon.io/logpath: is not known; did you mean specon.io/log-path?"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named(name, value, said):
    """The mistake names the annotation and the value, and says what would be right."""
    (mistake,) = mistakes_of(annotated(**{name: value}))
    assert mistake.startswith(said)


def test_all_mistakes_are_named_at_once():
    """Nobody has to try again for each."""
    found = mistakes_of({"specon.io/goal": "up", "specon.io/alpha": "2", "specon.io/whatever": ""})
    assert [mistake.partition(":")[0] for mistake in found] == [
        "specon.io/alpha",
        "specon.io/goal",
        "specon.io/whatever",
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"min_workers": "5", "max_workers": "2"},
            "specon.io/min-workers: 5 is more than specon.io/max-workers, 2",
        ),
        ({"alpha": "0.1"}, "specon.io/alpha: is for specon.io/classifier: specon, and it is horizon"),
        (
            {"classifier": "specon", "confidence": "0.9"},
            "specon.io/confidence: is for specon.io/classifier: horizon, and it is specon",
        ),
        (
            {"confidence": "0.99"},
            "specon.io/confidence, specon.io/remaining-gain: 0.99 is never reached",
        ),
        (
            {"format": "csv", "pattern": "x"},
            "specon.io/format, specon.io/pattern: pattern 'x' is for the format",
        ),
    ],
)
def test_contradictions_are_named(options, said):
    """What is right alone but without effect together is refused."""
    (mistake,) = mistakes_of(annotated(**options))
    assert mistake.startswith(said)


def test_our_own_annotations_are_no_mistake():
    """A pod that is created anew from its manifest brings them."""
    assert read_options(dict.fromkeys(WRITTEN_BY_US, "anything")) == Options()


def test_the_table_of_the_documentation_has_them_all():
    """One line for each, and as many columns in each."""
    lines = table().splitlines()
    assert len(lines) == len(ANNOTATIONS) + 2
    for one, line in zip(ANNOTATIONS, lines[2:], strict=True):
        assert line.startswith(f"| `{one.key}` |")
        assert line.replace("\\|", "").count("|") == 5


@given(st.dictionaries(st.sampled_from([one.key for one in ANNOTATIONS]), st.text(max_size=200)))
def test_any_text_is_read_or_refused(annotations):
    """No value whatever ends in another error, and each mistake is short enough to be shown."""
    mistakes = []
    with contextlib.suppress(AnnotationError):
        try:
            read_options(annotations)
        except AnnotationError as error:
            mistakes += error.mistakes
            raise
    assert all(mistake.startswith("specon.io/") and len(mistake) < 2000 for mistake in mistakes)
    assert len(mistakes) <= len(annotations)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, None),
        ({"class": "trial", "queue": "team-a"}, None),
        ({"class": "best-effort"}, None),
        ({"min-workers": "2", "max-workers": "4"}, None),
        ({"max-workers": "4", "checkpoint": "sigterm"}, None),
        (
            {"class": "trial"},
            (
                "specon.io/class: room is made for a trial while it waits, and without specon.io/queue it is "
                "not held"
            ),
        ),
        (
            {"min-workers": "2", "max-workers": "4", "checkpoint": "none"},
            (
                "specon.io/min-workers, specon.io/max-workers: the number of workers changes only after a "
                "verified checkpoint, and specon.io/checkpoint is none"
            ),
        ),
    ],
)
def test_what_is_allowed_and_does_nothing_is_doubted(options, said):
    """In words for a warning: nothing is refused that trains as it stands."""
    found = doubts(read_options({f"specon.io/{name}": value for name, value in options.items()}))
    assert found == ([] if said is None else [said])


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        ({f"specon.io/{index:06d}": "" for index in range(80_000)}, "specon.io/*: there are 80000"),
        ({"specon.io/pattern": "a" * 2_900_000}, "specon.io/pattern: 'aaa"),
        ({"specon.io/log-path": "/" + "a" * 4096}, "specon.io/log-path: '/aaa"),
        (dict.fromkeys(("specon.io/format", "specon.io/metric", "specon.io/marker", "specon.io/container",
                        "specon.io/queue"), "a" * 4000), "specon.io/*: these annotations have 20"),
        ({"specon.io/" + "k" * 5000: ""}, "specon.io/kkk"),
        ({"specon.io/queue": 7}, "specon.io/queue: is no text, but int"),
        ({"specon.io/queue": {"a": "b"}}, "specon.io/queue: is no text, but dict"),
    ],
)  # fmt: skip
def test_too_much_is_refused_before_it_is_looked_at(annotations, said):
    """Number, length and form come first, and what is said of them is short."""
    began = time.thread_time()
    (mistake,) = mistakes_of(annotations)
    assert time.thread_time() - began < CPU_SECONDS
    assert mistake.startswith(said)
    assert len(mistake) < 2000


def test_ten_mistakes_are_named_at_most():
    """The owner of a pod reads no more of them, and for each unknown one a similar one is looked for."""
    *named, rest = mistakes_of({f"specon.io/log-pa{index}": "" for index in range(30)})
    assert len(named) == 10
    assert all("did you mean specon.io/log-path?" in mistake for mistake in named)
    assert rest == "specon.io/*: further annotations were not checked"


@pytest.mark.parametrize(
    "pattern",
    [
        "(?P<value>a{99999999999})",
        "(?P<value>x)" + "(" * 200 + ")" * 200,
        "(?P<value>x)" + "(?:" * 90 + "a" + ")?" * 90,
        "(?P<value>x)" + "a?" * 200,
        "(?i)(?P<value>x)" + "[\0-\uffff]" * 90,
        "(?P<value>x)" + "()" * 100,
        "(?P<value>\ud800)",
        "(?P<value>x)" + "\\b" * 100 + "(((((((((",
    ],
)
def test_a_pattern_that_is_dear_to_judge_is_refused_at_once(pattern):
    """Whatever judging it would raise, and however long that would take."""
    began = time.thread_time()
    (mistake,) = mistakes_of({"specon.io/pattern": pattern})
    assert time.thread_time() - began < CPU_SECONDS
    assert "specon.io/pattern: " in mistake


@pytest.mark.parametrize("error", [OverflowError("too large"), RecursionError("too deep"), TypeError("odd")])
def test_whatever_a_reader_raises_is_a_mistake_of_the_text(monkeypatch, error):
    """It names the annotation, and what was raised."""

    def raising(*_):
        raise error

    monkeypatch.setattr(annotation_conflicts, "make_reader", raising)
    pattern = f"(?P<value>never seen before {error})"
    (mistake,) = mistakes_of(annotated(pattern=pattern))
    assert mistake.startswith("specon.io/format, specon.io/pattern: cannot be read: ")
    assert type(error).__name__ in mistake


def test_what_cannot_be_read_says_nothing():
    """No webhook saw this object; all that is known is that its owner may not want it moved."""
    for odd in ({"specon.io/pattern": "(?P<value>a{99999999999})"}, {"specon.io/queue": 7}, {7: "x"}):
        said = options_said({"specon.io/inject": "true", **odd})
        assert said in (Options(migrate=False), Options(inject=True))


def test_turns_on_a_gpu_need_its_memory_and_exclude_what_lends_processors():
    """Jobs have to fit a GPU together; and one way to give way is enough."""
    options = read_options(annotated(share="time", gpu_memory="20Gi"))
    assert (options.share, options.gpu_memory) == ("time", 20 * 2.0**30)
    assert mistakes_of(annotated(share="time")) == [
        "specon.io/share: needs specon.io/gpu-memory, for jobs have to fit a GPU's memory together"
    ]
    assert mistakes_of(annotated(gpu_memory="1Gi")) == ["specon.io/gpu-memory: is for specon.io/share: time"]
    assert mistakes_of(annotated(share="time", gpu_memory="1Gi", min_cpu="1")) == [
        "specon.io/min-cpu: lends processors, and specon.io/share takes turns: one of both"
    ]


@pytest.mark.parametrize("given", ["", "-1Gi", "1", "20 GB", "9e99", "Gi"])
def test_what_is_no_amount_of_memory_is_refused(given):
    """With the annotation and the value."""
    [mistake] = mistakes_of(annotated(share="time", gpu_memory=given))
    assert (
        mistake == f"specon.io/gpu-memory: {given!r} is not an amount of memory from 1Mi to 1Pi, such as 20Gi"
    )
