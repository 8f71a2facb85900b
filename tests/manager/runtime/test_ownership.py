"""Whose state directory is trusted: ours alone, in a place where nobody can exchange it."""

import os

import pytest

from specon_manager.runtime import ownership
from specon_manager.runtime.ownership import NotOursError, check_ours, check_private
from specon_manager.runtime.state_directory import StateDirectory, address_and_token
from specon_manager.runtime.tokens import Tokens

STRANGER = 54321
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away: run as root")


@pytest.fixture
def state(tmp_path):
    """Give the directory of a manager that was here."""
    directory = tmp_path / "jobs.specon"
    held = StateDirectory(directory)
    Tokens(directory)
    held.publish("127.0.0.1", 1)
    (directory / "replicas").mkdir(mode=0o700)
    held.release()
    return directory


def as_somebody_else(monkeypatch):
    """Be a user who owns nothing here."""
    monkeypatch.setattr(ownership.os, "geteuid", lambda: STRANGER)


def everybody_asks(directory):
    """Return what a manager and a client say of a directory: both refuse it with the same words."""
    refusals = []
    for ask in (StateDirectory, address_and_token):
        with pytest.raises(NotOursError) as caught:
            ask(directory)
        refusals.append(str(caught.value))
    assert refusals[0] == refusals[1]
    return refusals[0]


def test_a_directory_of_ours_is_used(state):
    """Again and again, and by clients."""
    StateDirectory(state).release()
    found = address_and_token(state)
    assert found is not None
    assert found[1] == (state / "token").read_text()


def test_a_directory_of_somebody_else_is_refused(state, monkeypatch):
    """Its maker chose its key and its journal, and so the commands; path, owner and mode are checked."""
    as_somebody_else(monkeypatch)
    said = everybody_asks(state)
    assert said.startswith(f"{state} (owner ")
    assert "mode 0700): it does not belong to 54321" in said


@pytest.mark.parametrize("name", ["", "replicas", "key", "manager.json"])
def test_what_others_may_write_is_refused(state, name):
    """The directory itself, and whatever is in it."""
    (state / name).chmod(0o777)
    said = everybody_asks(state)
    assert said.startswith(f"{state / name} (owner ".replace("/ (", " ("))
    assert f"mode 0777): others may write it: chmod go-w {state / name}".rstrip("/") in said


@as_root
@pytest.mark.parametrize("name", ["key", "manager.lock", "replicas"])
def test_what_somebody_else_put_into_it_is_refused(state, name):
    """It was put there while the directory was open to others."""
    os.chown(state / name, STRANGER, STRANGER)
    assert f"{state / name} (owner 54321, mode 0" in everybody_asks(state)


def test_a_directory_that_others_can_exchange_is_refused(state):
    """In a directory where everybody may rename everything, ours is what somebody else makes it."""
    state.parent.chmod(0o777)
    said = everybody_asks(state)
    assert said.startswith(f"{state.parent} (owner ")
    assert f"others may put something else in place of {state}" in said


def test_a_sticky_directory_is_as_good_as_one_of_ours(state):
    """As /tmp is: only its owner can rename what is in it."""
    state.parent.chmod(0o1777)
    StateDirectory(state).release()


@as_root
def test_a_directory_in_one_of_somebody_else_is_refused(state):
    """Its owner can exchange it, sticky or not."""
    for mode in (0o755, 0o1777):
        state.parent.chmod(mode)
        os.chown(state.parent, STRANGER, STRANGER)
        assert f"{state} lies in a directory of another user" in everybody_asks(state)


def test_a_link_of_ours_is_followed(state, tmp_path):
    """And what it leads to is looked at as if it had been named."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "link").symlink_to("../jobs.specon")
    StateDirectory(tmp_path / "work" / "link").release()
    StateDirectory(tmp_path / "work" / ".." / "work" / "link").release()
    state.chmod(0o777)
    assert everybody_asks(tmp_path / "work" / "link").startswith(f"{state} (")


@as_root
def test_a_link_of_somebody_else_is_not_followed(state, tmp_path):
    """It would have us write where they like."""
    link = tmp_path / "link"
    link.symlink_to(state)
    os.lchown(link, STRANGER, STRANGER)
    assert everybody_asks(link).startswith(f"{link} (owner 54321")


def test_a_link_that_others_can_exchange_is_not_followed(state, tmp_path):
    """Whatever it leads to now."""
    place = tmp_path / "open"
    place.mkdir()
    (place / "link").symlink_to(state)
    place.chmod(0o777)
    assert f"{place} (owner " in everybody_asks(place / "link")


def test_links_in_a_circle_end(tmp_path):
    """The operating system's words."""
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels"):
        check_ours(tmp_path / "a")


def test_a_group_of_others_may_not_write_and_one_of_ours_may(state, monkeypatch):
    """Many systems give each user a group, and let it write everything: nobody else is in it."""
    state.chmod(0o770)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ownership.grp, "getgrgid", lambda _: _Group("users", ["eve"]))
        assert "others may write it" in everybody_asks(state)
    monkeypatch.setattr(ownership.pwd, "getpwuid", lambda _: _User("me"))
    for members in ([], ["me"]):
        monkeypatch.setattr(ownership.grp, "getgrgid", lambda _, members=members: _Group("me", members))
        StateDirectory(state).release()
    monkeypatch.setattr(ownership.grp, "getgrgid", lambda _: _Group("me", ["me", "eve"]))
    assert "others may write it" in everybody_asks(state)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
@pytest.mark.parametrize("name", ["key", "token"])
def test_a_key_that_others_may_read_is_refused(state, name, mode):
    """A holder of the key may submit jobs."""
    (state / name).chmod(mode)
    with pytest.raises(NotOursError, match=f"{name} .*others may read this key: chmod 600"):
        Tokens(state) if name == "key" else address_and_token(state)


def test_a_key_is_a_file(state):
    """A link would be somebody's file elsewhere."""
    (state / "key").rename(state / "other")
    (state / "key").symlink_to("other")
    with pytest.raises(NotOursError, match="a key is a regular file"):
        check_private(state / "key")


class _Group:
    def __init__(self, name, members):
        self.gr_name, self.gr_mem = name, members


class _User:
    def __init__(self, name):
        self.pw_name = name
