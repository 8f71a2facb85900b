"""The trainer's helper, copied for a trainer of any user."""

import pytest

from specon_sidecar import __main__ as command
from specon_sidecar import copy_helper


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Give an installation with a helper of two files, and with what is none of it."""
    monkeypatch.setattr(copy_helper, "__file__", str(tmp_path / "a" / "b" / "c.py"))  # no checkout
    monkeypatch.setattr(copy_helper.sys, "prefix", str(tmp_path / "prefix"))
    place = tmp_path / "prefix" / "share" / "specon" / "trainer"
    (place / "specon" / "__pycache__").mkdir(parents=True)
    (place / "specon" / "__init__.py").write_text("helper = True\n")
    (place / "specon" / "__pycache__" / "x.pyc").write_text("")
    (place / "sitecustomize.py").write_text("first = True\n")
    (place / "sitecustomize.py").chmod(0o600)
    return place


def test_every_user_may_read_the_copy(installed, tmp_path):
    """Whatever the modes were; once more over an earlier copy, as after a restart of the pod's sandbox."""
    target = tmp_path / "volume" / "python"
    for _ in range(2):
        copy_helper.copy_helper(target)
        found = {str(one.relative_to(target)): one.stat().st_mode & 0o777 for one in target.rglob("*")}
        assert found == {"sitecustomize.py": 0o644, "specon": 0o755, "specon/__init__.py": 0o644}
        assert (target / "sitecustomize.py").read_text() == "first = True\n"
    assert copy_helper.helper_folder() == installed


@pytest.mark.parametrize(("arguments", "code"), [([], 2), (["/proc/none"], 1)])
@pytest.mark.usefixtures("installed")
def test_what_cannot_be_copied_is_said(monkeypatch, capsys, arguments, code):
    """On one line, with a status that fails the pod."""
    monkeypatch.setattr(command.sys, "argv", ["specon-sidecar", "copy-helper", *arguments])
    assert command.main() == code
    error = capsys.readouterr().err
    assert error.startswith("specon-sidecar: copy-helper: ")
    assert error.count("\n") == 1


def test_an_installation_without_the_helper_says_where_it_looked(monkeypatch, tmp_path):
    """It is for a user who builds an image."""
    monkeypatch.setattr(copy_helper.sys, "prefix", str(tmp_path))
    monkeypatch.setattr(copy_helper.site, "getuserbase", lambda: str(tmp_path))
    monkeypatch.setattr(copy_helper, "__file__", str(tmp_path / "a" / "b" / "c.py"))
    with pytest.raises(FileNotFoundError, match="is in none of"):
        copy_helper.helper_folder()
