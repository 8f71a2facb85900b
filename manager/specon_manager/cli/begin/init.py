"""`specon init`: looks at a folder, a script or a manifest, and writes the job file or the annotations.

Nothing is executed. A doubtful line is written as a comment, and each line is accepted by the code that
reads it later: the reader of job files, or admission.
"""

import argparse
import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

from msgspec import Struct

from specon_manager.cli.begin.folder import Folder, look
from specon_manager.cli.begin.job_file import job_of, text_of
from specon_manager.cli.begin.line import ProposedLine
from specon_manager.cli.begin.manifest import annotate, read_manifest, templates_of
from specon_manager.cli.output import add_output, to_json
from specon_manager.usage import UsageError
from specon_manager.views.names import printable
from specon_sidecar.counts import format_count

_JOBS: Final = "jobs.yaml"
_STDOUT: Final = "-"
_ASKS: Final = re.compile(r"\b(?:FILL IN|ADD ITS ARGUMENTS)\b")


class Written(Struct, frozen=True, kw_only=True):
    """What `specon init --output json` prints."""

    file: str | None
    """None: it was written to standard output, as `text`."""
    text: str
    lines: tuple[ProposedLine, ...]
    remarks: tuple[str, ...]
    """What nobody can see from here, and lines that were left out since their reader refuses them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "path",
        type=Path,
        nargs="?",
        default=Path(),
        metavar="PATH",
        help="folder with scripts, a script, or a manifest (default: here)",
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        help=f"where to; - is standard output (default: {_JOBS}, for a manifest standard output)",
    )
    parser.add_argument("--force", action="store_true", help="overwrite the file")
    add_output(parser)


def main(arguments: argparse.Namespace) -> int:
    """Look and write; 0, or UsageError for what cannot be read or would be overwritten."""
    path: Path = arguments.path
    if not path.exists():
        raise UsageError(f"{path}: there is no such file or folder")
    if path.suffix in {".yaml", ".yml", ".json"}:
        written, out = _manifest(path), arguments.out or _STDOUT
    elif path.is_dir() or path.suffix == ".py":
        written, out = _job(path), arguments.out or _JOBS
    else:
        raise UsageError(
            f"{path}: neither a folder, a script (.py) nor a manifest (.yaml); specon classify reads logs"
        )
    if out != _STDOUT:
        _write(Path(out), written.text, force=arguments.force)
        written = Written(file=out, text=written.text, lines=written.lines, remarks=written.remarks)
    _say(written, arguments)
    return 0


def _job(path: Path) -> Written:
    folder = path if path.is_dir() else path.parent
    found = look(folder.resolve())
    script = None if path.is_dir() else path.name
    python = "python" if shutil.which("python") else "python3"
    job, remarks = job_of(found, script, python=python, here=str(Path.cwd()))
    return Written(file=None, text=text_of(job, remarks), lines=job.lines, remarks=(*remarks, *job.refused))


def _manifest(path: Path) -> Written:
    text = read_manifest(path)
    templates = templates_of(path, text, _beside(path))
    remarks = tuple(
        f"{each.place}: {note}" for each in templates for note in (*each.remarks, *each.found.refused)
    )
    lines = tuple(line for each in templates for line in each.found.lines)
    return Written(file=None, text=annotate(text, templates), lines=lines, remarks=remarks)


def _beside(path: Path) -> Folder | None:
    """Return what lies beside a manifest; None where that cannot be looked at."""
    try:
        return look(path.resolve().parent)
    except UsageError:
        return None


def _write(path: Path, text: str, *, force: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if force else os.O_EXCL)
    try:
        descriptor = os.open(path, flags, 0o644)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise UsageError(
            f"--out: {path} is there already: --force overwrites it, --out names another file"
        ) from error
    except OSError as error:
        raise UsageError(f"--out: {path}: {error.strerror}") from error


def _say(written: Written, arguments: argparse.Namespace) -> None:
    if arguments.output == "json":
        sys.stdout.write(f"{to_json(written)}\n")
        return
    if written.file is None:
        sys.stdout.write(written.text)
        for remark in written.remarks:
            print(f"specon: {printable(remark)}", file=sys.stderr)
        return
    unsure = sum(not line.sure for line in written.lines)
    counts = f"{format_count(len(written.lines) - unsure, 'line')}, {format_count(unsure, 'proposal')}"
    print(f"{written.file}: {counts} that you have to look at")
    for line in written.lines:
        print(f"  {line.text()}")
    for remark in written.remarks:
        print(f"note: {printable(remark)}")
    file = shlex.quote(written.file)
    open_ = [line.key for line in written.lines if line.sure and _ASKS.search(line.why)]
    first = f"complete {', '.join(open_)}, then check it: specon doctor --file" if open_ else "specon local"
    print(f"next: {first} {file}")
