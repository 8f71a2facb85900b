"""A job file from what lies in a folder; each line is accepted by the reader of job files. Pure."""

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from specon_manager.backends.local.jobs import JobFileError, read_job_file
from specon_manager.cli.begin.folder import Folder
from specon_manager.cli.begin.line import UNSURE, Checked, ProposedLine, check_lines
from specon_manager.cli.begin.log_lines import log_lines
from specon_manager.cli.begin.script import FRAMEWORKS, Script
from specon_manager.views.names import cut

_NO_NAME: Final = re.compile(r"[^a-z0-9]+")
_LONGEST_NAME: Final = 40
_OTHERS: Final = 3
_LOG_NAME: Final = re.compile(r"[\w./-]*\w\.(?:log|out|jsonl|csv)")
_CHECKPOINTS_NAME: Final = re.compile(r"(?:[\w./-]*[/_-])?(?:checkpoints?|ckpts?|snapshots?|weights)/?")


def job_of(folder: Folder, script: str | None, *, python: str, here: str) -> tuple[Checked, tuple[str, ...]]:
    """Return the lines of a job that trains with a script of the folder, and what nobody can see from here.

    `script` is the one that was named, None: the likeliest. `here` is where `specon local` will be started.
    """
    known = dict(folder.scripts)
    chosen = script if script is not None else next(iter(known), None)
    found = None if chosen is None else known.get(chosen)
    lines = list(_lines(folder, chosen, found, python=python, here=here, named=script is not None))
    return check_lines(lines, _refusal), tuple(_remarks(folder, chosen, found))


def text_of(job: Checked, remarks: Sequence[str]) -> str:
    """Return the file."""
    head = [
        f'# Written by specon init. "{UNSURE.strip()}" begins a proposal: remove it where the line is right.',
        *(f"# Note: {cut(remark)}" for remark in (*remarks, *job.refused)),
        "jobs:",
    ]
    body = [f"{'  - ' if number == 0 else '    '}{line.text()}" for number, line in enumerate(job.lines)]
    return "\n".join([*head, *body, ""])


def _lines(
    folder: Folder, chosen: str | None, script: Script | None, *, python: str, here: str, named: bool
) -> Iterator[ProposedLine]:
    stem = "train" if chosen is None else Path(chosen).stem
    yield ProposedLine(key="name", value=_name(stem), why="a name of your choice")
    if chosen is None:
        yield ProposedLine(
            key="command", value=f"{python} train.py", why="FILL IN: no script that trains was found here"
        )
    else:
        yield ProposedLine(key="command", value=shlex.join([python, chosen]), why=_why(script, named=named))
    if here != str(folder.path):
        yield ProposedLine(key="working_directory", value=str(folder.path), why="where the script lies")
    yield from _log(folder, script)
    yield from _checkpoints(folder, script)


def _why(script: Script | None, *, named: bool) -> str:
    which = "the script that you named" if named else "the script that looks most like a training"
    if script is None:
        return f"{which}; it is not Python of this version, so nothing is known of it"
    package = script.framework
    what = "imports no framework that is known" if package is None else f"imports {package}"
    needs = f"; ADD ITS ARGUMENTS: {' '.join(script.required)}" if script.required else ""
    return f"{which}: {what}{needs}"


def _log(folder: Folder, script: Script | None) -> Iterator[ProposedLine]:
    log = folder.log
    if script is not None and script.instrumented:
        return  # the helper tells what a log would
    if log is None:
        own = _find_named(script, _LOG_NAME)
        why = "no log was found: where your script writes one itself, name it; its output is read anyway"
        if own is not None:
            why = "your script names it: is it the log? The script's output is not read then"
        yield ProposedLine(key="log", value=own or "train.log", why=why, sure=False)
        return
    name = Path(log.path).name
    written = script is not None and any(name in text for text in script.texts)
    if written or log.kind == "events":
        value = f"{log.path}/" if log.kind == "events" else log.path
        yield ProposedLine(key="log", value=value, why="your script writes it itself", sure=written)
    else:
        why = "only where your script writes it itself; its output is read anyway"
        yield ProposedLine(key="log", value=log.path, why=why, sure=False)
    yield from log_lines(log)


def _checkpoints(folder: Folder, script: Script | None) -> Iterator[ProposedLine]:
    if script is not None and script.instrumented and script.framework is not None:
        title = FRAMEWORKS[script.framework].title
        at_once = FRAMEWORKS[script.framework].saves_on_request
        how = "saved on request and resumed" if at_once else "seen when it saves by itself"
        yield ProposedLine(key="instrument", value=True, why=f"{title} is {how}; no change of the script")
        if at_once:
            return
    if folder.checkpoints:
        newest = folder.checkpoints[0]
        where = os.path.relpath(Path(newest.path).parent, folder.path)
        name = f"{Path(newest.path).name} ({newest.declared.name})"
        why = f"{len(folder.checkpoints)} found, the newest is {name}"
        if where == ".":
            why = f"{why}; it lies beside the script: a folder of its own is safer"
        yield ProposedLine(key="checkpoint_path", value=where, why=why, sure=where != ".")
    else:
        own = _find_named(script, _CHECKPOINTS_NAME)
        why = "no checkpoint was found: name the folder that your script saves to, and loads from"
        if own is not None:
            why = "your script names it: is it the folder that it saves to, and loads from?"
        yield ProposedLine(key="checkpoint_path", value=own or "checkpoints", why=why, sure=False)
    if script is None or not script.instrumented:
        why = "where the script saves at once when it gets SIGUSR1; else its next own save is awaited"
        yield ProposedLine(key="checkpoint", value="signal:USR1", why=why, sure=False)


def _find_named(script: Script | None, pattern: re.Pattern[str]) -> str | None:
    """Return the first text of the script by name, such as a default of a flag, that is such a name."""
    texts = () if script is None else script.texts
    return next((text for text in sorted(texts) if pattern.fullmatch(text)), None)


def _remarks(folder: Folder, chosen: str | None, script: Script | None) -> Iterator[str]:
    yield from folder.remarks
    others = [name for name, _ in folder.scripts if name != chosen][:_OTHERS]
    if others:
        yield f"other scripts that may train: {', '.join(others)}; specon init SCRIPT chooses one"
    if script is not None and script.instrumented and script.framework in {"torch", "accelerate"}:
        yield "the script has to load its newest checkpoint when it starts: else a move loses everything"
    if script is not None and any("LOCAL_RANK" in text or "WORLD_SIZE" in text for text in script.texts):
        yield (
            "the script reads the variables of torchrun: a job of several workers needs `workers: N`, and "
            "torchrun in its command (docs/how-to/frameworks.md)"
        )


def _name(stem: str) -> str:
    return _NO_NAME.sub("-", stem.lower())[:_LONGEST_NAME].strip("-") or "train"


def _refusal(lines: Sequence[ProposedLine]) -> str | None:
    """Return what the reader of job files has against these lines; a job's name and command come first."""
    needed = [ProposedLine(key="name", value="x", why=""), ProposedLine(key="command", value="true", why="")]
    given = {line.key for line in lines}
    whole = [*(line for line in needed if line.key not in given), *lines]
    as_sure = [ProposedLine(key=line.key, value=line.value, why=line.why) for line in whole]
    try:
        read_job_file(text_of(Checked(lines=tuple(as_sure), refused=()), ()))
    except JobFileError as error:
        return "; ".join(error.mistakes)
    return None
