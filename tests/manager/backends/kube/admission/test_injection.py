"""The pod with its sidecar, on pods as they are in real life, each as a whole."""

import copy

import msgspec
import pytest

from specon_manager.backends.kube.admission.injection import InjectionSettings, inject
from specon_manager.backends.kube.admission.trainer_container import PodRefusedError
from specon_manager.backends.kube.objects.annotation_reader import read_options
from specon_sidecar.settings import read_settings
from support.kube.pods import (
    CLAIM,
    MOUNT,
    TOKEN_VOLUME,
    annotated,
    job_pod,
    kubeflow_pod,
    mesh_pod,
    owned_by,
    pod,
    stateful_pod,
    trainer,
)

SETTINGS = InjectionSettings(
    image="registry.example/specon-sidecar:0.2.0",
    manager="https://specon-reports.specon.svc:443",
    ca_bundle="-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
)


def injected(manifest, pins=None, settings=SETTINGS):
    options = read_options(manifest["metadata"].get("annotations") or {})
    return inject(manifest, "ml", options, settings, pins or {})


def sidecar_of(manifest):
    return next(one for one in manifest["spec"]["initContainers"] if one["name"] == "specon-sidecar")


def arguments_of(manifest):
    return [argument.replace("$$", "$") for argument in sidecar_of(manifest)["args"]]


def refusal_of(manifest):
    with pytest.raises(PodRefusedError) as caught:
        injected(manifest)
    return str(caught.value)


def test_a_bare_pod_gets_a_sidecar_and_nothing_else_changes():
    """The whole pod, as it is created."""
    given = pod("mnist", annotations=annotated(checkpoint="periodic"))
    done = injected(given)
    assert done.warnings == ()
    expected = copy.deepcopy(given)
    expected["metadata"]["labels"] = {"specon.io/sidecar": "injected"}
    expected["metadata"]["annotations"] |= {
        "specon.io/ca": SETTINGS.ca_bundle,
        "specon.io/replica": "ml/mnist/worker/0",
    }
    expected["spec"]["containers"][0]["env"] = [{"name": "SPECON_TRAINER", "value": "1"}]
    expected["spec"]["volumes"].append(
        {
            "name": "specon-identity",
            "projected": {
                "sources": [
                    {
                        "serviceAccountToken": {
                            "audience": "specon.io/manager",
                            "expirationSeconds": 3600,
                            "path": "token",
                        }
                    },
                    {
                        "downwardAPI": {
                            "items": [
                                {
                                    "path": "ca.crt",
                                    "fieldRef": {
                                        "apiVersion": "v1",
                                        "fieldPath": "metadata.annotations['specon.io/ca']",
                                    },
                                }
                            ]
                        }
                    },
                ]
            },
        }
    )
    expected["spec"]["initContainers"] = [
        {
            "name": "specon-sidecar",
            "image": "registry.example/specon-sidecar:0.2.0",
            "imagePullPolicy": "IfNotPresent",
            "restartPolicy": "Always",
            "args": [
                "--replica=ml/mnist/worker/0",
                "--incarnation=$(SPECON_POD_UID)",
                "--log=/data/train.log",
                "--checkpoint-path=/data/checkpoints",
                "--manager=https://specon-reports.specon.svc:443",
                "--token-file=/var/run/specon/token",
                "--ca-file=/var/run/specon/ca.crt",
                "--fresh-from=now",
                "--heartbeat=10",
                "--checkpoint=periodic",
            ],
            "env": [
                {
                    "name": "SPECON_POD_UID",
                    "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.uid"}},
                }
            ],
            "resources": {
                "requests": {"cpu": "20m", "memory": "64Mi"},
                "limits": {"cpu": "500m", "memory": "192Mi"},
            },
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "readOnlyRootFilesystem": True,
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "volumeMounts": [
                {"name": "data", "mountPath": "/data", "readOnly": True},
                {"name": "specon-identity", "mountPath": "/var/run/specon", "readOnly": True},
                {
                    "name": "specon-identity",
                    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                    "readOnly": True,
                },
            ],
            "terminationMessagePolicy": "FallbackToLogsOnError",
        }
    ]
    assert done.pod == expected


