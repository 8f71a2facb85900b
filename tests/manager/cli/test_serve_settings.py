"""What `specon serve` is told: flags and a file, every mistake named with its value."""

import argparse
from pathlib import Path

import pytest

from specon_manager.serving.serve_settings import (
    CLUSTER_DEFAULTS,
    ListenAddress,
    ServeSettings,
    add_arguments,
    read_serve_settings,
)
from specon_manager.usage import UsageError


def read(*arguments: str) -> ServeSettings:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return read_serve_settings(parser.parse_args(arguments))


def test_nothing_needs_to_be_given() -> None:
    """Without flags and file the defaults hold, with the longer deadlines of a cluster."""
    settings = read()
    assert settings.decisions == CLUSTER_DEFAULTS
    assert settings.listen == ListenAddress("0.0.0.0", 8443)
    assert settings.reports_listen == ListenAddress("0.0.0.0", 9443)
    assert settings.hold_room


def test_the_file_changes_single_fields(tmp_path: Path) -> None:
    """A field of the file leaves the cluster's defaults of its neighbours as they are."""
    path = tmp_path / "config.yaml"
    path.write_text("policy: specon\ndeadlines: {start: 20}\nsidecar: {image: 'mirror/sidecar:1'}\n")
    settings = read("--config", str(path))
    assert settings.decisions.policy == "specon"
    assert settings.decisions.deadlines.start == 20
    assert settings.decisions.deadlines.verify == CLUSTER_DEFAULTS.deadlines.verify
    assert settings.sidecar.image == "mirror/sidecar:1"


def test_an_empty_file_is_no_mistake(tmp_path: Path) -> None:
    """A configuration map without content means the defaults."""
    path = tmp_path / "config.yaml"
    path.write_text("# nothing yet\n")
    assert read("--config", str(path)).decisions == CLUSTER_DEFAULTS


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("polcy: specon", "polcy: is not known"),
        ("policy: nonsense", "nonsense"),
        ("policy: srpt", "bound for simulations"),
        ("deadlines: {start: -1}", "deadlines"),
        ("sidecar: {imge: x}", "sidecar"),
        ("hold_room: perhaps", "hold_room"),
        ("signals: [smoke]", "signals"),
        ("progress_seconds: 0", "progress_seconds"),
        ("- a list", "must be a mapping, not list"),
        ("a: [", "not YAML"),
    ],
)
def test_a_mistake_in_the_file_names_its_key(tmp_path: Path, content: str, words: str) -> None:
    """What cannot be used is refused with the name of its key."""
    path = tmp_path / "config.yaml"
    path.write_text(content)
    with pytest.raises(UsageError, match=words):
        read("--config", str(path))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--namespace", "Not A Name"], "--namespace: 'Not A Name'"),
        (["--watch-namespaces", "good,b@d"], "--watch-namespaces: 'b@d'"),
        (["--listen", "8443"], "--listen: '8443' is not HOST:PORT"),
        (["--reports-listen", ":99999"], "--reports-listen: ':99999' is not HOST:PORT"),
        (["--metrics-listen", "host:99999"], "--metrics-listen: 'host:99999'"),
        (["--reports-url", "http://plain"], "--reports-url: 'http://plain'"),
        (["--config", "/nowhere/config.yaml"], "--config: /nowhere/config.yaml"),
    ],
)
def test_a_mistake_in_a_flag_names_it(arguments: list[str], words: str) -> None:
    """A flag that cannot be used is refused with its name and its value."""
    with pytest.raises(UsageError) as caught:
        read(*arguments)
    assert words in str(caught.value)


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    """Nobody has to start the manager three times to learn of three mistakes."""
    path = tmp_path / "config.yaml"
    path.write_text("policy: nonsense\nhold_room: 7\n")
    with pytest.raises(UsageError) as caught:
        read("--config", str(path), "--listen", "nowhere")
    assert len(str(caught.value).splitlines()) == 3


def test_nothing_is_ordered_in_a_dry_run(tmp_path: Path) -> None:
    """By flag or in the file; the flag alone cannot take it back."""
    path = tmp_path / "config.yaml"
    path.write_text("dry_run: true\n")
    assert not read().decisions.dry_run
    assert read("--dry-run").decisions.dry_run
    assert read("--config", str(path)).decisions.dry_run


def test_jobs_do_not_starve_on_a_cluster_unless_that_is_wanted(tmp_path: Path) -> None:
    """Six hours where nothing is said, as in the chart; null: there is no bound."""
    path = tmp_path / "config.yaml"
    path.write_text("starvation: null\n")
    assert read().decisions.starvation == 6 * 3600
    assert read("--config", str(path)).decisions.starvation is None
    path.write_text("starvation: 0\n")
    with pytest.raises(UsageError, match="starvation"):
        read("--config", str(path))
