"""The project's own form: what it takes, and what it says of files that it cannot take."""

import string
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specon_lab.traces.mistakes import LISTED, TraceError
from specon_lab.traces.options import TraceOptions
from specon_lab.traces.read import read_workload
from specon_lab.traces.row import TraceRow
from specon_lab.workloads.workload import Workload
from specon_manager.model.resources import Resources

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT / "samples" / "simulations"


def file_of(folder, text, name="jobs.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def mistakes_of(path, **changes):
    with pytest.raises(TraceError) as caught:
        read_workload(path, **changes)
    return caught.value


def test_a_row_becomes_a_job(tmp_path):
    """Every column that is given reaches the job; the others have their defaults."""
    text = (
        "name,at,seconds,class,workers,min_workers,max_workers,ps,cpu,memory,gpu,ps_cpu,grace_seconds,"
        "utility,queue,kind,demand,speedup,step_bytes,step_seconds,curve_rate,prints_total,stop_seconds\n"
        "team/a,5,60,trial,2,1,3,1,4,16Gi,0.5,1,20,7,q,k,8,1 1.5 1.9,1e6,0.25,5.2,false,2\n"
    )
    (job,) = read_workload(file_of(tmp_path, text)).jobs
    spec, training = job.spec, job.training
    assert job.at == 5.0
    assert spec.name == "team/a"
    assert spec.replicas == ("team/a/ps/0", "team/a/worker/0", "team/a/worker/1", "team/a/worker/2")
    assert (spec.wanted_workers, spec.fewest_workers, len(spec.worker_names)) == (2, 1, 3)
    assert spec.requests == Resources(cpu=4, memory=16 * 2**30, gpu=0.5)
    assert spec.ps_requests == Resources(cpu=1)
    assert (spec.job_class, spec.utility, spec.queue, spec.kind, spec.grace_seconds) == (
        "trial",
        7,
        "q",
        "k",
        20,
    )
    assert (training.seconds, training.demand, training.speedup) == (60, 8, (1.0, 1.5, 1.9))
    assert (training.network.step_bytes, training.network.step_seconds) == (1e6, 0.25)
    assert (training.curve.rate, training.prints_total, training.stop_seconds) == (5.2, False, 2)


def test_forms_of_text_agree(tmp_path):
    """CSV, JSON lines and a JSON list with the same jobs give the same jobs; order is that of arrival."""
    rows = [{"name": "b", "at": 9.5, "seconds": 3.0}, {"name": "a", "at": 1.0, "seconds": 2.0}]
    csv = "name,at,seconds\r\n" + "".join(f"{row['name']}, {row['at']} ,{row['seconds']}\r\n" for row in rows)
    lines = "\n".join(msgspec.json.encode(row).decode() for row in rows)
    files = [
        file_of(tmp_path, "\ufeff" + csv),
        file_of(tmp_path, lines, "jobs.jsonl"),
        file_of(tmp_path, msgspec.json.encode(rows), "jobs.json"),
    ]
    first, second, third = (read_workload(path).jobs for path in files)
    assert first == second == third
    assert [job.spec.name for job in first] == ["default/a", "default/b"]


def test_every_mistake_is_told_at_once(tmp_path):
    """File, row and field of each; good rows between bad ones do not end it."""
    text = (
        "name,at,seconds,class,min_workers,workers\n"
        "a,0,10,trial,,\n"
        "A b,-1,nan,best,,\n"
        "a,5,10,,,\n"
        "c,inf,10,,,\n"
        "d,1,10,,3,2\n"
        "e,1\n"
        ",1,10,,,\n"
    )
    error = mistakes_of(file_of(tmp_path, text))
    assert error.mistakes == (
        "jobs.csv, row 3: name: expected lower case letters, digits, '-' and '.', not 'A b'",
        "jobs.csv, row 3: at: expected `float` >= 0.0, not '-1'",
        "jobs.csv, row 3: seconds: expected `float` > 0.0, not 'nan'",
        "jobs.csv, row 3: class: expected one of trial, best-effort, not 'best'",
        "jobs.csv, row 4: name: 'a' is in jobs.csv, row 2 already",
        "jobs.csv, row 5: at: expected `float` <= 1000000000000.0, not 'inf'",
        "jobs.csv, row 6: min_workers: 3 is more than workers, 2",
        "jobs.csv, row 7: has 2 fields, the header 6",
        "jobs.csv, row 8: name: is missing",
    )


def test_the_list_of_mistakes_is_bounded(tmp_path):
    """The first are told, the others counted."""
    text = "name,at,seconds\n" + "a,-1,1\n" * 100
    error = mistakes_of(file_of(tmp_path, text))
    assert len(error.mistakes) == LISTED
    assert error.further == 100 - LISTED
    assert str(error).endswith(f"and {100 - LISTED} more")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "jobs.csv: is empty"),
        (b"\n\n", "jobs.csv: is empty"),
        (b"name,at,seconds\n", "jobs.csv: no job is left"),
        (b"name,at\na,1\n", "own also needs seconds"),
        (b"colour,taste\nred,sweet\n", "is of no form that is known"),
        (b"name;at;seconds\na;0;1\n", "not separated by commas"),
        (b"name,at,seconds,at\na,0,1,2\n", "columns are named twice: 'at'"),
        (b"name,at,seconds\na,0,1\nb\xe9,0,1\n", "jobs.csv, row 3: is not UTF-8: byte 0xe9 at column 2"),
        ("name,at,seconds\na,0,1\n".encode("utf-16"), "UTF-16"),
        (b"\x7fELF\0\0\0", "is no text"),
        (b"name,at,seconds\n" + b"a" * (1 << 20) + b"\n", "row 2: is longer than"),
        (b'name,at,seconds\n"a,0,1\n' + b"b,0,1\n" * 100_000, "is not CSV"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"jcts": {}}', "holds results, no jobs"),
        (b'{"nodes": []}', "jobs: must be a list"),
        (b'{"name": "a", "at": 0}\n{"name"\n7\n', "row 1: seconds: is missing"),
        (b'{"jobs": [7], "nodes": [{"cpu": -1}], "bandwidth": "fast"}', "bandwidth"),
        (
            b'{"jobs":[{"name":"a","at":0,"seconds":1}],"failures":[{"node":"n","at":0,"seconds":1}]}',
            "failures: there is no node 'n'",
        ),
        (
            b'{"jobs": [{"name": "a", "at": 0, "seconds": 1}], "bandwidth": 0}',
            "bandwidth: expected `float` > 0",
        ),
        (b"count,cpu\n1,4\n", "no file of jobs is given"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, content, words):
    """Each gets an error that says what is wrong, and where."""
    assert words.lower() in str(mistakes_of(file_of(tmp_path, content))).lower()


