"""`specon submit`: one more job for a running manager of this machine."""

import argparse
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final

from specon_manager.cli.output import add_output, to_json
from specon_manager.cli.remote.state_directories import choose_only, directories_here, silence
from specon_manager.runtime.state_directory import address_and_token
from specon_manager.usage import UsageError

_SECONDS: Final = 30  # longer than a manager takes to have a job on record, or to say that it cannot


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    _add_state(parser)
    parser.add_argument("--name", help="name of the job (default: from the command)")
    parser.add_argument("--log", help="training log, where the command writes one itself")
    parser.add_argument("--format", help="format of the log")
    parser.add_argument("--metric", help="metric to judge by")
    parser.add_argument("--goal", choices=("min", "max"), help="whether less or more is better")
    parser.add_argument("--classifier", choices=("horizon", "specon"), help="how to judge (horizon)")
    parser.add_argument("--alpha", type=float, help="categorisation threshold of specon")
    parser.add_argument("--interval", type=float, help="categorisation interval, seconds")
    parser.add_argument("--checkpoint", help="periodic, file:PATH, http:URL, signal:USR1, sigterm or none")
    parser.add_argument("--checkpoint-path", help="where the command writes its checkpoints")
    add_output(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="-- COMMAND ARGUMENT ...")


def main(arguments: argparse.Namespace) -> int:
    """Add one job to a running manager; 0. Raises UsageError without a command."""
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        raise UsageError("there is no command: specon submit -- COMMAND ARGUMENT ...")
    fields = (
        "log",
        "format",
        "metric",
        "goal",
        "classifier",
        "alpha",
        "interval",
        "checkpoint",
        "checkpoint_path",
    )
    entry = {name: getattr(arguments, name) for name in fields if getattr(arguments, name) is not None}
    directory = _state_directory(arguments.state)
    entry |= {
        "name": arguments.name or _name(command, directory),
        "command": command,
        "working_directory": str(Path.cwd()),
    }
    answer = _ask(directory, "/v1/jobs", json.dumps(entry).encode())
    job = str(answer["job"])
    print(to_json({"job": job}) if arguments.output == "json" else f"submitted {job}")
    return 0


def _add_state(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state",
        type=Path,
        metavar="DIR",
        help="state directory of the manager (default: the one *.specon here)",
    )


def _state_directory(given: Path | None) -> Path:
    if given is not None:
        return given
    found = choose_only(directories_here())
    if found is None:
        raise UsageError("--state: name the manager's directory; found here: none")
    return found


def _name(command: list[str], directory: Path) -> str:
    """Return a free name made of the command's program."""
    words = [word for word in command if not word.startswith("-")]
    script = next((word for word in words if word.endswith((".py", ".sh"))), words[0] if words else "job")
    stem = "".join(letter if letter.isalnum() else "-" for letter in Path(script).stem.lower()).strip("-")
    state = _ask(directory, "/v1/state")
    taken = {name.partition("/")[2] for name in state["jobs"]}
    number = 1
    while f"{stem or 'job'}-{number}" in taken:
        number += 1
    return f"{stem or 'job'}-{number}"


def _ask(directory: Path, path: str, body: bytes | None = None) -> Any:
    """Return the manager's answer; raises UsageError with what it, or the network, has to say."""
    try:
        known = address_and_token(directory)
    except OSError as error:
        raise UsageError(f"--state: {error}") from error
    if known is None:
        raise UsageError(f"--state: no manager was ever started in {directory}")
    address, token = known
    request = urllib.request.Request(  # noqa: S310  (the URL is the manager's own, on loopback)
        address.url + path,
        data=body,
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as response:  # noqa: S310  (as above)
            return json.loads(response.read())
    except urllib.error.HTTPError as error:
        raise UsageError(_problem(error)) from error
    except OSError as error:
        # Of an error of urllib its reason says in words what went wrong.
        raise UsageError(silence(address.url, getattr(error, "reason", None) or error)) from error


def _problem(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read())["error"])
    except (ValueError, KeyError, TypeError):
        return f"the manager answered {error.code} {error.reason}"