@pytest.mark.parametrize(
    ("manifest", "replica"),
    [
        (job_pod("resnet"), "ml/resnet/worker/0"),
        (job_pod("resnet", 3), "ml/resnet/worker/3"),
        (stateful_pod("bert", 2), "ml/bert/worker/2"),
        (kubeflow_pod("PyTorchJob", "gpt", "worker", 1), "ml/gpt/worker/2"),
        (kubeflow_pod("TFJob", "tf", "ps", 0, container="tensorflow"), "ml/tf/ps/0"),
        (mesh_pod(), "ml/meshed/worker/0"),
        (mesh_pod(native=False), "ml/meshed/worker/0"),
    ],
    ids=["job", "indexed", "stateful", "pytorch", "tensorflow", "mesh", "mesh container"],
)
def test_what_operators_make_gets_its_name(manifest, replica):
    """Replica known, sidecar last, everything else as it was."""
    done = injected(manifest).pod
    assert done["metadata"]["annotations"]["specon.io/replica"] == replica
    assert done["spec"]["initContainers"][-1]["name"] == "specon-sidecar"
    assert f"--replica={replica}" in arguments_of(done)
    before = manifest["spec"].get("initContainers", [])
    assert done["spec"]["initContainers"][:-1] == before
    for was, now in zip(manifest["spec"]["containers"], done["spec"]["containers"], strict=True):
        marked = [one for one in now.pop("env", []) if one["name"] != "SPECON_TRAINER"]
        assert {**was, "env": was.get("env", [])} == {**now, "env": marked}


def test_a_pod_that_is_named_later_tells_its_name_by_its_environment():
    """A bare pod with generateName has no name when it is admitted."""
    given = pod("", generateName="run-")
    done = injected(given).pod
    assert "--replica=$(SPECON_POD_NAMESPACE)/$(SPECON_POD_NAME)/worker/0" in arguments_of(done)
    names = [one["name"] for one in sidecar_of(done)["env"]]
    assert names == ["SPECON_POD_UID", "SPECON_POD_NAME", "SPECON_POD_NAMESPACE"]
    assert "specon.io/replica" not in done["metadata"]["annotations"]


def test_the_sidecar_understands_its_arguments():
    """All of them, from whatever annotations, read back as they were meant: a dollar sign too."""
    options = annotated(
        log_path="/data/a b/train.log",
        format="regular-expression",
        pattern=r"loss=(?P<value>\S+)$ $(HOME) $$",
        metric="loss",
        goal="min",
        classifier="specon",
        alpha="0.02",
        interval="2m",
        checkpoint="http://localhost:8080/save",
        checkpoint_path="/data/best",
        marker="{name}.done",
        heartbeat="5s",
    )
    done = injected(pod("mnist", annotations=options)).pod
    arguments = [one.replace("$(SPECON_POD_UID)", "0b1c") for one in arguments_of(done)]
    read = read_settings(arguments, {})
    assert read.log == "/data/a b/train.log"
    assert read.pattern == r"loss=(?P<value>\S+)$ $(HOME) $$"
    assert (read.format, read.metric, read.marker) == ("regular-expression", "loss", "{name}.done")
    assert (read.classifier.goal, read.classifier.alpha, read.classifier.interval) == ("min", 0.02, 120.0)
    assert (str(read.checkpoint), read.checkpoint_path) == ("http:http://localhost:8080/save", "/data/best")
    assert (read.manager, read.replica, read.incarnation) == (SETTINGS.manager, "ml/mnist/worker/0", "0b1c")
    assert (read.heartbeat, read.fresh_from) == (5.0, None)


def test_a_dollar_sign_is_doubled():
    """Kubernetes would take a single one for the begin of a variable."""
    options = annotated(format="regular-expression", pattern="(?P<value>.)$(X)$")
    done = injected(pod(annotations=options)).pod
    assert "--pattern=(?P<value>.)$$(X)$$" in sidecar_of(done)["args"]


# -- volumes ----------------------------------------------------------------------------------