def test_a_missing_file_is_named(tmp_path):
    """A path that cannot be read is told with the system's reason."""
    assert "nothing.csv: No such file" in str(mistakes_of(tmp_path / "nothing.csv"))
    assert "Is a directory" in str(mistakes_of(tmp_path))


def test_what_is_wanted_is_checked(tmp_path):
    """An unknown form, and one whose columns the table lacks, are refused."""
    path = file_of(tmp_path, "name,at,seconds\na,0,1\n")
    assert "'excel' is not one of auto, own" in str(mistakes_of(path, format_name="excel"))
    assert "needs columns that are missing: duration" in str(mistakes_of(path, format_name="philly"))


def test_warnings(tmp_path):
    """Unknown columns, a cluster that is made up, and jobs that are too large for it are worth a warning."""
    warnings: list[str] = []
    text = "name,at,seconds,gpu,memory,colour\na,0,1,1,1,red\nb,0,1,9,9e14,\n"
    workload = read_workload(file_of(tmp_path, text), warn=warnings.append)
    assert len(workload.jobs) == 2
    assert [warning.split(":")[0] for warning in warnings] == [
        "jobs.csv",
        "1 job is split over nodes",
        "no nodes are given",
        "1 job is larger than the cluster and cannot run",
    ]
    assert "colour" in warnings[0]
    assert "default/b" in warnings[3]


def test_nodes_come_from_a_second_file(tmp_path):
    """Equal nodes are counted, names are kept, and nothing is made up; two lists of nodes are refused."""
    jobs = file_of(tmp_path, "name,at,seconds\na,0,1\n")
    nodes = file_of(tmp_path, "name,count,cpu,memory,gpu\nbig,2,32,128Gi,8\nsmall,1,4,8G,0\n", "nodes.csv")
    warnings: list[str] = []
    workload = read_workload([nodes, jobs], warn=warnings.append)
    assert [node.name for node in workload.nodes] == ["big-1", "big-2", "small"]
    assert workload.nodes[0].capacity == Resources(cpu=32, memory=128 * 2**30, gpu=8)
    assert warnings == []
    assert "another file does too" in str(mistakes_of([nodes, nodes, jobs]))
    assert "give them once" in str(mistakes_of([nodes, jobs], options=TraceOptions(nodes=4)))


