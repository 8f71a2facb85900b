"""The rules of Kubernetes 1.36 that a controller runs into: names, gates, immutable fields, Jobs.

Each check returns causes (reason, message, field), as a 422 lists them.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from fakekube.failures import Cause
from fakekube.kinds import JOB_SETS, JOBS, LEASES, PODS, STATEFUL_SETS, TRAIN_JOBS, Kind, Object

Schema = Callable[[Object | None, Object], tuple[Object, list[Cause]]]
"""Prunes an object and tells what is wrong with it, given what it was before."""

_NAME = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_LABEL = re.compile(r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")
_ANNOTATIONS_LIMIT = 256 * 1024


def check(kind: Kind, before: Object | None, after: Object, subresource: str = "") -> list[Cause]:
    """Return what is wrong with a new object, or with a change of one."""
    causes = _metadata(after["metadata"])
    if kind is PODS:
        causes += _new_pod(after) if before is None else _changed_pod(before, after, subresource)
    elif kind is JOBS:
        causes += _new_job(after) if before is None else _changed_job(before, after, subresource)
    elif kind is STATEFUL_SETS:
        causes += _stateful_set(before, after)
    elif kind is JOB_SETS and before is not None:
        causes += _changed_job_set(before, after)
    elif kind is TRAIN_JOBS and before is not None:
        causes += _changed_train_job(before, after)
    elif kind is LEASES:
        seconds = (after.get("spec") or {}).get("leaseDurationSeconds")
        if seconds is not None and seconds <= 0:
            causes.append(_wrong("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
    return causes


def _wrong(field: str, value: Any, why: str) -> Cause:
    told = json.dumps(value)
    return "FieldValueInvalid", f"Invalid value: {told if len(told) < 200 else told[:200]}: {why}", field


def _forbidden(field: str, why: str) -> Cause:
    return "FieldValueForbidden", f"Forbidden: {why}", field


def _required(field: str, why: str = "") -> Cause:
    return "FieldValueRequired", "Required value" + (f": {why}" if why else ""), field


def _metadata(metadata: Object) -> list[Cause]:
    causes = []
    name = metadata.get("name", "")
    if not name:
        return [_required("metadata.name", "name or generateName is required")]
    if len(name) > 253 or not _NAME.match(name):
        causes.append(_wrong("metadata.name", name, "a lowercase RFC 1123 subdomain must consist of ..."))
    for key, value in (metadata.get("labels") or {}).items():
        if not isinstance(value, str) or len(value) > 63 or not _LABEL.match(value):
            causes.append(_wrong("metadata.labels", value, f"a valid label must be ... (key {key})"))
    annotations = metadata.get("annotations") or {}
    if sum(len(key) + len(str(value)) for key, value in annotations.items()) > _ANNOTATIONS_LIMIT:
        causes.append(
            ("FieldValueTooLong", "Too long: may not be more than 262144 bytes", "metadata.annotations")
        )
    return causes


# -- pods ----------------------------------------------------------------------------------------


def _new_pod(pod: Object) -> list[Cause]:
    spec = pod["spec"]
    causes = []
    if not spec.get("containers"):
        causes.append(_required("spec.containers"))
    names = [
        item.get("name") for item in [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    ]
    causes += [
        ("FieldValueDuplicate", f'Duplicate value: "{name}"', "spec.containers")
        for name in {name for name in names if names.count(name) > 1}
    ]
    volumes = {volume["name"] for volume in spec.get("volumes") or []}
    for group in ("initContainers", "containers"):
        for at, container in enumerate(spec.get(group) or []):
            if not container.get("image"):
                causes.append(_required(f"spec.{group}[{at}].image"))
            causes += [
                (
                    "FieldValueNotFound",
                    f'Not found: "{mount["name"]}"',
                    f"spec.{group}[{at}].volumeMounts[{n}].name",
                )
                for n, mount in enumerate(container.get("volumeMounts") or [])
                if mount["name"] not in volumes
            ]
    if spec.get("schedulingGates") and spec.get("nodeName"):
        causes.append(
            _forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")
        )
    return causes


_POD_MUTABLE = {"tolerations", "schedulingGates", "nodeSelector", "affinity", "containers", "initContainers"}
_POD_REASON = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def _changed_pod(before: Object, after: Object, subresource: str) -> list[Cause]:
    old, new = before["spec"], after["spec"]
    if old == new:
        return []
    if subresource == "resize":
        return _resized(old, new)
    if subresource == "binding":
        return []
    gated = bool(old.get("schedulingGates"))
    causes = _gates(old, new)
    causes += _tolerations(old, new)
    changed = {field for field in {*old, *new} if old.get(field) != new.get(field)}
    if new.get("activeDeadlineSeconds", 0) <= old.get("activeDeadlineSeconds", float("inf")):
        changed.discard("activeDeadlineSeconds")  # can be set, and made shorter
    if gated:
        causes += _node_selector(old, new, "spec.nodeSelector")
        causes += _affinity(old, new)
    elif changed & {"nodeSelector", "affinity"}:
        causes.append(_forbidden("spec", _POD_REASON))
    if changed - _POD_MUTABLE or not _images_only(old, new):
        causes.append(_forbidden("spec", _POD_REASON))
    return causes


def _gates(old: Object, new: Object) -> list[Cause]:
    had = {gate["name"] for gate in old.get("schedulingGates") or []}
    return [
        _forbidden(
            f"spec.schedulingGates[{at}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate['name']}'",
        )
        for at, gate in enumerate(new.get("schedulingGates") or [])
        if gate["name"] not in had
    ]


def _tolerations(old: Object, new: Object) -> list[Cause]:
    kept = new.get("tolerations") or []
    plain = [{key: value for key, value in entry.items() if key != "tolerationSeconds"} for entry in kept]
    gone = [
        entry
        for entry in old.get("tolerations") or []
        if {key: value for key, value in entry.items() if key != "tolerationSeconds"} not in plain
    ]
    return (
        [
            _forbidden(
                "spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"
            )
        ]
        if gone
        else []
    )


def _node_selector(old: Object, new: Object, field: str) -> list[Cause]:
    now = new.get("nodeSelector") or {}
    lost = any(now.get(key) != value for key, value in (old.get("nodeSelector") or {}).items())
    return [_wrong(field, now, "only additions to spec.nodeSelector are allowed")] if lost else []


def _required_affinity(spec: Object) -> Any:
    node = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return node.get("requiredDuringSchedulingIgnoredDuringExecution")


def _affinity(old: Object, new: Object) -> list[Cause]:
    had, has = old.get("affinity") or {}, new.get("affinity") or {}
    if any(had.get(part) != has.get(part) for part in ("podAffinity", "podAntiAffinity")):
        return [_forbidden("spec", _POD_REASON)]
    before, after = _required_affinity(old), _required_affinity(new)
    if before is None:
        return []
    was, now = before["nodeSelectorTerms"], (after or {}).get("nodeSelectorTerms") or []
    field = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    if len(was) != len(now):
        return [_wrong(field, now, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")]
    return [
        _wrong(f"{field}[{at}]", new_term, "only additions are allowed (no mutations or deletions)")
        for at, (old_term, new_term) in enumerate(zip(was, now, strict=True))
        if not _narrower(old_term, new_term)
    ]


def _narrower(old: Object, new: Object) -> bool:
    for part in ("matchExpressions", "matchFields"):
        had, has = old.get(part) or [], new.get(part) or []
        if has[: len(had)] != had:
            return False
    return bool(old.get("matchExpressions") or old.get("matchFields")) or not (
        new.get("matchExpressions") or new.get("matchFields")
    )


def _images_only(old: Object, new: Object) -> bool:
    for group in ("containers", "initContainers"):
        had, has = old.get(group) or [], new.get(group) or []
        if len(had) != len(has):
            return False
        for one, other in zip(had, has, strict=True):
            if {**one, "image": ""} != {**other, "image": ""}:
                return False
    return True


def _resized(old: Object, new: Object) -> list[Cause]:
    causes = []
    for at, (one, other) in enumerate(zip(old["containers"], new["containers"], strict=True)):
        field = f"spec.containers[{at}].resources"
        if {**one, "resources": {}} != {**other, "resources": {}}:
            causes.append(_forbidden("spec", "only cpu and memory resources are mutable"))
        for part in ("requests", "limits"):
            had = (one.get("resources") or {}).get(part) or {}
            has = (other.get("resources") or {}).get(part) or {}
            if any(had.get(name) != has.get(name) for name in {*had, *has} - {"cpu", "memory"}):
                causes.append(_forbidden(field, "only cpu and memory resources are mutable"))
    if {**old, "containers": []} != {**new, "containers": []}:
        causes.append(_forbidden("spec", "only cpu and memory resources are mutable"))
    return causes


# -- jobs ----------------------------------------------------------------------------------------

_IMMUTABLE = "field is immutable"
_WHILE_SUSPENDED = {"nodeSelector", "tolerations", "affinity", "schedulingGates"}


def _new_job(job: Object) -> list[Cause]:
    spec = job["spec"]
    template = spec["template"]["spec"]
    causes = []
    if not template.get("containers"):
        causes.append(_required("spec.template.spec.containers"))
    if template["restartPolicy"] == "Always":
        why = 'Unsupported value: "Always": supported values: "OnFailure", "Never"'
        causes.append(("FieldValueNotSupported", why, "spec.template.spec.restartPolicy"))
    if spec.get("podFailurePolicy") and template["restartPolicy"] != "Never":
        why = 'only "Never" is supported when podFailurePolicy is specified'
        causes.append(_wrong("spec.template.spec.restartPolicy", template["restartPolicy"], why))
    if spec["completionMode"] == "Indexed" and spec.get("completions") is None:
        causes.append(_required("spec.completions", "when completion mode is Indexed"))
    if spec.get("podFailurePolicy") and spec.get("podReplacementPolicy") != "Failed":
        why = "must be Failed when podFailurePolicy is used"
        causes.append(_wrong("spec.podReplacementPolicy", spec.get("podReplacementPolicy"), why))
    return causes


def _changed_job(before: Object, after: Object, subresource: str) -> list[Cause]:
    old, new = before["spec"], after["spec"]
    if subresource == "status" or old == new:
        return []
    fixed = (
        "selector",
        "completionMode",
        "podFailurePolicy",
        "successPolicy",
        "backoffLimitPerIndex",
        "managedBy",
    )
    causes = [
        _wrong(f"spec.{field}", new.get(field), _IMMUTABLE)
        for field in fixed
        if old.get(field) != new.get(field)
    ]
    if old.get("completions") != new.get("completions") and not _elastic(new):
        causes.append(_wrong("spec.completions", new.get("completions"), _IMMUTABLE))
    if old["template"] != new["template"] and not _same_template(before, old["template"], new):
        causes.append(_wrong("spec.template", new["template"], _IMMUTABLE))
    return causes


def _elastic(spec: Object) -> bool:
    return spec["completionMode"] == "Indexed" and spec.get("completions") == spec.get("parallelism")


def _same_template(job: Object, old: Object, new_spec: Object) -> bool:
    """Return whether a template differs only in what a suspended Job without pods may change."""
    status = job.get("status") or {}
    suspended = any(
        entry["type"] == "Suspended" and entry["status"] == "True" for entry in status.get("conditions") or []
    )
    never_ran = status.get("startTime") is None
    if not job["spec"].get("suspend") or not (never_ran or (suspended and not status.get("active"))):
        return False
    return _bare(old) == _bare(new_spec["template"])


def _bare(template: Object) -> Object:
    spec = {key: value for key, value in template["spec"].items() if key not in _WHILE_SUSPENDED}
    for group in ("containers", "initContainers"):
        if group in spec:
            spec[group] = [{**container, "resources": {}} for container in spec[group]]
    metadata = template.get("metadata") or {}
    return {
        "spec": spec,
        "metadata": {k: v for k, v in metadata.items() if k not in {"labels", "annotations"}},
    }


def _changed_job_set(before: Object, after: Object) -> list[Cause]:
    """Refuse what the webhook of JobSet refuses: all but suspension, and the numbers of Indexed Jobs."""
    old, new = before["spec"]["replicatedJobs"], after["spec"]["replicatedJobs"]
    suspended = before["spec"].get("suspend") or after["spec"].get("suspend")
    shown = [_fixed(each, suspended=bool(suspended)) for each in old]
    if shown == [_fixed(each, suspended=bool(suspended)) for each in new]:
        return []
    return [_wrong("spec.replicatedJobs", new, _IMMUTABLE)]


def _fixed(replicated: Object, *, suspended: bool) -> Object:
    """Return what of a replicated job may not change."""
    job = dict(replicated["template"]["spec"])
    if job.get("completionMode") == "Indexed" and job.get("completions") == job.get("parallelism"):
        job = {key: value for key, value in job.items() if key not in {"completions", "parallelism"}}
    if suspended:
        job["template"] = _bare(job["template"])
    return {**replicated, "template": job}


def _changed_train_job(before: Object, after: Object) -> list[Cause]:
    old, new = before["spec"], after["spec"]
    return [
        _wrong(f"spec.{field}", new.get(field), f"{field} is immutable")
        for field in ("trainer", "runtimeRef", "managedBy")
        if old.get(field) != new.get(field)
    ]


def _stateful_set(before: Object | None, after: Object) -> list[Cause]:
    if before is None:
        return []
    may = {
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    }
    old, new = before["spec"], after["spec"]
    if any(old.get(field) != new.get(field) for field in {*old, *new} - may):
        why = (
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
            "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
            "'minReadySeconds' are forbidden"
        )
        return [_forbidden("spec", why)]
    return []
