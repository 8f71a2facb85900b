"""`specon init`: what it finds, what it writes, and that its readers accept each line."""

import json
import os

import pytest
import yaml

from specon_manager.__main__ import main
from specon_manager.backends.kube.objects.annotation_keys import PREFIX
from specon_manager.backends.kube.objects.annotation_reader import read_options
from specon_manager.backends.local.jobs import read_job_file
from specon_manager.cli.begin.line import UNSURE
from specon_manager.cli.begin.script import LONGEST, read_script

LOOP = """
import numpy
def main():
    numpy.save("out/step-3.npy", 1)
if __name__ == "__main__":
    main()
"""
JOB = """\
# ours
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  template:
    metadata:
      labels: {app: train}   # kept
    spec:
      containers:
        - name: trainer
          image: x
          args: [loop.py, --log=/data/run.log, --checkpoint-dir, /data/saved]
          volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: x}}]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines_of(text):
    """Return the text once as it is, and once for each proposal with that taken."""
    yield text
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.lstrip().startswith(UNSURE):
            taken = [*lines]
            taken[number] = line.replace(UNSURE, "", 1)
            yield "\n".join(taken)


def written(arguments, capsys):
    assert main(["init", *arguments]) == 0
    return capsys.readouterr().out


def test_a_folder_becomes_a_job_file_that_its_reader_accepts(folder, capsys):
    """Script, log and checkpoints of an earlier run are found; each proposal is accepted, too."""
    (folder / "loop.py").write_text(LOOP)
    (folder / "helpers.py").write_text("import os\n")
    (folder / "run.log").write_text("".join(f"iteration {i} toll 0.{900 - i}\n" for i in range(60)))
    (folder / "out").mkdir()
    (folder / "out" / "step-3.npz").write_bytes(b"PK\3\4")
    said = written([], capsys)
    text = (folder / "jobs.yaml").read_text()
    [job] = read_job_file(text).jobs
    assert job.name == "loop"
    assert job.arguments[-1] == "loop.py"
    assert job.checkpoint_path == "out"
    assert "next: specon local jobs.yaml" in said
    proposals = [read_job_file(each).jobs[0] for each in lines_of(text)][1:]
    assert {each.pattern for each in proposals} == {
        None,
        r"iteration (?P<step>\d+) toll (?P<value>[-+.\deE]+)",
    }
    assert "signal:USR1" in {each.checkpoint for each in proposals}


def test_names_in_the_script_are_proposed_before_there_is_a_run(folder, capsys):
    """The defaults of its flags are better proposals than names that nobody chose."""
    (folder / "train.py").write_text(
        "p.add_argument('--log', default='logs/loss.log')\np.add_argument('--out', default='my-ckpts')\n"
        "if __name__ == '__main__': go()\n"
    )
    proposals = {
        each["key"]: each["value"]
        for each in json.loads(written(["-o", "json"], capsys))["lines"]
        if not each["sure"]
    }
    assert proposals["log"] == "logs/loss.log"
    assert proposals["checkpoint_path"] == "my-ckpts"


def test_the_next_command_is_one_that_can_succeed(folder, capsys):
    """A command that only you know comes before a start that would fail."""
    assert "next: complete command, then check it: specon doctor --file jobs.yaml" in written([], capsys)
    (folder / "go.py").write_text(
        "p.add_argument('--data', required=True)\nif __name__ == '__main__': go()\n"
    )
    assert "next: complete command" in written(["--force"], capsys)
    (folder / "go.py").write_text("if __name__ == '__main__': go()\n")
    assert written(["--force"], capsys).endswith("next: specon local jobs.yaml\n")


def test_what_is_recognised_is_sure_and_a_log_that_the_script_names_is_followed(folder, capsys):
    """Format and metric stand in the file; the log is followed where the script has its name in it."""
    (folder / "loop.py").write_text(LOOP.replace("step-3.npy", "metrics.jsonl"))
    rows = [json.dumps({"step": i, "loss": 1 / (i + 1)}) for i in range(40)]
    (folder / "metrics.jsonl").write_text("\n".join(rows))
    written([], capsys)
    [job] = read_job_file((folder / "jobs.yaml").read_text()).jobs
    assert (job.log, job.format, job.metric) == ("metrics.jsonl", "json-lines", "loss")


@pytest.mark.parametrize(
    ("package", "more"), [("transformers", set()), ("lightning", set()), ("torch", {"checkpoint_path"})]
)
def test_a_framework_that_the_helper_knows_is_instrumented(folder, capsys, package, more):
    """Then neither log nor checkpoints have to be named; a loop of PyTorch may name its folder."""
    (folder / "train.py").write_text(f"import {package}\nprint(1)\n")
    told = json.loads(written(["-o", "json"], capsys))
    keys = {line["key"] for line in told["lines"]}
    assert keys == {"name", "command", "instrument"} | more
    assert read_job_file(told["text"]).jobs[0].instrument


def test_a_script_elsewhere_and_its_arguments_are_named(folder, tmp_path_factory, capsys):
    """The job runs where the script lies, and what it will not start without is said."""
    other = tmp_path_factory.mktemp("other project")
    (other / "go.py").write_text("p.add_argument('--data', required=True); p.add_argument('name')\n")
    text = written([str(other / "go.py"), "--out", "-"], capsys)
    assert "ADD ITS ARGUMENTS: --data name" in text
    assert read_job_file(text).jobs[0].working_directory == str(other)


def test_nothing_is_overwritten_without_force(folder, capsys):
    """The file that is there stays, and the answer names the flag."""
    (folder / "jobs.yaml").write_text("mine")
    assert main(["init"]) == 2
    assert "jobs.yaml is there already: --force overwrites it" in capsys.readouterr().err
    assert (folder / "jobs.yaml").read_text() == "mine"
    assert main(["init", "--force"]) == 0
    assert "FILL IN: no script that trains was found here" in (folder / "jobs.yaml").read_text()


def test_nothing_is_executed_and_what_is_no_python_is_passed_over(folder, capsys):
    """A script is parsed: one that would do harm, one of another language and a huge one do none."""
    (folder / "train.py").write_text("import torch, pathlib\npathlib.Path('ran').touch()\n")
    (folder / "broken.py").write_bytes(b"\0\xff(((")
    (folder / "deep.py").write_text("x = " + "(" * 5000)
    (folder / "pipe.log").touch()
    os.mkfifo(folder / "fifo.log")
    written([], capsys)
    assert not (folder / "ran").exists()
    assert read_script(b"#" * (LONGEST + 1)) is None


def test_names_of_others_stay_inside_their_comment(folder, capsys):
    """A line break in a name of a file, a folder or a container writes no line of its own."""
    (folder / "train.py").write_text("import torch\n")
    (folder / "a\npolicy: fifo\n.py").write_text("import torch\n")
    text = written(["--out", "-"], capsys)
    assert yaml.safe_load(text).keys() == {"jobs"}
    pod = {
        "kind": "Pod",
        "metadata": {"name": "x"},
        "spec": {"containers": [{"name": "a\nb: c"}, {"name": "d"}]},
    }
    (folder / "pod.yaml").write_text(yaml.safe_dump(pod))
    annotated = yaml.safe_load(written(["pod.yaml"], capsys))
    assert annotated.keys() == pod.keys()
    assert annotated["spec"] == pod["spec"]


def test_a_manifest_keeps_its_text_and_gets_annotations_that_admission_accepts(folder, capsys):
    """Lines are inserted, nothing else changes; paths are those of the command."""
    (folder / "job.yaml").write_text(JOB)
    (folder / "loop.py").write_text(LOOP)
    text = written(["job.yaml"], capsys)
    kept = [line for line in text.splitlines() if PREFIX not in line and "annotations:" not in line]
    assert [line for line in kept if "# Note:" not in line] == JOB.splitlines()
    annotations = yaml.safe_load(text)["spec"]["template"]["metadata"]["annotations"]
    assert annotations == {
        "specon.io/inject": "true",
        "specon.io/log-path": "/data/run.log",
        "specon.io/checkpoint-path": "/data/saved",
    }
    for each in lines_of(text):
        read_options(yaml.safe_load(each)["spec"]["template"]["metadata"]["annotations"])
    (folder / "job.yaml").write_text(text)
    assert (
        "specon.io"
        not in written(["job.yaml", "-o", "json"], capsys).partition('"lines"')[2].partition("]")[0]
    )


class WithoutAliases(yaml.SafeDumper):
    def ignore_aliases(self, data):
        return True


TEMPLATE = {"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]}}


@pytest.mark.parametrize(
    ("kind", "spec", "count"),
    [
        ("Job", {"template": TEMPLATE}, 1),
        ("CronJob", {"jobTemplate": {"spec": {"template": TEMPLATE}}}, 1),
        ("StatefulSet", {"template": TEMPLATE}, 1),
        (
            "PyTorchJob",
            {"pytorchReplicaSpecs": {"Master": {"template": TEMPLATE}, "Worker": {"template": TEMPLATE}}},
            2,
        ),
        ("TFJob", {"tfReplicaSpecs": {"PS": {"template": TEMPLATE}}}, 1),
        ("MPIJob", {"mpiReplicaSpecs": {"Launcher": {"template": TEMPLATE}}}, 1),
        ("JobSet", {"replicatedJobs": [{"name": "w", "template": {"spec": {"template": TEMPLATE}}}]}, 1),
        ("LeaderWorkerSet", {"leaderWorkerTemplate": {"size": 2, "workerTemplate": TEMPLATE}}, 1),
        (
            "LeaderWorkerSet",
            {"leaderWorkerTemplate": {"leaderTemplate": TEMPLATE, "workerTemplate": TEMPLATE}},
            2,
        ),
    ],
)
def test_each_kind_is_annotated_in_its_pod_templates(folder, capsys, kind, spec, count):
    """Also where there is no metadata yet; which of several containers trains is asked."""
    (folder / "job.yaml").write_text(
        yaml.dump({"kind": kind, "metadata": {"name": "x"}, "spec": spec}, Dumper=WithoutAliases)
    )
    text = written(["job.yaml"], capsys)
    assert text.count('specon.io/inject: "true"') == count
    assert text.count("which of 2 containers trains: is it this one?") == count
    assert yaml.safe_load(text)["metadata"] == {"name": "x"}


TRAIN_JOB = """\
kind: TrainJob
metadata:
  name: bert
