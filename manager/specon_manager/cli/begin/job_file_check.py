"""What will go wrong with a job file, as far as it shows before anything is started."""

import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from specon_manager.backends.local.jobs import JobFileError, LocalJob, fill_in, read_job_file
from specon_manager.backends.local.nodes import VirtualNode
from specon_manager.cli.begin.folder import script_at
from specon_manager.policies.table import policy_named, settings_of
from specon_manager.usage import UsageError
from specon_manager.views.findings import Finding

MOST_BYTES: Final = 4 << 20
_HERE: Final = {"python": "python3"}


def check_job_file(path: Path, nodes: Sequence[VirtualNode]) -> Iterator[Finding]:
    """Yield the mistakes of a job file on this machine; raises UsageError where it cannot be read."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"--file: {path}: {error.strerror}") from error
    if len(content) > MOST_BYTES:
        raise UsageError(f"--file: {path}: longer than {MOST_BYTES} bytes")
    try:
        read = read_job_file(content.decode())
        policy = policy_named(read.settings.policy)
        settings_of(policy, read.settings.parameters)
    except JobFileError as error:
        yield _finding("", f"{path} is refused", error.mistakes, "docs/local.md has all fields")
        return
    except ValueError as error:  # also of text that is not UTF-8
        yield _finding(
            "", f"{path} is refused", (str(error),), "specon policies lists them with their parameters"
        )
        return
    for job in read.jobs:
        yield from _of_job(job, nodes)


def _of_job(job: LocalJob, nodes: Sequence[VirtualNode]) -> Iterator[Finding]:
    folder = Path(job.working_directory or ".")
    if "{" not in str(folder) and not folder.is_dir():
        advice = "make the folder, or name another working_directory"
        yield _finding(job.name, "its working_directory is not there", (str(folder.absolute()),), advice)
        return
    words = [fill_in(word, _HERE) for word in job.arguments]
    program = words[0] if words else ""
    where = job.environment.get("PATH", os.environ.get("PATH"))
    found = shutil.which(program, path=where) if "/" not in program else shutil.which(str(folder / program))
    if "{" not in program and found is None:
        advice = (
            "name the program in full, or activate the environment that has it; {python} is that of specon"
        )
        yield _finding(
            job.name, f"its program {program} is not found", (f"command: {shlex.join(words)}",), advice
        )
    script = next((word for word in words[1:] if word.endswith(".py") and "{" not in word), None)
    if script is not None and not (folder / script).is_file():
        advice = "paths are from working_directory, which is where specon local is started by default"
        yield _finding(
            job.name, f"its script {script} is not there", (str((folder / script).absolute()),), advice
        )
    elif script is not None:
        yield from _of_script(job, folder / script)
    most = max((node.processors for node in nodes), default=0.0)
    if job.requests.cpu > most:
        advice = "lower requests, or start fewer nodes: specon local FILE --nodes 1"
        evidence = (f"requests {job.requests.cpu:g} CPU; the largest node of this machine has {most:g}",)
        yield _finding(job.name, "no node is large enough for it", evidence, advice)


def _of_script(job: LocalJob, path: Path) -> Iterator[Finding]:
    script = script_at(path)
    if script is None:
        return
    given = " ".join(job.arguments)
    missing = [each for each in script.required if each.startswith("-") and each not in given]
    if missing:
        advice = "add them to command"
        yield _finding(job.name, "it will not start without more arguments", (" ".join(missing),), advice)
    asked = job.checkpoint != "periodic" or job.checkpoint_path is not None
    if script.instrumented and not job.instrument and not asked:
        evidence = (f"{path.name} imports {script.framework}, and instrument is false",)
        yield Finding(
            kind="no-checkpoint",
            about=job.name,
            what="nobody says where its checkpoints are",
            evidence=evidence,
            advice="instrument: true, or checkpoint_path: specon init proposes the lines",
        )
    if job.instrument and not script.instrumented:
        evidence = (f"{path.name} imports {script.framework or 'no framework'} itself",)
        yield Finding(
            kind="helper-silent",
            about=job.name,
            what="instrument is true, and no framework is seen that the helper knows",
            evidence=evidence,
            advice="right if one of its imports imports a framework; else name log and checkpoint_path",
            wrong=False,
        )


def _finding(about: str, what: str, evidence: Sequence[str], advice: str) -> Finding:
    return Finding(kind="file", about=about, what=what, evidence=tuple(evidence), advice=advice)
