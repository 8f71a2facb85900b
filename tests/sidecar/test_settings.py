import pytest

from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.parse import CheckpointMode
from specon_sidecar.settings import Settings, SettingsError, read_settings


def mistakes(*arguments, **environment):
    with pytest.raises(SettingsError) as caught:
        read_settings(arguments, environment)
    return caught.value.mistakes


def test_defaults_are_those_promised():
    """What the documentation promises without any option but the log."""
    settings = read_settings(["--log", "/l"], {})
    assert settings == Settings(log="/l")
    assert (settings.classifier.alpha, settings.classifier.interval) == (0.01, 30.0)
    assert (settings.classifier.classifier, settings.classifier.goal) == ("horizon", None)
    assert (settings.heartbeat, settings.settle, settings.metrics_port) == (10.0, 0.5, None)
    assert settings.checkpoint == CheckpointMode("periodic")
    assert (settings.manager, settings.fresh_from, settings.once) == (None, 0, False)


def test_flags_win_over_the_environment():
    """A flag is nearer to the user than a variable; an empty variable counts as not given."""
    environment = {"SPECON_LOG": "/a", "SPECON_ALPHA": "0.5", "SPECON_STATE_FILE": ""}
    settings = read_settings(["--log=/b", "--interval", "5"], environment)
    assert (settings.log, settings.classifier.alpha, settings.classifier.interval) == ("/b", 0.5, 5.0)
    assert settings.state_file is None


def test_all_mistakes_are_reported_at_once():
    """Each names its field and its value."""
    found = mistakes("--alpha", "2", "--settle", "soon", "--nonsense", SPECON_GOAL="best")
    assert len(found) == 5
    for expected in (
        "--alpha: '2'",
        "--settle: 'soon'",
        "--nonsense",
        "SPECON_GOAL: 'best'",
        "--log: is missing",
    ):
        assert any(mistake.startswith(expected) for mistake in found), expected


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--watch", "magic"),
        ("--manager", "ftp://host"),
        ("--manager", "http://user:pass@host"),
        ("--manager", "http://host:port"),
        ("--replica", "job/0"),
        ("--incarnation", "a b"),
        ("--token-file", "relative"),
        ("--checkpoint", "sometimes"),
        ("--checkpoint", "file:relative"),
        ("--checkpoint", "signal:KILL"),
        ("--checkpoint", "signal:TERM"),
        ("--checkpoint", "sigterm:now"),
        ("--checkpoint", "http://elsewhere.example/save"),
        ("--marker", "a/b"),
        ("--trainer-pid", "1"),
        ("--fresh-from", "-1"),
        ("--metrics-port", "70000"),
        ("--literal", "yes"),
        ("--interval", "nan"),
        ("--alpha", "1"),
    ],
)
def test_values_out_of_bounds_are_refused(flag, value):
    """A wrong value is told by its flag, before anything is started."""
    assert [mistake.split(":")[0] for mistake in mistakes("--log", "/l", f"{flag}={value}")] == [flag]


def test_unknown_formats_and_patterns_are_refused():
    """The format must be in the table, and a pattern must fit it."""
    assert "nonsense" in mistakes("--log", "/l", "--format", "nonsense")[0]
    assert "pattern" in mistakes("--log", "/l", "--pattern", "(")[0]


def test_settings_that_need_each_other():
    """A manager needs to know who reports, a signal needs a process."""
    assert [one.split(":")[0] for one in mistakes("--log", "/l", "--manager", "http://m")] == [
        "--replica",
        "--incarnation",
    ]
    assert "--trainer-pid" in mistakes("--log", "/l", "--checkpoint", "signal:USR1")[0]


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("periodic", CheckpointMode("periodic")),
        ("file:/run/save", CheckpointMode("file", "/run/save")),
        ("http:http://localhost:8000/save", CheckpointMode("http", "http://localhost:8000/save")),
        ("http://127.0.0.1:8000/save", CheckpointMode("http", "http://127.0.0.1:8000/save")),
        ("sigterm", CheckpointMode("sigterm")),
        ("none", CheckpointMode("none")),
    ],
)
def test_checkpoint_modes(text, mode):
    """Every declared way to a checkpoint is understood."""
    assert read_settings(["--log", "/l", "--checkpoint", text], {}).checkpoint == mode


