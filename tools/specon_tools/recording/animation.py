"""Pictures put together as an animated WebP of a bounded size: it takes a fifth of a GIF, in all colours."""

import io
from collections.abc import Sequence
from typing import Final

from PIL import Image

MOST_BYTES: Final = 2_000_000
_WIDTH: Final = 1200  # pixels, at most
_QUALITY: Final = 80
_FEWEST: Final = 4
_LAST_MILLISECONDS: Final = 3000  # the last picture stays, so that people can read it


def animation(pictures: Sequence[bytes], *, milliseconds: int, most_bytes: int = MOST_BYTES) -> bytes:
    """Return PNG pictures as an animation that shows each for so many milliseconds.

    Every other picture is left out until the animation fits, and the others are shown for longer. Raises
    ValueError where it never fits, or where there are no pictures.
    """
    frames = _without_repetitions([_fit(picture) for picture in pictures])
    if not frames:
        raise ValueError("there are no pictures to put together")
    while True:
        content = _encode(frames, milliseconds)
        if len(content) <= most_bytes:
            return content
        if len(frames) <= _FEWEST:
            raise ValueError(f"{len(frames)} pictures take {len(content)} bytes, more than {most_bytes}")
        frames, milliseconds = [*frames[:-1:2], frames[-1]], 2 * milliseconds


def _fit(picture: bytes) -> Image.Image:
    frame = Image.open(io.BytesIO(picture)).convert("RGB")
    if frame.width <= _WIDTH:
        return frame
    size = (_WIDTH, frame.height * _WIDTH // frame.width)
    return frame.resize(size, Image.Resampling.LANCZOS)


def _without_repetitions(frames: Sequence[Image.Image]) -> list[Image.Image]:
    kept: list[Image.Image] = []
    for frame in frames:
        if not kept or frame.tobytes() != kept[-1].tobytes():
            kept.append(frame)
    return kept


def _encode(frames: Sequence[Image.Image], milliseconds: int) -> bytes:
    content = io.BytesIO()
    durations = [milliseconds] * (len(frames) - 1) + [_LAST_MILLISECONDS]
    frames[0].save(
        content,
        format="WEBP",
        save_all=True,
        append_images=frames[1:],
        duration=durations,
        loop=0,
        quality=_QUALITY,
        method=4,
    )
    return content.getvalue()