def test_the_deepest_mount_holds_the_log():
    """As in the trainer's container: same path, same part of the volume."""
    mounts = [
        {"name": "data", "mountPath": "/data"},
        {"name": "logs", "mountPath": "/data/logs/", "subPath": "run-7"},
        {"name": "data", "mountPath": "/data-2"},
    ]
    spec = {
        "containers": [trainer(volumeMounts=mounts)],
        "volumes": [CLAIM, {"name": "logs", "emptyDir": {}}],
    }
    options = annotated(log_path="/data/logs/train.log", checkpoint_path="/data/checkpoints")
    done = injected(pod(annotations=options, spec=spec)).pod
    assert sidecar_of(done)["volumeMounts"][:-2] == [
        {"name": "logs", "mountPath": "/data/logs/", "subPath": "run-7", "readOnly": True},
        {"name": "data", "mountPath": "/data", "readOnly": True},
    ]


@pytest.mark.parametrize("path", [None, 7, [["/data"]], {"a": "/data"}])
def test_a_mount_whose_path_is_no_text_is_none(path):
    """A path of two million brackets would else be written out at each look, beyond the time of a review."""
    spec = {"containers": [trainer(volumeMounts=[{**MOUNT, "mountPath": path}])], "volumes": [CLAIM]}
    assert "It mounts no persistent volume claim" in refusal_of(pod(annotations=annotated(), spec=spec))


def test_an_expression_in_a_mount_brings_its_variables():
    """`subPathExpr` is filled in from the container's own environment."""
    environment = [
        {"name": "OTHER", "value": "1"},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "RUN", "value": "run-$(POD)"},
    ]
    mount = {**MOUNT, "subPathExpr": "$(RUN)/x"}
    spec = {"containers": [trainer(env=environment, volumeMounts=[mount])]}
    done = injected(pod(spec=spec)).pod
    assert sidecar_of(done)["env"][1:] == environment[1:]
    assert sidecar_of(done)["volumeMounts"][0]["subPathExpr"] == "$(RUN)/x"
    spec["containers"][0]["env"] = []
    assert "names the variable 'RUN'" in refusal_of(pod(spec=spec))


def test_only_a_request_file_makes_its_volume_writable():
    """And then only the volume that it is on."""
    mounts = [MOUNT, {"name": "asks", "mountPath": "/asks"}]
    spec = {
        "containers": [trainer(volumeMounts=mounts, securityContext={"runAsUser": 1000})],
        "volumes": [CLAIM, {"name": "asks", "emptyDir": {}}],
    }
    done = injected(pod(annotations=annotated(checkpoint="file:/asks/save"), spec=spec))
    assert done.warnings == ()
    assert sidecar_of(done.pod)["volumeMounts"][:-2] == [
        {"name": "data", "mountPath": "/data", "readOnly": True},
        {"name": "asks", "mountPath": "/asks"},
    ]


def test_who_cannot_write_the_request_file_is_warned():
    """The sidecar is never root, and the trainer may be."""
    done = injected(pod(annotations=annotated(checkpoint="file:/data/save")))
    assert done.warnings == (
        (
            "specon.io/checkpoint: the sidecar, which never runs as root, may not be able to create "
            "/data/save: set securityContext.runAsUser or fsGroup"
        ),
    )
    grouped = pod(
        annotations=annotated(checkpoint="file:/data/save"), spec={"securityContext": {"fsGroup": 7}}
    )
    assert injected(grouped).warnings == ()


def test_what_is_printed_needs_no_volume():
    """The manager relays it; Python is told to keep nothing to itself, unless its owner says something."""
    relaying = msgspec.structs.replace(SETTINGS, relays_output=True)
    options = annotated(log_path="stdout", checkpoint="none")
    bare = pod(annotations=options, spec={"containers": [trainer(volumeMounts=[])]})
    done = injected(bare, settings=relaying).pod
    assert {"--log=stdout", "--log-container=trainer"} <= set(arguments_of(done))
    mounted = {one["name"] for one in sidecar_of(done)["volumeMounts"]}
    assert mounted == {"specon-identity"}
    assert done["spec"]["containers"][0]["env"][-1] == {"name": "PYTHONUNBUFFERED", "value": "1"}
    said = [{"name": "PYTHONUNBUFFERED", "value": ""}]
    own = pod(annotations=options, spec={"containers": [trainer(env=said)]})
    assert injected(own, settings=relaying).pod["spec"]["containers"][0]["env"][:1] == said
    assert "log-path: standard output is not relayed on this cluster" in refusal_of(bare)


