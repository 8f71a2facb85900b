"""What policies would do with a state, on the screen."""

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from specon_lab.commands.what_if_result import PolicyForecast, Said, WhatIf
from specon_manager.cli.run.result import format_seconds
from specon_manager.views.names import job_label, printable
from specon_sidecar.counts import format_count

_UNKNOWN: Final = "-"
_NO_END: Final = "later"
_BASES: Final = {
    "measured": "measured by its sidecar",
    "declared": "declared by its owner",
    "learnt": "learnt from jobs that completed",
    "assumed": "assumed (--prior)",
}


def print_what_if(found: WhatIf, console: Console, *, most: int) -> None:
    """Print what each policy would do now, then the predictions; at most `most` lines of each."""
    size = found.state
    _print(
        console,
        f"policy {size.policy}, {size.nodes_ready} of {format_count(size.nodes, 'node')} ready, "
        f"{format_count(size.jobs, 'job')}, "
        f"{size.waiting} of them waiting",
        style="bold",
    )
    for policy in found.policies:
        _print_now(policy, console, most)
    console.print()
    _print(console, "predicted, in seconds from now", style="bold")
    console.print(_summary(found))
    console.print(_jobs(found, most))
    if len(found.remaining) > most:
        _print(
            console,
            f"and {format_count(len(found.remaining) - most, 'job')} more (--top {len(found.remaining)})",
        )
    for line in caveats(found):
        _print(console, line)


def caveats(found: WhatIf) -> list[str]:
    """Return on which estimates the predictions rest, and the assumptions."""
    bases = [each.basis for each in found.remaining]
    counts = [f"{bases.count(basis)} {words}" for basis, words in _BASES.items() if basis in bases]
    return [
        f"Predictions, no promises: they rest on how long each job still trains: {', '.join(counts)}.",
        f"Taken for granted: {'; '.join(found.approximations)}.",
    ]


def _print_now(policy: PolicyForecast, console: Console, most: int) -> None:
    now, mark = policy.now, ", the present policy" if policy.present else ""
    if not now.ordered_in_all and not now.refused_in_all:
        _print(console, f"\n{printable(policy.policy)}{mark}: would do nothing now")
        return
    refused = f", {now.refused_in_all} refused" if now.refused_in_all else ""
    _print(console, f"\n{printable(policy.policy)}{mark}: would order {now.ordered_in_all} now{refused}")
    _print_said(now.ordered, now.ordered_in_all, "", console, most)
    _print_said(now.refused, now.refused_in_all, "refused: ", console, most)


def _print_said(said: Sequence[Said], count: int, verdict: str, console: Console, most: int) -> None:
    for each in said[:most]:
        target = f" -> {printable(each.target)}" if each.target else ""
        workers = "" if each.workers is None else " ({} -> {} workers)".format(*each.workers)
        name = f"{each.proposal} {job_label(each.subject)}{target}{workers}"
        _print(console, f"  {name}: {verdict}{printable(each.reason)}")
    if count > min(most, len(said)):
        _print(console, f"  and {count - min(most, len(said))} more {'refused' if verdict else 'ordered'}")


def _summary(found: WhatIf) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("policy", overflow="fold")
    for heading in ("average", "last end", "completed", "preemptions", "moves", "helped", "hurt"):
        table.add_column(heading, justify="right", no_wrap=True)
    for policy in found.policies:
        against = policy.against_present
        compared = ("present", "") if against is None else (str(against.helped), str(against.hurt))
        table.add_row(
            Text(printable(policy.policy)),
            format_seconds(policy.average_seconds, _UNKNOWN),
            format_seconds(policy.last_seconds, _UNKNOWN),
            f"{policy.completed} of {len(policy.jobs)}",
            str(policy.preemptions),
            str(policy.moves),
            *compared,
        )
    return table


def _jobs(found: WhatIf, most: int) -> Table:
    """Return the table of jobs; those for which it makes the most difference, where there are too many."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("job", overflow="fold")
    table.add_column("still trains", justify="right", no_wrap=True)
    table.add_column("estimate", no_wrap=True)
    for policy in found.policies:
        table.add_column(Text(printable(policy.policy)), justify="right", overflow="fold")
    for number in _show(found, most):
        left = found.remaining[number]
        wide = "" if left.uncertainty is None else f" ± {left.uncertainty:,.0f}"
        ends = [policy.jobs[number] for policy in found.policies]
        table.add_row(
            Text(job_label(left.job) + (" (waits)" if left.waits else "")),
            f"{left.seconds:,.0f}{wide}",
            left.basis,
            *(_NO_END if each.seconds is None else f"{each.seconds:,.0f}" for each in ends),
        )
    return table


def _show(found: WhatIf, most: int) -> list[int]:
    numbers = range(len(found.remaining))
    if len(numbers) <= most:
        return list(numbers)
    chosen = sorted(numbers, key=lambda number: (-_differs(found.policies, number), number))[:most]
    return sorted(chosen)


def _differs(policies: Sequence[PolicyForecast], number: int) -> float:
    """Return by how much the policies differ about a job, seconds."""
    ends = [policy.jobs[number].seconds for policy in policies]
    known = [each for each in ends if each is not None]
    if len(known) < len(ends):
        return float("inf") if known else 0.0
    return max(known) - min(known)


def _print(console: Console, text: str, style: str = "") -> None:
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)
