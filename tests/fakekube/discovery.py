"""What the server says about itself, and which resource a URL means."""

from aiohttp import web

from fakekube.kinds import PODS, SERVICE_ACCOUNTS, STATEFUL_SETS, Kind, Object

_NAMESPACES = "namespaces"
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


def subresources_of(kind: Kind) -> set[str]:
    """Return the URLs below an object (the empty one is the object itself)."""
    found = {""} | ({"status"} if kind.status else set())
    if kind is PODS:
        found |= {"resize", "eviction", "binding", "ephemeralcontainers"}
    return (
        found
        | ({"token"} if kind is SERVICE_ACCOUNTS else set())
        | ({"scale"} if kind is STATEFUL_SETS else set())
    )


def answer(parts: list[str], kinds: list[Kind], version: tuple[int, int]) -> Object | web.Response | None:
    """Return what /version, /healthz, /api and /apis say; None for a URL that means objects."""
    if parts == ["version"]:
        major, minor = version
        return {"major": str(major), "minor": str(minor), "gitVersion": f"v{major}.{minor}.2"}
    if parts and parts[0] in {"healthz", "readyz", "livez"}:
        return web.Response(text="ok")
    if parts == ["api"]:
        return {"kind": "APIVersions", "versions": ["v1"]}
    if parts == ["apis"]:
        return _groups(kinds)
    if parts == ["api", "v1"]:
        return _resources("", "v1", kinds)
    if len(parts) == 2 and parts[0] == "apis":  # one group
        found = [group for group in _groups(kinds)["groups"] if group["name"] == parts[1]]
        if not found:
            raise unknown()
        return {"kind": "APIGroup", "apiVersion": "v1", **found[0]}
    if len(parts) == 3 and parts[0] == "apis":
        return _resources(parts[1], parts[2], kinds)
    return None


def resolve(parts: list[str], kinds: list[Kind]) -> tuple[Kind, str, str, str]:
    """Return resource, namespace, name and subresource of a URL; raises UnknownPathError."""
    if parts[:2] == ["api", "v1"]:
        group, version, rest = "", "v1", parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise unknown()
    namespace = ""
    if rest[0] == _NAMESPACES and len(rest) > 2 and rest[2] not in {"status", "finalize"}:
        namespace, rest = rest[1], rest[2:]
    kind = next((k for k in kinds if (k.group, k.version, k.plural) == (group, version, rest[0])), None)
    if kind is None or (namespace and not kind.namespaced):
        raise unknown()
    name, subresource = ([*rest[1:], "", ""])[:2]
    if kind.namespaced and name and not namespace:
        raise unknown()
    return kind, namespace, name, subresource


class UnknownPathError(Exception):
    """A path that the server knows nothing of: it answers with a 404 that is plain text, not a Status."""


def unknown() -> UnknownPathError:
    return UnknownPathError()


def _groups(kinds: list[Kind]) -> Object:
    versions = sorted({(kind.group, kind.version) for kind in kinds if kind.group})
    groups = []
    for group, version in versions:
        spoken = {"groupVersion": f"{group}/{version}", "version": version}
        groups.append({"name": group, "versions": [spoken], "preferredVersion": spoken})
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def _resources(group: str, version: str, kinds: list[Kind]) -> Object:
    found = []
    for kind in kinds:
        if (kind.group, kind.version) != (group, version):
            continue
        for subresource in sorted(subresources_of(kind)):
            name = f"{kind.plural}/{subresource}".rstrip("/")
            verbs = _VERBS if not subresource else ["get", "patch", "update"]
            if subresource == "eviction":
                meaning = {"group": "policy", "version": "v1", "kind": "Eviction"}
                found.append(
                    {"name": name, "singularName": "", "namespaced": True, **meaning, "verbs": ["create"]}
                )
                continue
            found.append(
                {
                    "name": name,
                    "singularName": "",
                    "namespaced": kind.namespaced,
                    "kind": kind.name,
                    "verbs": verbs,
                }
            )
    if not found and group not in {"authentication.k8s.io", "authorization.k8s.io"}:
        raise unknown()
    spoken = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": spoken, "resources": found}