def _spec(**changes):
    return {"containers": [trainer(**changes)], "volumes": [CLAIM, TOKEN_VOLUME]}


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (
            pod(spec=_spec(volumeMounts=[])),
            (
                "where does container 'trainer' write the training log? It mounts no persistent volume "
                "claim; add the annotation specon.io/log-path"
            ),
        ),
        (
            pod(spec=_spec(volumeMounts=[MOUNT, {"name": "data", "mountPath": "/other"}])),
            (
                "where does container 'trainer' write the training log? It mounts several persistent volume "
                "claims (mounted at /data, /other); add the annotation specon.io/log-path"
            ),
        ),
        (
            pod(annotations=annotated(log_path="/tmp/train.log")),
            (
                "specon.io/log-path: '/tmp/train.log' is on no volume of container 'trainer', so the "
                "sidecar cannot see it; its volumes are mounted at /data, "
                "/var/run/secrets/kubernetes.io/serviceaccount"
            ),
        ),
        (
            pod(annotations=annotated(container="train")),
            "specon.io/container: 'train' is not a container of the pod; there are trainer",
        ),
        (
            pod(spec={"containers": [trainer("a"), trainer("b")]}),
            "which container trains? Name it with specon.io/container; there are a, b",
        ),
        (
            pod(annotations=annotated(checkpoint="signal:USR1")),
            (
                "specon.io/checkpoint: 'signal:USR1' needs the sidecar to run as the trainer's user, never "
                "as root: set securityContext.runAsUser, not 0 (it is None)"
            ),
        ),
        (
            pod(
                annotations=annotated(checkpoint="signal:USR1"),
                spec={"securityContext": {"runAsUser": 1000}, "shareProcessNamespace": False},
            ),
            "specon.io/checkpoint: 'signal:USR1' needs shareProcessNamespace, and the pod says false",
        ),
        (
            pod(spec={"os": {"name": "windows"}}),
            "the sidecar runs on Linux only, and the pod asks for windows",
        ),
        (
            pod(ownerReferences=owned_by("TFJob", "x", api="kubeflow.org/v1")),
            (
                "the pod cannot be named as a replica: neither its own name nor its owner's labels and "
                "indices tell which of its job's replicas it is"
            ),
        ),
    ],
    ids=[
        "no claim",
        "claims",
        "no volume",
        "container",
        "containers",
        "root",
        "apart",
        "windows",
        "nameless",
    ],
)
def test_a_sidecar_that_could_not_work_is_refused(manifest, said):
    """With what to change."""
    assert refusal_of(manifest) == said


def test_a_job_without_checkpoints_needs_no_place_for_them():
    """It can be watched, though not moved."""
    options = annotated(log_path="/scratch/train.log", checkpoint="none")
    spec = {
        "containers": [trainer(volumeMounts=[{"name": "scratch", "mountPath": "/scratch"}])],
        "volumes": [{"name": "scratch", "emptyDir": {}}],
    }
    done = injected(pod(annotations=options, spec=spec)).pod
    assert not any(one.startswith("--checkpoint-path") for one in arguments_of(done))


# -- who it runs as ---------------------------------------------------------------------------


def test_a_signal_needs_one_user_and_one_process_namespace():
    """The trainer's user id, the shared namespace, and the mark by which its process is found."""
    options = annotated(checkpoint="signal:USR1")
    own = {"runAsUser": 1000, "runAsGroup": 50, "seLinuxOptions": {"level": "s0:c1"}}
    spec = {"containers": [trainer(securityContext=own)], "securityContext": {"runAsUser": 7}}
    done = injected(pod(annotations=options, spec=spec)).pod
    assert done["spec"]["shareProcessNamespace"] is True
    assert {"name": "SPECON_TRAINER", "value": "1"} in done["spec"]["containers"][0]["env"]
    assert "--trainer-pid=auto" in arguments_of(done)
    context = sidecar_of(done)["securityContext"]
    assert {key: context[key] for key in own} == own
    assert context["runAsNonRoot"] is True


def test_no_other_mode_shares_the_process_namespace():
    """The trainer would not be process 1 any more."""
    for mode in ("periodic", "file:/data/x", "http:http://localhost:1/x", "sigterm", "none"):
        done = injected(pod(annotations=annotated(checkpoint=mode))).pod
        assert "shareProcessNamespace" not in done["spec"]