def test_models_of_nodes_and_paces_on_them(tmp_path):
    """In a table or in JSON; paces on models that no node has are worth a warning."""
    nodes = file_of(tmp_path, "name,gpu,model\nx,4,K80\ny,4,\n", "nodes.csv")
    table = file_of(tmp_path, "name,at,seconds,paces\na,0,1,K80=4 V100=0.5\nb,0,1,\n")
    lines = file_of(tmp_path, '{"name": "a", "at": 0, "seconds": 1, "paces": {"K80": 4}}\n', "jobs.jsonl")
    warnings: list[str] = []
    workload = read_workload([nodes, table], warn=warnings.append)
    assert [node.accelerator for node in workload.nodes] == ["K80", ""]
    assert [dict(job.training.paces) for job in workload.jobs] == [{"K80": 4.0, "V100": 0.5}, {}]
    assert warnings == ["jobs have paces on models that no node has: V100"]
    assert read_workload([nodes, lines]).jobs[0].training.paces == {"K80": 4.0}
    for cell in ("K80", "K80=0", "K80=fast"):
        wrong = file_of(tmp_path, f"name,at,seconds,paces\na,0,1,{cell}\n", "wrong.csv")
        assert "wrong.csv, row 2: paces: " in str(mistakes_of([nodes, wrong]))


def test_a_worker_that_asks_for_more_gpus_than_a_node_has_is_split(tmp_path):
    """Into as few that fit as there can be, all alike; not where it is elastic or has a network."""
    nodes = file_of(tmp_path, "count,cpu,memory,gpu\n4,32,64G,4\n", "nodes.csv")
    rows = (
        "name,at,seconds,workers,max_workers,gpu,cpu,memory,step_bytes,step_seconds\n"
        "one,0,60,,,8,16,8G,,\nodd,1,60,2,,5,8,8G,,\nfits,2,60,2,,4,8,8G,,\n"
        "elastic,3,60,1,2,8,8,8G,,\nnetwork,4,60,1,,8,8,8G,1e6,1\n"
    )
    warnings: list[str] = []
    workload = read_workload([nodes, file_of(tmp_path, rows)], warn=warnings.append)
    sizes = {
        job.spec.name.removeprefix("default/"): (len(job.spec.replicas), job.spec.requests)
        for job in workload.jobs
    }
    assert sizes["one"] == (2, Resources(cpu=8.0, memory=4e9, gpu=4.0))
    assert sizes["odd"] == (4, Resources(cpu=4.0, memory=4e9, gpu=3.0))
    assert sizes["fits"] == (2, Resources(cpu=8.0, memory=8e9, gpu=4.0))
    assert [size[0] for size in sizes.values()] == [2, 4, 2, 2, 1]
    assert warnings == [
        "2 jobs are split over nodes: ask for more GPUs than a node has (first: jobs.csv, row 2)",
        "2 jobs are larger than the cluster and cannot run: default/elastic, default/network",
    ]
    many = file_of(tmp_path, "name,at,seconds,workers,gpu\na,0,1,4096,8\n", "many.csv")
    assert "many.csv, row 2: gpu: 8 for each of 4096" in str(mistakes_of([nodes, many]))


def test_nodes_with_mistakes(tmp_path):
    """Each row of nodes that cannot be used is named."""
    jobs = file_of(tmp_path, "name,at,seconds\na,0,1\n")
    nodes = file_of(tmp_path, "name,cpu\nx,-1\ny,2\ny,2\n", "nodes.csv")
    error = mistakes_of([jobs, nodes])
    assert len(error.mistakes) == 2
    assert "row 2" in error.mistakes[0]
    assert "'y' is used twice" in error.mistakes[1]


def test_options_choose_jobs(tmp_path):
    """Window, limit, scale, queue and trials; time begins at the window's start."""
    rows = "".join(f"j{index},{index * 10},{index + 1},q{index % 2}\n" for index in range(10))
    path = file_of(tmp_path, "name,at,seconds,queue\n" + rows)
    window = read_workload(path, options=TraceOptions(start=30, end=80, scale=0.5, limit=4))
    assert [(job.spec.name, job.at) for job in window.jobs] == [
        ("default/j3", 0.0),
        ("default/j4", 5.0),
        ("default/j5", 10.0),
        ("default/j6", 15.0),
    ]
    odd = read_workload(path, options=TraceOptions(queue="q1", trial_seconds=4))
    assert [job.spec.job_class for job in odd.jobs] == ["trial", "trial", *["best-effort"] * 3]
    assert "no job is left" in str(mistakes_of(path, options=TraceOptions(start=1000)))