spec:
  runtimeRef:
    name: torch-distributed
  trainer:
    numNodes: 2
    command: [python, loop.py, --log, /data/run.log, --out, /data/saved]
"""
OVERRIDES = """\
  podTemplateOverrides:
    - targetJobs:
        - name: dataset-initializer
      spec: {}
    - targetJobs:
        - name: node
      spec: {}
"""
OF_ANOTHER = """\
  runtimePatches:
  - manager: kueue.x-k8s.io/manager
    trainingRuntimeSpec:
      template:
        spec:
          replicatedJobs:
          - name: model-initializer
            template: {}
"""
OWN = """\
  runtimePatches:
    - manager: example.com/me
      trainingRuntimeSpec:
        template:
          spec:
            replicatedJobs:
              - name: node
                template:
                  spec:
                    template:
                      spec:
                        nodeSelector: {disk: ssd}
"""


@pytest.mark.parametrize("more", ["", OVERRIDES, OF_ANOTHER, OWN])
def test_a_train_job_patches_the_pods_of_its_runtime_that_train(folder, capsys, more):
    """In the patch that is there, else in one of specon's own; what others have written stays."""
    (folder / "job.yaml").write_text(TRAIN_JOB + more)
    text = written(["job.yaml"], capsys)
    assert text.count('specon.io/inject: "true"') == 1
    before, spec = yaml.safe_load(TRAIN_JOB + more)["spec"], yaml.safe_load(text)["spec"]
    if more == OVERRIDES:
        pod = spec["podTemplateOverrides"][1].pop("metadata")
    else:
        named = {each["manager"]: each for each in spec["runtimePatches"]}
        patch = named["example.com/me" if more == OWN else "specon.io/init"]
        (job,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
        assert job["name"] == "node"
        pod = job["template"]["spec"]["template"].pop("metadata")
        if more != OWN:
            spec["runtimePatches"].remove(patch)
            before.setdefault("runtimePatches", [])
    assert spec == before
    assert pod["annotations"] == {
        "specon.io/inject": "true",
        "specon.io/log-path": "/data/run.log",
        "specon.io/checkpoint-path": "/data/saved",
    }


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.yaml", "kind: TrainJob\nspec: {runtimeRef: {name: a}}\n", "between braces"),
        ("x.yaml", "kind: TrainJob\nspec:\n", "its spec is empty"),
        ("x.yaml", "kind: Service\n", "no pod template in it; known are Pod, Job"),
        ("x.yaml", "{: [", "not YAML"),
        ("x.yaml", "kind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: a}]}\n", "between braces"),
        ("x.log", "loss 1\n", "specon classify reads logs"),
        ("gone", None, "there is no such file or folder"),
    ],
)
def test_what_cannot_be_used_is_named(folder, capsys, name, content, words):
    """One sentence, and exit code 2."""
    if content is not None:
        (folder / name).write_text(content)
    assert main(["init", name]) == 2
    assert words in capsys.readouterr().err