def test_signal_mode_with_and_without_its_prefix():
    """USR1 and SIGUSR1 are the same signal."""
    for name in ("USR1", "SIGUSR1"):
        arguments = ["--log", "/l", "--trainer-pid", "77", "--checkpoint", f"signal:{name}"]
        assert read_settings(arguments, {}).checkpoint == CheckpointMode("signal", "USR1")


def test_help_names_every_option(capsys):
    """`--help` ends with 0 and tells the variables."""
    with pytest.raises(SystemExit) as end:
        read_settings(["--help"], {})
    assert end.value.code == 0
    told = capsys.readouterr().out
    assert all(flag in told for flag in ("--log", "--checkpoint-path", "--alpha", "--once", "SPECON_LOG"))


def test_the_classifier_horizon_has_its_own_settings():
    """The flags of `horizon` are read; SpeCon's literal reading contradicts it."""
    flags = ["--log", "/log", "--classifier", "horizon", "--remaining-gain", "0.05", "--confidence", "0.8"]
    classifier = read_settings(flags, {}).classifier
    assert (classifier.classifier, classifier.remaining_gain, classifier.confidence) == ("horizon", 0.05, 0.8)
    with pytest.raises(SettingsError, match="--literal"):
        read_settings([*flags, "--literal", "true"], {})


def test_settings_of_horizon_that_could_never_be_met_are_refused():
    """Both flags are named with what can be reached; the classifier of the paper does not ask for them."""
    flags = ["--log", "/log", "--remaining-gain", "0.001"]
    with pytest.raises(
        SettingsError, match=r"--confidence, --remaining-gain: 0\.7 is never reached .* 0\.001"
    ):
        read_settings(flags, {})
    with pytest.raises(
        SettingsError, match=r"0\.99 is never reached with a remaining gain of 0\.02, 0\.978 at"
    ):
        read_settings(["--log", "/log"], {"SPECON_CONFIDENCE": "0.99"})
    assert read_settings([*flags, "--classifier", "specon"], {}).classifier.classifier == "specon"


def test_literal_implies_specon():
    """The algorithm as printed is SpeCon's, without saying so twice."""
    classifier = read_settings(["--log", "/log"], {"SPECON_LITERAL": "true"}).classifier
    assert (classifier.literal, classifier.classifier) == (True, "specon")


def test_a_goal_that_is_given_reaches_the_reader():
    """The reader is told the goal only where its owner gave one."""
    assert read_settings(["--log", "/log"], {}).format_options == FormatOptions()
    settings = read_settings(["--log", "/log", "--goal", "max", "--metric", "x"], {})
    assert settings.format_options == FormatOptions(metric="x", goal="max")


def test_volumes_are_named_one_by_one():
    """A flag for each, whatever is in its name; `none` is no volume, and that is not the same as no flag."""
    given = ["--log", "/log", "--volume", "/a,b:c", "--volume=/d"]
    assert read_settings(given, {}).volume == ("/a,b:c", "/d")
    assert read_settings(["--log", "/log", "--volume=none"], {}).volume == ()
    assert read_settings(["--log", "/log"], {"SPECON_VOLUME": "/e"}).volume == ("/e",)
    assert read_settings(["--log", "/log"], {}).volume is None
    with pytest.raises(SettingsError, match=r"--volume: .* is not an absolute path"):
        read_settings([*given, "--volume", "f"], {})


def test_turns_need_a_manager_and_a_trainer():
    """Somebody has to say when, and somebody is to be stopped."""
    assert mistakes("--log", "/l", "--share", "time", "--trainer-pid", "7")[0].startswith("--share: 'time'")
    assert mistakes("--log", "/l", "--share", "weights")[0].startswith("--share: 'weights'")