@pytest.mark.parametrize(
    ("spec", "shared"),
    [
        ({"securityContext": {"runAsUser": 1000}}, True),
        ({"securityContext": {"runAsUser": 1000}, "shareProcessNamespace": False}, False),
        ({"securityContext": {"runAsUser": 1000}, "hostPID": True}, None),
        ({}, None),
    ],
)
def test_who_wants_what_hangs_restarted_lets_its_processes_be_seen(spec, shared):
    """Where the sidecar is of the trainer's user, and the pod does not say otherwise."""
    done = injected(pod(annotations=annotated(on_hang="restart"), spec=spec)).pod
    assert done["spec"].get("shareProcessNamespace") is shared
    assert "--trainer-pid=auto" in arguments_of(done)


@pytest.mark.parametrize(("user", "expected"), [(0, 65532), (None, 65532), (1234, 1234)])
def test_the_sidecar_is_never_root(user, expected):
    """Even where the trainer is."""
    spec = {} if user is None else {"securityContext": {"runAsUser": user}}
    assert sidecar_of(injected(pod(spec=spec)).pod)["securityContext"]["runAsUser"] == expected


def test_a_guaranteed_pod_stays_guaranteed():
    """Requests equal limits in all containers, so in the sidecar too: exclusive CPUs depend on it."""
    equal = {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"cpu": "2", "memory": "4Gi"}}
    done = injected(pod(spec={"containers": [trainer(resources=equal)]})).pod
    resources = sidecar_of(done)["resources"]
    assert resources["requests"] == resources["limits"] == {"cpu": "500m", "memory": "192Mi"}


# -- again, and on which node -----------------------------------------------------------------


def test_a_pod_that_has_a_sidecar_keeps_it():
    """As it is, even with another image: a re-created pod, or one that another webhook changed since."""
    once = injected(pod("mnist")).pod
    sidecar_of(once)["image"] = "mirror.example/specon-sidecar@sha256:12"
    once["spec"]["containers"].append({"name": "proxy", "image": "proxy:1"})
    again = injected(once).pod
    assert again == once


def test_what_is_missing_beside_a_sidecar_is_added():
    """Label, volume, annotations."""
    once = injected(pod("mnist")).pod
    partial = copy.deepcopy(once)
    partial["metadata"]["labels"] = None
    partial["spec"]["volumes"] = partial["spec"]["volumes"][:-1]
    del partial["metadata"]["annotations"]["specon.io/ca"]
    assert injected(partial).pod == once


def test_a_pinned_replica_goes_to_its_node():
    """By the node's hostname label; the annotation says that this was our choice."""
    given = job_pod("resnet", 1)
    given["spec"]["nodeSelector"] = {"gpu": "a100"}
    done = injected(given, {"ml/resnet/worker/1": "node-3", "ml/resnet/worker/0": "node-2"})
    assert done.pod["spec"]["nodeSelector"] == {"gpu": "a100", "kubernetes.io/hostname": "node-3"}
    assert done.pod["metadata"]["annotations"]["specon.io/pinned"] == "node-3"
    assert done.warnings == ()
    again = injected(done.pod, {"ml/resnet/worker/1": "node-3"})
    assert again.pod == done.pod


