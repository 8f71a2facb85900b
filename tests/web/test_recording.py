"""The recording of the status page: put together within its bounds, from what a browser really showed."""

import asyncio
import io
import sys

import pytest
from PIL import Image

from specon_tools.recording.__main__ import main
from specon_tools.recording.animation import animation
from specon_tools.recording.taking import running, take
from support.watching.watched import TOKEN, WatchedCluster, page_of, served


def picture(shade, size=(64, 48)):
    content = io.BytesIO()
    Image.effect_noise(size, 50).convert("RGB").save(content, format="PNG") if shade is None else Image.new(
        "RGB", size, (shade, 128, 0)
    ).save(content, format="PNG")
    return content.getvalue()


def frames_of(content):
    return Image.open(io.BytesIO(content)).n_frames


def test_pictures_become_an_animation_without_repetitions():
    """What did not change is shown once."""
    shown = animation([picture(0), picture(0), picture(100), picture(200)], milliseconds=100)
    assert frames_of(shown) == 3


def test_an_animation_that_is_too_large_has_fewer_pictures():
    """Every other one is left out until it fits; the first and the last stay."""
    pictures = [picture(None) for _ in range(32)]
    whole = len(animation(pictures, milliseconds=100))
    shown = animation(pictures, milliseconds=100, most_bytes=whole // 3)
    assert len(shown) <= whole // 3
    assert 2 <= frames_of(shown) < 32


@pytest.mark.parametrize(("pictures", "said"), [([], "no pictures"), ([picture(None)] * 1, "more than 10")])
def test_what_cannot_be_put_together_is_said(pictures, said):
    """In a sentence with the bound."""
    with pytest.raises(ValueError, match=said):
        animation(pictures, milliseconds=100, most_bytes=10)


def test_a_command_without_a_page_is_a_mistake():
    """What it printed instead is in the error."""
    command = [sys.executable, "-c", "print('no such policy')"]
    with (
        pytest.raises(ValueError, match=r"printed no link to a status page: no such policy"),
        running(command),
    ):
        raise AssertionError("it has no link")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--seconds=0"], "--seconds: must be more than 0, not 0"), ([], "there is no folder")],
)
def test_bad_arguments_are_named(tmp_path, capsys, arguments, said):
    """With their values, before anything is run."""
    with pytest.raises(SystemExit):
        main([str(tmp_path / "nowhere"), *arguments])
    assert said in capsys.readouterr().err


@pytest.mark.asyncio(loop_scope="module")
async def test_a_page_is_recorded_as_it_changes(browser):
    """One picture after another, until the time is over."""
    del browser  # it is there, or the test is skipped
    cluster = WatchedCluster()
    (a,) = cluster.run("a")
    cluster.learn(a)
    async with served(page_of(cluster)) as url:
        pictures = await asyncio.to_thread(take, f"{url}#token={TOKEN}", seconds=2.0, every=0.5)
    assert len(pictures.frames) >= 2
    assert Image.open(io.BytesIO(pictures.moving)).size == (1440, 860)
