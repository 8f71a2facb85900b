"""Which manager a command talks to: by its flags, else the one here, else that of the current cluster."""

import argparse
import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final

from specon_manager.cli.output import OUTPUTS, add_output
from specon_manager.cli.remote.local import LocalRemote
from specon_manager.cli.remote.remote import Remote, RequestRefusedError
from specon_manager.cli.remote.state_directories import choose_only, directories_here
from specon_manager.usage import UsageError
from specon_manager.views.names import printable

_FAILED: Final = 1
_UNNAMED: Final = (
    "no *.specon directory of a manager is here (specon local FILE makes one, --state DIR names one), and "
)
_CLUSTER_FLAGS: Final = ("kubeconfig", "context", "manager_namespace", "lease")

RemoteWork = Callable[[Remote], Awaitable[int]]


def add_remote_arguments(
    parser: argparse.ArgumentParser, *, outputs: tuple[str, ...] = OUTPUTS, bundles: bool = False
) -> None:
    """Declare the flags that name a manager, or (`bundles`) what one left, and `--output`."""
    group = parser.add_argument_group(
        "which manager", "default: the one whose *.specon directory is here, else that of the current cluster"
    )
    group.add_argument(
        "--state", type=Path, metavar="DIR", help="state directory of a manager of this machine"
    )
    if bundles:
        group.add_argument(
            "--bundle", type=Path, metavar="FILE", help="a support bundle, in place of a manager"
        )
    group.add_argument("--kubeconfig", type=Path, metavar="FILE", help="the cluster that this file names")
    group.add_argument("--context", metavar="NAME", help="context of the kubeconfig (its current one)")
    group.add_argument("-n", "--namespace", metavar="NAME", help="namespace of the replicas (all)")
    group.add_argument(
        "--manager-namespace", metavar="NAME", help="namespace of the manager (found by its Lease)"
    )
    group.add_argument("--lease", metavar="NAME", help="Lease of the manager, where there are several")
    add_output(parser, outputs)


def run_remote(arguments: argparse.Namespace, work: RemoteWork) -> int:
    """Do the work with the manager that the flags name; return its exit code, 1 where it was refused."""

    async def main() -> int:
        async with _open(arguments) as remote:
            return await work(remote)

    try:
        return asyncio.run(main())
    except RequestRefusedError as error:
        print(f"specon: {error}", file=sys.stderr)
        return _FAILED


@contextlib.asynccontextmanager
async def _open(arguments: argparse.Namespace) -> AsyncIterator[Remote]:
    remote = await _choose(arguments)
    try:
        yield remote
    finally:
        await remote.close()


async def _choose(arguments: argparse.Namespace) -> Remote:
    if getattr(arguments, "bundle", None) is not None:
        return _bundle(arguments)
    given = [f"--{name.replace('_', '-')}" for name in _CLUSTER_FLAGS if getattr(arguments, name) is not None]
    if arguments.state is not None:
        if given:
            raise UsageError(
                f"--state names a manager of this machine, {given[0]} one of a cluster: give one"
            )
        return LocalRemote(arguments.state)
    here = None if given or arguments.plugin else choose_only(directories_here())
    if here is not None:
        return LocalRemote(here)
    return await _cluster(arguments, sure=bool(given) or arguments.plugin)


def _bundle(arguments: argparse.Namespace) -> Remote:
    from specon_manager.cli.remote.bundle import BundleRemote  # noqa: PLC0415 - only where it is asked for

    other = next((name for name in ("state", *_CLUSTER_FLAGS) if getattr(arguments, name) is not None), None)
    if other is not None:
        raise UsageError(f"--bundle is read in place of a manager, and --{other.replace('_', '-')} names one")
    return BundleRemote(arguments.bundle)


async def _cluster(arguments: argparse.Namespace, *, sure: bool) -> Remote:
    """Return the manager of a cluster; `sure` that it is one, because flags say so."""
    # Imported here: the packages for Kubernetes take long to load, and a manager of this machine needs none.
    from specon_manager.backends.kube.transport.access import is_in_cluster  # noqa: PLC0415
    from specon_manager.backends.kube.transport.api import Api  # noqa: PLC0415
    from specon_manager.backends.kube.transport.errors import ApiUnavailableError  # noqa: PLC0415
    from specon_manager.backends.kube.transport.resources import TRAINING_PROGRESSES  # noqa: PLC0415
    from specon_manager.cli.remote.cluster import ClusterRemote  # noqa: PLC0415
    from specon_manager.cli.remote.problems import NOT_INSTALLED, raise_in_words  # noqa: PLC0415

    prefix = "" if sure else _UNNAMED
    if not is_in_cluster() and not any(path.is_file() for path in _kubeconfigs(arguments)):
        files = ", ".join(map(str, _kubeconfigs(arguments)))
        raise UsageError(f"{prefix}there is no kubeconfig {files}: --kubeconfig names one")
    where = _where(arguments)
    try:
        api = await Api.connect(kubeconfig=arguments.kubeconfig, context=arguments.context)
    except ApiUnavailableError as error:
        raise UsageError(printable(f"{prefix}{error}; look at --kubeconfig and --context")) from error
    remote = ClusterRemote(
        api,
        where=where,
        namespace=arguments.namespace,
        manager_namespace=arguments.manager_namespace,
        lease=arguments.lease,
    )
    try:
        with raise_in_words(where):
            installed = await api.serves(TRAINING_PROGRESSES)
    except BaseException:
        await remote.close()
        raise
    if not installed:
        await remote.close()
        raise UsageError(f"{where}: {NOT_INSTALLED}")
    return remote


def _where(arguments: argparse.Namespace) -> str:
    """Return what the cluster is called by the person who chose it."""
    import yaml  # noqa: PLC0415 - a manager of this machine needs none

    if arguments.context is not None:
        return f"cluster {arguments.context}"
    for path in _kubeconfigs(arguments):  # the first one that names a context is what counts
        try:
            return f"cluster {yaml.safe_load(path.read_text('utf-8'))['current-context']}"
        except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError):
            continue
    return "the cluster"


def _kubeconfigs(arguments: argparse.Namespace) -> list[Path]:
    """Return the files that say how to reach a cluster, whether they are there or not."""
    if arguments.kubeconfig is not None:
        return [arguments.kubeconfig]
    named = [part for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    return [Path(part).expanduser() for part in named or ["~/.kube/config"]]