def test_a_node_that_its_owner_chose_stays():
    """A warning, and no pin."""
    given = pod("mnist", spec={"nodeSelector": {"kubernetes.io/hostname": "node-1"}})
    done = injected(given, {"ml/mnist/worker/0": "node-3"})
    assert done.pod["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "node-1"}
    assert "specon.io/pinned" not in done.pod["metadata"]["annotations"]
    assert done.warnings == (
        "specon: ml/mnist/worker/0 was to be on node-3, but its nodeSelector asks for node-1",
    )


def test_a_bound_pod_is_not_pinned():
    """Its node is decided: only the sidecar is added."""
    done = injected(pod("mnist", spec={"nodeName": "node-1"}), {"ml/mnist/worker/0": "node-3"})
    assert "nodeSelector" not in done.pod["spec"]
    assert sidecar_of(done.pod)


def test_what_a_copied_manifest_brings_along_is_set_right():
    """The name of another replica, and a pin that is none."""
    given = pod("copy", annotations=annotated())
    given["metadata"]["annotations"] |= {
        "specon.io/replica": "ml/mnist/worker/0",
        "specon.io/pinned": "node-3",
    }
    annotations = injected(given).pod["metadata"]["annotations"]
    assert annotations["specon.io/replica"] == "ml/copy/worker/0"
    assert "specon.io/pinned" not in annotations


def test_without_own_authorities_the_image_s_are_used():
    """A certificate that everybody trusts needs neither annotation nor file."""
    done = injected(pod("mnist"), settings=msgspec.structs.replace(SETTINGS, ca_bundle="")).pod
    assert "specon.io/ca" not in done["metadata"]["annotations"]
    assert not any("ca.crt" in one for one in arguments_of(done))
    assert len(done["spec"]["volumes"][-1]["projected"]["sources"]) == 1


def test_the_given_pod_is_not_changed():
    """The patch is from what the API server has."""
    given = kubeflow_pod()
    before = copy.deepcopy(given)
    injected(given, {"ml/gpt/worker/2": "node-3"})
    assert given == before


@pytest.mark.parametrize(
    ("given", "asked", "becomes"), [(None, "2m", 120), (300, "2m", 300), (None, "5", 30)]
)
def test_a_longer_grace_is_the_pods_own(given, asked, becomes):
    """Who suspends an owner cannot ask for more time than the pod has; a shorter one holds for evictions."""
    manifest = pod("mnist", annotations=annotated(**{"grace-period": asked}))
    if given is not None:
        manifest["spec"]["terminationGracePeriodSeconds"] = given
    assert injected(manifest).pod["spec"]["terminationGracePeriodSeconds"] == becomes


# -- turns on GPUs -------------------------------------------------------------------------------


def sharing_pod(*, container=None, **spec):
    """Return a pod that may take turns, but for what is changed."""
    asked = annotated(share="time", gpu_memory="10Gi", checkpoint="none")
    gpu = {"resources": {"limits": {"nvidia.com/gpu": "1"}}, "securityContext": {"runAsUser": 1000}}
    given = {"containers": [trainer(**{**gpu, **(container or {})})], "shareProcessNamespace": True, **spec}
    return pod(annotations=asked, spec={**pod()["spec"], **given})


def test_a_sidecar_that_shares_sees_its_trainer_and_is_told_to():
    """As the trainer's user; what it shares is the pod's own word."""
    done = injected(sharing_pod()).pod
    assert {"--share=time", "--trainer-pid=auto"} <= set(arguments_of(done))
    assert sidecar_of(done)["securityContext"]["runAsUser"] == 1000
    assert injected(done).pod == done


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (
            sharing_pod(shareProcessNamespace=False),
            "the pod needs shareProcessNamespace: true, so that its sidecar sees the trainer's processes",
        ),
        (sharing_pod(hostPID=True), "the pod has hostPID, and so sees the processes of the whole node"),
        (
            sharing_pod(container={"securityContext": {}}),
            "securityContext.runAsUser must be set, and not 0 (it is None): its sidecar is that user too",
        ),
        (
            sharing_pod(container={"securityContext": {"runAsUser": 0}}),
            "securityContext.runAsUser must be set, and not 0 (it is 0): its sidecar is that user too",
        ),
        (
            sharing_pod(container={"resources": {"requests": {"cpu": "2"}}}),
            "its trainer requests no GPU; processors are lent by specon.io/min-cpu",
        ),
        (
            sharing_pod(container={"env": [{"name": "CUDA_MPS_PIPE_DIRECTORY", "value": "/mps"}]}),
            (
                "its GPUs are shared by MPS (CUDA_MPS_PIPE_DIRECTORY is set), under which no process may be "
                "stopped"
            ),
        ),
        (
            sharing_pod(
                initContainers=[{"name": "specon-sidecar", "securityContext": {"runAsUser": 7}}],
            ),
            "its trainer runs as user 1000 and its sidecar as 7, which may not signal it",
        ),
    ],
    ids=["apart", "host", "unnamed", "root", "no gpu", "mps", "another"],
)
def test_who_could_not_take_turns_is_refused(manifest, said):
    """With what to change."""
    assert refusal_of(manifest) == f"specon.io/share: 'time' is not possible: {said}"
