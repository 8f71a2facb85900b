"""The way to an API server: address, TLS, credentials and connections, by the official client.

The only module that imports `kubernetes`, and only when a way is opened: the import takes half a second.
Of that client only configuration, authentication and transport are used: its typed models block the loop for
seconds on a large list, its watch does not survive a 410, and its elector keeps leading when the server is
out of reach.
"""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from specon_manager.backends.kube.transport.errors import ApiUnavailableError

if TYPE_CHECKING:
    from kubernetes.aio.client.configuration import Configuration

TOKEN_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
CA_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt")
_NO_LIMIT: Final = aiohttp.ClientTimeout(total=None)  # callers have limits of their own, on the whole call

_IMPERSONATION: Final = ("as", "as-uid", "as-groups", "as-user-extra")

USUAL_CONNECTIONS: Final = 100
"""To one API server at once."""

LoadAccess = Callable[["Configuration"], Awaitable[None]]
"""Reads the address and the credentials into a configuration, at each call."""


class Access:
    """Sends requests to one API server, as one user."""

    def __init__(self, configuration: "Configuration", load: LoadAccess | None = None) -> None:
        from kubernetes.aio.client.rest import RESTClientObject  # noqa: PLC0415  (see the module's docstring)

        # client-go does not ask for the letter of RFC 5280, and the CAs of many clusters do not keep it.
        # Chain and host name are verified all the same.
        configuration.disable_strict_ssl_verification = True
        self._configuration = configuration
        self._load = load
        self._rest = RESTClientObject(configuration)
        self._closed = False
        self.server = configuration.host.rstrip("/")

    async def send(
        self, method: str, path: str, *, body: Any = None, content_type: str = "application/json"
    ) -> aiohttp.ClientResponse:
        """Send a request, with the present credentials; the caller reads the answer and releases it."""
        if self._closed:
            raise ApiUnavailableError(f"{method} {path}: the connections to the API server are closed")
        headers = {
            "Accept": "application/json",
            # A compressed answer saves little inside a cluster, and how long it will be cannot be bounded.
            "Accept-Encoding": "identity",
            "Content-Type": content_type,
            "User-Agent": "specon-manager",
        }
        authorization = await self._configuration.get_api_key_with_prefix("BearerToken")
        if authorization:
            headers["Authorization"] = authorization.strip()
        answer = await self._rest.request(  # type: ignore[no-untyped-call]
            method, self.server + path, headers=headers, body=body, _request_timeout=_NO_LIMIT
        )
        response: aiohttp.ClientResponse = answer.response
        return response

    async def renew(self) -> bool:
        """Read the credentials again, since the server did not take them; False where there is no source."""
        if self._load is None:
            return False
        await self._load(self._configuration)
        if self._configuration.cert_file:
            self._rest.ssl_context.load_cert_chain(
                self._configuration.cert_file, self._configuration.key_file
            )
        return True

    async def close(self) -> None:
        """Close all connections."""
        self._closed = True
        await self._rest.close()


def direct_access(server: str, token: str = "", ca_file: Path | None = None) -> Access:
    """Return the way to the server at that URL, with a fixed token or none."""
    from kubernetes.aio.client.configuration import Configuration  # noqa: PLC0415

    configuration = Configuration(host=server, ssl_ca_cert=str(ca_file) if ca_file else None)
    if token:
        configuration.api_key["BearerToken"] = f"Bearer {token}"
    return Access(configuration)


def is_in_cluster() -> bool:
    """Whether this process runs in a pod that has a service account."""
    return "KUBERNETES_SERVICE_HOST" in os.environ and TOKEN_FILE.exists()


async def service_account_access(
    token_file: Path = TOKEN_FILE, ca_file: Path = CA_FILE, *, connections: int = USUAL_CONNECTIONS
) -> Access:
    """Return the way of a pod; the kubelet renews the token file, which is read again each minute.

    Raises ApiUnavailableError where the files or the variables are not there.
    """
    from kubernetes.aio.config.incluster_config import InClusterConfigLoader  # noqa: PLC0415

    async def load(configuration: "Configuration") -> None:
        loader = InClusterConfigLoader(str(token_file), str(ca_file))  # type: ignore[no-untyped-call]
        loader.load_and_set(configuration)  # type: ignore[no-untyped-call]

    return await _open_access(load, connections)


async def kubeconfig_access(
    file: Path | None = None, context: str | None = None, *, connections: int = USUAL_CONNECTIONS
) -> Access:
    """Return the way that a kubeconfig describes (None: $KUBECONFIG, else the usual file of the user).

    Raises ApiUnavailableError where it cannot be read or has no such context, and where its user acts as
    another one: the client library would use the rights of the user itself.
    """
    from kubernetes.aio.client.configuration import Configuration  # noqa: PLC0415
    from kubernetes.aio.config import load_kube_config  # noqa: PLC0415

    chosen = str(file) if file else os.environ.get("KUBECONFIG") or "~/.kube/config"

    async def load(configuration: Configuration) -> None:
        fresh = Configuration()
        await load_kube_config(  # type: ignore[no-untyped-call]
            config_file=chosen, context=context, client_configuration=fresh, persist_config=False
        )
        _refuse_impersonation(chosen, context)
        for field in (
            "host",
            "ssl_ca_cert",
            "verify_ssl",
            "tls_server_name",
            "proxy",
            "cert_file",
            "key_file",
        ):
            setattr(configuration, field, getattr(fresh, field))
        configuration.api_key = fresh.api_key

    return await _open_access(load, connections)


def _refuse_impersonation(file: str, context: str | None) -> None:
    """Raise ValueError where the context's user of a kubeconfig that was loaded is to act as another one."""
    from kubernetes.aio.config.kube_config import KubeConfigMerger  # noqa: PLC0415

    config: Any = KubeConfigMerger(file).config  # type: ignore[no-untyped-call]
    name = context or config["current-context"]
    user = config["contexts"].get_with_name(name)["context"].safe_get("user")
    entry = config["users"].get_with_name(user, safe=True)
    own: dict[str, Any] = (None if entry is None else entry.safe_get("user")) or {}
    other = next((key for key in _IMPERSONATION if own.get(key)), None)
    if other is not None:
        raise ValueError(
            f"user {user!r} of context {name!r} has {other}: {own[other]!r}, and specon cannot act as another"
            " user; name a context whose own user has the rights"
        )


async def _open_access(load: LoadAccess, connections: int) -> Access:
    import yaml  # noqa: PLC0415  (what kubeconfigs are read with)
    from kubernetes.aio.client.configuration import Configuration  # noqa: PLC0415
    from kubernetes.aio.config import ConfigException  # noqa: PLC0415

    configuration = Configuration(connection_pool_maxsize=connections)

    async def load_or_say_why(into: "Configuration") -> None:
        try:
            await load(into)
        except (ConfigException, OSError, ValueError, TypeError, yaml.YAMLError) as error:
            raise ApiUnavailableError(f"no way to an API server: {error}") from error

    await load_or_say_why(configuration)
    return Access(configuration, load_or_say_why)
