"""`specon doctor`, and support bundles in place of a manager."""

import io
import json
import tarfile

import msgspec
import pytest

from specon_manager.__main__ import main
from specon_manager.cli.look.bundle import archive
from specon_manager.cli.remote.bundle_bounds import MOST_FILE_BYTES
from specon_manager.cli.remote.redaction import LEFT_OUT, drop_secrets


@pytest.fixture
def bundle(scene, tmp_path, monkeypatch):
    """Make a bundle of a manager that does not answer any more, with a job whose log is not read."""
    monkeypatch.chdir(tmp_path)
    name = scene.job()
    scene.running(name, metric=None, reported_at=1001.0, reason="no log at /data/train.log")
    state = drop_secrets(json.loads(msgspec.json.encode(scene.state)))
    state["jobs"]["default/mnist"]["spec"]["template"] = LEFT_OUT
    files = {
        "state.json": json.dumps(state).encode(),
        "versions.json": b'{"at": "1970-01-01T00:17:00+00:00", "specon": "0.1.0"}',
    }
    path = tmp_path / "b.tar.gz"
    path.write_bytes(archive(files))
    return path


def test_a_bundle_is_looked_at_like_a_manager(bundle, capsys):
    """Each looking command reads it; what was left out of it is as if it had never been said."""
    for words in (["top"], ["moves"], ["changes"], ["queue"], ["explain", "mnist", "--no-forecast"]):
        assert main([*words, "--bundle", str(bundle), "--output", "json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["manager"] == f"support bundle {bundle}"
    assert main(["explain", "mnist", "--bundle", str(bundle), "--state", "x"]) == 2
    assert "--bundle is read in place of a manager, and --state names one" in capsys.readouterr().err


def test_doctor_says_what_is_wrong_and_ends_with_1(bundle, capsys):
    """The findings with evidence and advice, for people and for programs."""
    assert main(["doctor", "mnist", "--bundle", str(bundle)]) == 1
    said = capsys.readouterr().out
    assert "1. versions differ" in said
    assert "2. mnist: its log is not read\n     no log at /data/train.log\n   > name the log" in said
    assert main(["doctor", "--bundle", str(bundle), "-o", "json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert [each["kind"] for each in told["findings"]] == ["versions", "log-not-read"]
    assert told["wrong"]


def test_where_no_manager_is_reached_that_is_the_finding(tmp_path, monkeypatch, capsys):
    """An installation without a manager is what one comes to the doctor with; a name that is wrong is not."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert main(["doctor"]) == 1
    assert "1. no manager is reached" in capsys.readouterr().out
    assert main(["doctor", "--state", "gone"]) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("jobs: []", "jobs: must be a list of at least one job"),
        ("policy: nobody\njobs: [{name: a, command: 'true'}]", "nobody"),
        ("jobs: [{name: a, command: 'no-such-program x'}]", "its program no-such-program is not found"),
        ("jobs: [{name: a, command: '{python} gone.py'}]", "its script gone.py is not there"),
        (
            "jobs: [{name: a, command: '{python} train.py'}]",
            "will not start without more arguments\n     --data",
        ),
        (
            "jobs: [{name: a, command: '{python} train.py --data x'}]",
            "train.py imports torch, and instrument is false",
        ),
        ("jobs: [{name: a, command: 'true', working_directory: gone}]", "working_directory is not there"),
        ("jobs: [{name: a, command: 'true', requests: {cpu: 9999}}]", "no node is large enough"),
    ],
)
def test_a_job_file_is_looked_at_before_it_is_run(tmp_path, monkeypatch, capsys, text, words):
    """What its reader refuses, and what this machine does not have."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import torch\np.add_argument('--data', required=True)\n")
    (tmp_path / "jobs.yaml").write_text(text)
    assert main(["doctor", "--file", "jobs.yaml"]) == 1
    assert words in capsys.readouterr().out


def test_a_job_file_with_nothing_wrong_ends_with_0(tmp_path, monkeypatch, capsys):
    """And says how far it looked."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.yaml").write_text("jobs: [{name: a, command: 'true'}]")
    assert main(["doctor", "--file", "jobs.yaml"]) == 0
    assert "nothing is wrong, as far as this machine shows" in capsys.readouterr().out


def hostile(kind):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        info = tarfile.TarInfo("specon-support/state.json")
        if kind == "huge":
            info.size = MOST_FILE_BYTES + 1
            tar.addfile(info, io.BytesIO(bytes(info.size)))
        if kind == "link":
            info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(info)
        if kind == "no-state":
            info.size = 7
            tar.addfile(info, io.BytesIO(b"[1,2,3]"))
        if kind == "many":
            for number in range(5000):
                tar.addfile(tarfile.TarInfo(f"specon-support/{number}"))
    return made.getvalue()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"no archive", "not a support bundle"),
        (hostile("huge"), "bytes are too many"),
        (hostile("no-state")[:60], "not a support bundle"),
        (hostile("link"), "no state of a manager is in it"),
        (hostile("no-state"), "of another version"),
        (hostile("many"), "more than 4096 files"),
    ],
)
def test_what_is_no_bundle_is_refused_in_a_sentence(tmp_path, capsys, content, words):
    """Bounded, nothing is unpacked, and no link is followed."""
    path = tmp_path / "x.tar.gz"
    path.write_bytes(content)
    assert main(["doctor", "--bundle", str(path)]) == 2
    assert words in capsys.readouterr().err
