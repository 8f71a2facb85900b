"""`specon observe`: look at the jobs of a cluster, change nothing, and say what would have been done."""

import argparse
import asyncio
import contextlib
import functools
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from specon_manager.backends.kube.objects.selectors import read_selector
from specon_manager.backends.kube.transport.api import Api, ApiUnavailableError
from specon_manager.cli.output import add_output, to_json
from specon_manager.cli.remote.state_directories import OBSERVER
from specon_manager.cli.run.manager_log import log_to
from specon_manager.serving.observation import Observation, ObservationOptions, open_observation
from specon_manager.serving.serve_settings import ListenAddress, read_address, read_decisions
from specon_manager.usage import UsageError
from specon_manager.views.first_look import FirstLook, describe_look

_MOST_STREAMS: Final = 10_000


class _Shown(Struct, frozen=True, kw_only=True):
    """When the report is printed, and how."""

    every: float
    """Seconds; 0: only at the end."""
    seconds: float | None
    """For how long to look; None: until it is stopped."""
    as_json: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add = parser.add_argument
    add(
        "-l",
        "--selector",
        required=True,
        metavar="SELECTOR",
        help="labels of the training pods",
    )
    add(
        "-n",
        "--namespace",
        action="append",
        default=[],
        metavar="NAME",
        help="look at pods of this namespace only; may be given again (all)",
    )
    add("--kubeconfig", type=Path, metavar="FILE", help="the cluster that this file names")
    add("--context", metavar="NAME", help="context of the kubeconfig (its current one)")
    add("--config", type=Path, metavar="FILE", help="policy, budgets, deadlines, as specon serve takes them")
    add(
        "--state",
        type=Path,
        default=OBSERVER,
        metavar="DIR",
        help="directory of the observations, for a later look and for replay",
    )
    add("--log-streams", type=int, default=200, metavar="N", help="of how many pods the log is read at once")
    add("--for", dest="seconds", type=float, metavar="SECONDS", help="look for so long (until it is stopped)")
    add(
        "--every",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="print the report so often (at the end alone)",
    )
    add("--port", type=int, default=0, help="port of the HTTP server on loopback, which has the status page")
    add("--metrics-listen", metavar="HOST:PORT", help="HTTP: /metrics /healthz /readyz (nowhere)")
    add_output(parser)


def main(arguments: argparse.Namespace) -> int:
    """Look and print; 0. Raises UsageError for a time that is none."""
    options = options_of(arguments)
    for name in ("seconds", "every"):
        value = getattr(arguments, name)
        if value is not None and not 0 <= value < float("inf"):
            raise UsageError(f"--{'for' if name == 'seconds' else name}: {value} is no number of seconds")
    shown = _Shown(every=arguments.every, seconds=arguments.seconds, as_json=arguments.output == "json")
    options.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with log_to(options.directory):
        return asyncio.run(_look(arguments, options, shown))


def options_of(arguments: argparse.Namespace) -> ObservationOptions:
    """Return what the flags say; raises UsageError."""
    try:
        selector = read_selector(arguments.selector)
    except ValueError as error:
        raise UsageError(f"--selector: {error}") from error
    if not 1 <= arguments.log_streams <= _MOST_STREAMS:
        raise UsageError(f"--log-streams: {arguments.log_streams} is not from 1 to {_MOST_STREAMS}")
    probes: ListenAddress | None = None
    if arguments.metrics_listen is not None:
        try:
            probes = read_address(arguments.metrics_listen)
        except ValueError as error:
            raise UsageError(f"--metrics-listen: {error}") from error
    return ObservationOptions(
        directory=arguments.state,
        settings=read_decisions(arguments.config),
        selector=selector,
        namespaces=tuple(arguments.namespace),
        log_streams=arguments.log_streams,
        port=arguments.port,
        probes=None if probes is None else (probes.host, probes.port),
    )


async def _look(arguments: argparse.Namespace, options: ObservationOptions, shown: _Shown) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    connect = functools.partial(Api.connect, kubeconfig=arguments.kubeconfig, context=arguments.context)
    try:
        api, outputs = await connect(), await connect(connections=options.log_streams)
    except ApiUnavailableError as error:
        raise UsageError(str(error)) from error
    try:
        async with open_observation(options, api, outputs) as observation:
            if sys.stderr.isatty():
                print(f"status page: {observation.session.page}", file=sys.stderr, flush=True)
            print(
                "looking; nothing is changed. Ctrl-C ends it and prints the report.",
                file=sys.stderr,
                flush=True,
            )
            async for report in _reports(observation, shown, stop):
                _print(report, as_json=shown.as_json)
    finally:
        await outputs.close()
        await api.close()
    return 0


async def _reports(observation: Observation, shown: _Shown, stop: asyncio.Event) -> AsyncIterator[FirstLook]:
    """Yield the report as often as wanted, and at the end."""
    ends = None if shown.seconds is None else time.monotonic() + shown.seconds
    while not stop.is_set():
        left = None if ends is None else ends - time.monotonic()
        if left is not None and left <= 0:
            break
        waits = [each for each in (left, shown.every or None) if each is not None]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(waits) if waits else None):
                await stop.wait()
        over = stop.is_set() or (ends is not None and time.monotonic() >= ends)
        if shown.every and not over:
            yield observation.report()
    yield observation.report()


def _print(report: FirstLook, *, as_json: bool) -> None:
    print(to_json(report) if as_json else "\n".join(describe_look(report)), flush=True)
