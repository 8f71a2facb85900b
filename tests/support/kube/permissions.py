"""What roles permit and what was asked for, in the same words: to be compared with each other."""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct

Object = dict[str, Any]
_OF_OBJECTS = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "POST": "create"}
_OF_COLLECTIONS = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
_NAME = "metadata.name="


class Asked(Struct, frozen=True, order=True):
    """One kind of request, as the authorizer of an API server sees it."""

    group: str
    resource: str
    """With the subresource: pods/eviction."""
    verb: str
    namespace: str
    """Empty for what is in no namespace, and for all namespaces."""
    name: str

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}.{self.group} {self.name!r}{where}"


class Permitted(Struct, frozen=True, order=True):
    """One verb for one resource, which a role permits."""

    group: str
    resource: str
    verb: str
    namespace: str
    """That of the role; empty for a ClusterRole that is bound in the whole cluster."""
    names: tuple[str, ...]
    """Empty: all."""

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}.{self.group} {', '.join(self.names) or 'all'}{where}"

    def covers(self, asked: Asked) -> bool:
        """Whether this permits it, as RBAC has it."""
        same = (self.group, self.resource, self.verb) == (asked.group, asked.resource, asked.verb)
        there = self.namespace in {"", asked.namespace}
        # What is created through a collection has no name that could be compared.
        return same and there and (not self.names or asked.name in self.names)


def asked(method: str, url: str) -> Asked | None:
    """Return what a request asks for; None for what every user may: versions and which APIs there are."""
    parts = urlsplit(url)
    path, query = [part for part in parts.path.split("/") if part], parse_qs(parts.query)
    if path[:2] == ["api", "v1"] and len(path) > 2:
        group, rest = "", path[2:]
    elif path[:1] == ["apis"] and len(path) > 3:
        group, rest = path[1], path[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource, name, subresource = ([*rest, "", ""])[:3]
    if name:
        verb = _OF_OBJECTS[method]
    elif query.get("watch", [""])[0] in {"1", "true"}:
        verb = "watch"
    else:
        verb = _OF_COLLECTIONS[method]
    if not name:  # who looks for one name in a collection needs to be permitted that name only
        fields = query.get("fieldSelector", [""])[0].split(",")
        name = next((one.removeprefix(_NAME) for one in fields if one.startswith(_NAME)), "")
    return Asked(
        group=group,
        resource=f"{resource}/{subresource}" if subresource else resource,
        verb=verb,
        namespace=namespace,
        name=name,
    )


def all_asked(requests: Iterable[tuple[str, str]]) -> frozenset[Asked]:
    """Return what these requests (method, URL) ask for."""
    return frozenset(found for method, url in requests if (found := asked(method, url)) is not None)


def permitted(objects: Iterable[Object], names: Mapping[str, str]) -> frozenset[Permitted]:
    """Return what the roles among the objects permit; `names` says what their names are called elsewhere."""
    return frozenset(
        Permitted(
            group=group,
            resource=resource,
            verb=verb,
            namespace=role["metadata"].get("namespace", ""),
            names=tuple(names.get(name, name) for name in rule.get("resourceNames", ())),
        )
        for role in objects
        if role["kind"] in {"Role", "ClusterRole"}
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )
