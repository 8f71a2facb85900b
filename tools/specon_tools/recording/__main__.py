"""`python -m specon_tools.recording docs/images`: record the status page while `specon demo` runs."""

import argparse
import sys
from pathlib import Path

from specon_tools.recording.animation import animation
from specon_tools.recording.taking import running, take, write


def main(arguments: list[str] | None = None) -> int:
    """Write the recording and two pictures of the same run; 1 where that is not possible."""
    parser = argparse.ArgumentParser(prog="python -m specon_tools.recording", description=__doc__)
    parser.add_argument("directory", type=Path, help="where status-page.webp and two PNG go")
    parser.add_argument("--seconds", type=float, default=150.0, help="for how long to look (150)")
    parser.add_argument("--every", type=float, default=1.5, help="seconds between two pictures (1.5)")
    parser.add_argument("--speed", type=float, default=6.0, help="so many times faster than it was (6)")
    parser.add_argument(
        "demo",
        nargs="*",
        default=["--policy", "specon"],
        help="what `specon demo` is given, after `--` (--policy specon: it moves whatever has converged)",
    )
    given = parser.parse_args(arguments)
    for name in ("seconds", "every", "speed"):
        if not getattr(given, name) > 0:
            parser.error(f"--{name}: must be more than 0, not {getattr(given, name):g}")
    if not given.directory.is_dir():
        parser.error(f"directory: there is no folder {given.directory}")
    command = [sys.executable, "-m", "specon_manager", "demo", "--web", "--plain", *given.demo]
    try:
        with running(command) as link:
            pictures = take(link, seconds=given.seconds, every=given.every)
        recorded = animation(pictures.frames, milliseconds=round(1000 * given.every / given.speed))
    except (ValueError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    write(given.directory, "status-page.webp", recorded)
    write(given.directory, "status-page.png", pictures.moving)
    write(given.directory, "status-page-dark.png", pictures.opened)
    return 0


if __name__ == "__main__":
    sys.exit(main())
