"""Bearer tokens: who may say what."""

import stat

import pytest

from specon_manager.runtime.tokens import Tokens, write_private

A, B = "default/a/worker/0", "default/b/worker/0"


@pytest.fixture
def tokens(tmp_path):
    return Tokens(tmp_path)


async def test_a_sidecar_speaks_for_its_incarnation_only(tokens):
    """Another replica's, another incarnation's and the owner's token are refused, and so is none."""
    mine = tokens.sidecar(A, "0001")
    assert await tokens.may_report(mine, A, "0001")
    assert not await tokens.may_report(tokens.sidecar(B, "0001"), A, "0001")
    assert not await tokens.may_report(tokens.sidecar(A, "0002"), A, "0001")
    assert not await tokens.may_report(tokens.owner, A, "0001")
    assert not await tokens.may_report("", A, "0001")
    assert not await tokens.is_owner(mine)
    assert await tokens.is_owner(tokens.owner)


@pytest.mark.parametrize("shown", ["", "é", "\udcff", "x" * 100_000, "0" * 64])
async def test_a_token_of_any_shape_is_only_refused(tokens, shown):
    """Headers may hold anything, even what is no text: the answer is no, and not an exception."""
    assert not await tokens.is_owner(shown)
    assert not await tokens.may_report(shown, A, "0001")
    assert not await tokens.may_report(shown, "\udcff", "\udcff")


async def test_tokens_outlive_the_manager(tmp_path):
    """Running sidecars keep the token that an earlier manager gave them."""
    first, second = Tokens(tmp_path), Tokens(tmp_path)
    assert first.owner == second.owner
    assert await second.may_report(first.sidecar(A, "0001"), A, "0001")


def test_two_directories_have_different_tokens(tmp_path):
    """The secret is drawn at random, once for each state directory."""
    assert Tokens(_made(tmp_path / "one")).owner != Tokens(_made(tmp_path / "two")).owner


@pytest.mark.parametrize("content", [b"", b"\n", b"short", b"\xff\xfe"])
def test_a_broken_key_is_never_a_guessable_one(tmp_path, content):
    """An empty or cut-off key would make every token computable: a new one is made."""
    broken = _made(tmp_path / "broken")
    (broken / "key").write_bytes(content)
    tokens = Tokens(broken)
    assert tokens.owner != Tokens(_made(tmp_path / "other")).owner
    assert Tokens(broken).owner == tokens.owner
    assert len((broken / "key").read_text().strip()) == 64


def test_only_their_owner_may_read_the_files(tokens, tmp_path):
    """Key and token are private, and nothing else is left behind."""
    assert sorted(file.name for file in tmp_path.iterdir()) == ["key", "token"]
    for file in tmp_path.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert tokens.owner_file.read_text() == tokens.owner


def test_a_private_file_is_replaced_whole(tmp_path):
    """What a reader sees is the old content or the new, with the same mode."""
    path = tmp_path / "file"
    path.write_text("old and readable by all")
    with path.open() as reader:
        write_private(path, "new")
        assert reader.read() == "old and readable by all"
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def _made(path):
    path.mkdir()
    return path
