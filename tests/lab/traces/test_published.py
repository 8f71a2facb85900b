"""Traces that others published: what their rows become."""

from pathlib import Path

import pytest

from specon_lab.traces.form import job_name
from specon_lab.traces.measured import Application
from specon_lab.traces.mistakes import TraceError
from specon_lab.traces.options import TraceOptions
from specon_lab.traces.pollux import read_summary
from specon_lab.traces.read import read_workload
from specon_manager.model.resources import Resources

SAMPLES = Path(__file__).parents[3] / "samples" / "simulations"


def written(folder, text, name="trace.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_philly_rows(tmp_path):
    """Times count from the first job, gangs fill nodes, cores and memory come with GPUs."""
    text = (
        "timestamp,duration,num_gpus,gpu_time,cluster\n"
        "2017-10-03 00:01:00,66.0,16,1056.0,x\n"
        "2017-10-03 00:00:00,100.0,1,100.0,y\n"
        "2017-10-03 00:02:00,0.0,1,0.0,y\n"
    )
    warnings: list[str] = []
    options = TraceOptions(gpus_per_node=4, node_cpu=32, node_memory=4e9, nodes=5)
    workload = read_workload(written(tmp_path, text), options=options, warn=warnings.append)
    first, second = workload.jobs
    assert (first.at, second.at) == (0.0, 60.0)
    assert (first.spec.workers, first.spec.requests) == (1, Resources(cpu=8, memory=1e9, gpu=1))
    assert (second.spec.workers, second.spec.requests) == (4, Resources(cpu=32, memory=4e9, gpu=4))
    assert (second.spec.queue, second.training.seconds) == ("x", 66.0)
    assert len(workload.nodes) == 5
    assert warnings == ["1 row is left out: duration is 0 (first: trace.csv, row 4)"]


def test_philly_on_listed_nodes(tmp_path):
    """With a list of nodes, gangs and the cores of a GPU follow the nodes that there are."""
    text = "timestamp,duration,num_gpus\n2017-10-03 00:01:00,66.0,4\n"
    nodes = written(tmp_path, "cpu,memory,gpu,count\n16,64G,2,2\n8,64G,2,1\n", "nodes.csv")
    (job,) = read_workload([written(tmp_path, text), nodes]).jobs
    assert (job.spec.workers, job.spec.requests) == (2, Resources(cpu=8, memory=64e9, gpu=2))


def test_bad_times_are_named(tmp_path):
    """A time that is none, and a negative duration, are mistakes of their row and field."""
    text = "timestamp,duration,num_gpus\nyesterday,5,1\n2017-10-03 00:00:00,-5,1\n"
    with pytest.raises(TraceError) as caught:
        read_workload(written(tmp_path, text))
    assert [mistake.partition(": ")[0] for mistake in caught.value.mistakes] == [
        "trace.csv, row 2",
        "trace.csv, row 3",
    ]
    assert "timestamp" in caught.value.mistakes[0]
    assert "duration" in caught.value.mistakes[1]


def test_helios_rows(tmp_path):
    """Workers follow the nodes that a job had, cores are divided among them, names come from the id."""
    text = (
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
        "17,ua,vcX,16,64,4,COMPLETED,2020-06-09 18:41:01,,,36848,0\n"
        "18,ua,vcX,0,64,1,FAILED,2020-06-09 18:42:01,None,None,10,0\n"
    )
    path = written(tmp_path, text)
    (job,) = read_workload(path).jobs
    assert job.spec.name == "default/job-17"
    assert (job.spec.workers, job.spec.requests.gpu, job.spec.requests.cpu) == (4, 4.0, 16.0)
    assert (job.spec.queue, job.spec.kind, job.training.seconds) == ("vcX", "ua-16", 36848.0)
    both = read_workload(path, options=TraceOptions(cpu_jobs=True)).jobs
    assert [job.spec.requests.gpu for job in both] == [4.0, 0.0]


def test_alibaba_rows(tmp_path):
    """Pods train from scheduling to deletion with shares of GPUs; those never scheduled are left out."""
    pods = written(
        tmp_path,
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
        "pod-1,12000,16384,1,460,,LS,Running,100,500,130\n"
        "pod-2,12000,16384,2,1000,,BE,Pending,110,500,\n",
    )
    nodes = written(tmp_path, "sn,cpu_milli,memory_mib,gpu,model\nnode-0,64000,262144,2,P100\n", "nodes.csv")
    workload = read_workload([pods, nodes])
    assert workload.nodes[0].accelerator == "P100"
    (job,) = workload.jobs
    assert job.training.seconds == 370.0
    assert job.spec.requests == Resources(cpu=12, memory=16 * 2**30, gpu=0.46)
    assert workload.nodes[0].capacity == Resources(cpu=64, memory=256 * 2**30, gpu=2)
    (whole,) = read_workload([pods, nodes], options=TraceOptions(whole_gpus=True)).jobs
    assert whole.spec.requests.gpu == 1.0


def measurements(folder, **changes):
    """Write what was measured of a small application, on up to six GPUs."""
    folder.mkdir(parents=True)
    files = {
        "validation-16.csv": "progress,iteration,metric\n1,100,0.5\n2,200,0.9\n",
        "validation-32.csv": "progress,iteration,metric\n1,50,0.5\n2,100,0.9\n",
        "placements.csv": "placement,local_bsz,step_time,sync_time\n1,8,0.1,0\n1,16,0.2,0\n"
        "2,8,0.2,0.1\n2,16,0.3,0.1\n11,8,9,9\n",
        "scalability.csv": "num_nodes,num_replicas,local_bsz,step_time,sync_time\n2,6,8,1.1,1\n3,6,8,7,7\n",
    } | changes
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_measured_seconds(tmp_path):
    """Steps to the end times seconds of a step; gradients are accumulated where a batch is too large."""
    toy = Application(measurements(tmp_path / "toy"))
    assert toy.seconds(16, 1) == pytest.approx(200 * 0.2)
    assert toy.seconds(16, 2) == pytest.approx(200 * 0.2)
    assert toy.seconds(32, 2) == pytest.approx(100 * 0.3)
    # One replica holds 16 samples at most: two rounds, and the second has nothing to wait for.
    assert toy.seconds(32, 1) == pytest.approx(100 * (0.2 + 0.2))


def test_measured_in_between(tmp_path):
    """Between measured sizes and numbers of replicas lie straight lines; spread placements do not count."""
    toy = Application(measurements(tmp_path / "toy"))
    assert toy.seconds(24, 2) == pytest.approx(150 * (0.2 + (12 - 8) / 8 * 0.1))
    assert toy.seconds(32, 4) == pytest.approx(100 * (0.2 + 1.1) / 2)
    # Six times five samples at most make a batch of 30, no larger than any that was measured.
    assert toy.seconds(32, 6) == pytest.approx(112.5 * 1.1)


def test_measured_decay(tmp_path):
    """The rate is read from the epoch at which the metric has made 63 % of its way."""
    curve = "progress,iteration,metric\n" + "".join(
        f"{epoch},{epoch},{value}\n" for epoch, value in enumerate((9, 5, 2, 1, 1, 1, 1, 1), start=1)
    )
    toy = Application(measurements(tmp_path / "toy", **{"validation-16.csv": curve}))
    assert toy.decay(16) == pytest.approx(8 / 3)


def test_pollux_rows(tmp_path):
    """Duration and speedup are measured, the cluster is the published one, elastic jobs have a range."""
    measurements(tmp_path / "traces" / "toy")
    (tmp_path / "workloads").mkdir()
    text = "name,time,application,num_replicas,batch_size\ntoy-0,7,toy,2,32\n"
    path = written(tmp_path / "workloads", text)
    workload = read_workload(path)
    (job,) = workload.jobs
    assert (job.at, job.training.seconds) == (7.0, pytest.approx(30.0))
    assert (job.spec.workers, job.spec.fewest_workers, len(job.spec.worker_names)) == (2, 1, 4)
    assert job.training.speedup[1] == pytest.approx(40 / 30)
    assert [node.capacity.gpu for node in workload.nodes] == [4.0] * 16
    (rigid,) = read_workload(path, options=TraceOptions(elastic=False)).jobs
    assert (rigid.spec.fewest_workers, len(rigid.spec.worker_names)) == (2, 2)


def test_pollux_needs_its_measurements(tmp_path):
    """Without them, or without this application's, the row is refused and the option named."""
    text = "name,time,application,num_replicas,batch_size\ntoy-0,7,toy,2,32\n"
    (tmp_path / "deep" / "deeper").mkdir(parents=True)
    path = written(tmp_path / "deep" / "deeper", text)
    with pytest.raises(TraceError, match="traces=FOLDER"):
        read_workload(path)
    with pytest.raises(TraceError, match="'toy' was not measured"):
        read_workload(path, options=TraceOptions(traces=str(tmp_path)))
    measurements(tmp_path / "bad" / "toy", **{"placements.csv": "placement,local_bsz\n1,8\n"})
    with pytest.raises(TraceError, match=r"placements.csv, row 2.*step_time"):
        read_workload(path, options=TraceOptions(traces=str(tmp_path / "bad")))


def test_published_results(tmp_path):
    """A summary gives each job's completion time; anything else is refused."""
    assert read_summary(SAMPLES / "pollux" / "summary.json")["workload-1"]["toy-0"] == 240
    with pytest.raises(TraceError, match="is no summary"):
        read_summary(written(tmp_path, '{"jcts": [1]}'))
    with pytest.raises(TraceError, match="is not JSON"):
        read_summary(written(tmp_path, "jcts"))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("openb-pod-1", "openb-pod-1"),
        ("1425511", "job-1425511"),
        ("My Job!", "my-job"),
        ("---", "job"),
        ("É9", "job-9"),
    ],
)
def test_names_are_made_valid(text, name):
    """Names of others become names of jobs."""
    assert job_name(text) == name