def test_made_up_clusters_carry_the_load(tmp_path):
    """Nodes are as many as the load asks for, and never fewer than the largest gang needs."""
    rows = "".join(f"j{index},{index * 100},800,1\n" for index in range(101))
    path = file_of(tmp_path, "name,at,seconds,gpu\n" + rows)
    assert len(read_workload(path, options=TraceOptions(load=0.5, gpus_per_node=1)).nodes) == 17
    gang = file_of(tmp_path, "name,at,seconds,gpu,workers\na,0,1,8,5\nb,1000,1,1,1\n", "gang.csv")
    assert len(read_workload(gang).nodes) == 5


def test_a_document_says_everything():
    """The sample with nodes and failures is read whole."""
    workload = read_workload(SAMPLES / "failing.json")
    assert workload.name == "failing"
    assert len(workload.nodes) == 2
    assert workload.failures[0].node == "node-2"


@pytest.mark.parametrize(
    "files",
    [
        ["jobs.csv", "nodes.csv"],
        ["jobs.jsonl"],
        ["failing.json"],
        ["models.json"],
        ["philly.csv"],
        ["helios.csv"],
        ["alibaba-pods.csv", "alibaba-nodes.csv"],
        ["pollux/workloads/workload-1.csv"],
    ],
)
def test_samples_keep_the_bounds_of_their_records(files):
    """What is read from each sample could have been read from a message, and can run."""
    warnings: list[str] = []
    workload = read_workload([SAMPLES / name for name in files], warn=warnings.append)
    assert len(workload.jobs) >= 3
    assert msgspec.convert(msgspec.to_builtins(workload), Workload) == workload
    assert not [warning for warning in warnings if "cannot run" in warning]


def test_docs_name_every_column_and_option():
    """docs/simulate.md lists each column of a row and each option."""
    text = (ROOT / "docs" / "simulate.md").read_text(encoding="utf-8")
    names = [field.encode_name for kind in (TraceRow, TraceOptions) for field in msgspec.structs.fields(kind)]
    assert [name for name in names if f"`{name}`" not in text] == []


fuzz = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
HEADERS = st.sampled_from(
    [
        b"",
        b"name,at,seconds\n",
        b"name,at,seconds,memory,speedup,workers\n",
        b"timestamp,duration,num_gpus,cluster\n",
        b"job_id,gpu_num,submit_time,duration,node_num\n",
        b"name,cpu_milli,memory_mib,num_gpu,creation_time,scheduled_time,deletion_time\n",
        b"name,time,application,num_replicas,batch_size\n",
        b"count,cpu,memory,gpu\n",
        b'{"jobs": ',
        b'{"name": "a"}\n',
    ]
)


@fuzz
@given(header=HEADERS, body=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(tmp_path, header, body):
    """Arbitrary bytes, also below a known header, give a workload or TraceError and nothing else."""
    path = file_of(tmp_path, header + body)
    try:
        workload = read_workload(path)
    except TraceError as error:
        assert error.mistakes  # noqa: PT017  (both outcomes are right)
    else:
        assert workload.jobs


CELLS = st.one_of(
    st.sampled_from(
        ["", "0", "1", "-1", "nan", "inf", "1e400", "2017-01-01 00:00:00", "9999-12-31", "4Gi", "1 2"]
    ),
    st.text(string.printable + "\u00e9\u2028", max_size=12),
    st.integers(-5, 10**20).map(str),
    st.floats().map(str),
)


@fuzz
@given(header=HEADERS, rows=st.lists(st.lists(CELLS, min_size=3, max_size=7), max_size=4))
def test_any_cells_are_read_or_refused(tmp_path, header, rows):
    """Rows of arbitrary values give a workload that keeps the bounds of its records, or TraceError."""
    columns = header.count(b",") + 1
    body = "\n".join(",".join(row[:columns]) for row in rows)
    try:
        workload = read_workload(file_of(tmp_path, header + body.encode()))
    except TraceError as error:
        assert error.mistakes  # noqa: PT017  (both outcomes are right)
    else:
        assert msgspec.convert(msgspec.to_builtins(workload), Workload) == workload


@given(at=st.floats(0, 1e9), seconds=st.floats(0.001, 1e9), gpu=st.integers(0, 8), workers=st.integers(1, 9))
@fuzz
def test_numbers_survive_a_table(tmp_path, at, seconds, gpu, workers):
    """What is written into a table comes out of it."""
    path = file_of(tmp_path, f"name,at,seconds,gpu,workers\na,{at!r},{seconds!r},{gpu},{workers}\n")
    (job,) = read_workload(path).jobs
    assert (job.at, job.training.seconds, job.spec.requests.gpu, job.spec.workers) == (
        at,
        seconds,
        gpu,
        workers,
    )
