"""`specon what-if`, from a state to what is printed."""

from __future__ import annotations

import contextlib
import email.utils
import http.server
import json
import threading

import msgspec
import pytest

from specon_lab.commands import what_if
from specon_manager.__main__ import main
from specon_manager.core.state import State
from specon_manager.model.cluster import Claimed
from specon_manager.model.progress import Progress
from specon_manager.model.settings import Budgets, Gate, Settings
from support.decisions.changed_jobs import NOW as CHANGED_AT
from support.decisions.changed_jobs import elastic
from support.decisions.changed_jobs import nodes as cluster_nodes
from support.decisions.gangs import gang, with_gang, worker
from support.decisions.spread import MEASURED, known
from support.lab.simulations import job, nodes, workload
from support.lab.states import moments_until, state_at, write_journal

AT = 100.0


def given():
    """One long job runs, a shorter and a long one wait for its room."""
    return workload(
        job(0, seconds=900.0),
        job(1, at=10.0, seconds=50.0, spec={"declared_seconds": 50.0}),
        job(2, at=20.0, seconds=700.0, spec={"declared_seconds": 700.0}),
        on=nodes(1, cpu=1.0),
    )


@pytest.fixture(scope="module")
def state():
    return state_at(AT, given(), "fifo")[0]


@pytest.fixture
def path(state, tmp_path):
    found = tmp_path / "state.json"
    found.write_bytes(msgspec.json.encode(state))
    return found


def ask(path, *arguments):
    return main(["what-if", "--state", str(path), "--jobs", "1", *arguments])


def as_json(capsys, path, *arguments):
    assert ask(path, *arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_each_policy_says_what_it_would_do_now_and_what_might_come_of_it(path, capsys):
    """The present policy first; reasons with their numbers; what the predictions rest on at the end."""
    assert ask(path, "--policy", "srpt") == 0
    out = capsys.readouterr().out
    assert out.startswith("policy fifo, 1 of 1 node ready, 3 jobs, 2 of them waiting\n")
    assert "\nfifo, the present policy: would do nothing now\n" in out
    assert "\nsrpt: would order 2 now\n  Preempt job-0: " in out
    assert "  Claim job-1 -> node-0: 50 s left" in out
    lines = {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}
    assert lines["job-1"][:4] == ["job-1", "(waits)", "50", "declared"]
    assert "1 measured by its sidecar, 2 declared by its owner." in out
    assert "Predictions, no promises" in out
    assert "nothing else arrives" in out


def test_json_holds_now_and_then(path, capsys):
    """What would be ordered, when each job ends, and who is helped and hurt against the present policy."""
    found = as_json(capsys, path, "--policy", "srpt")
    assert found["schema"] == 1
    assert found["state"] == {
        "policy": "fifo",
        "nodes_ready": 1,
        "nodes": 1,
        "jobs": 3,
        "waiting": 2,
    }
    present, srpt = found["policies"]
    assert (present["policy"], present["present"], present["against_present"]) == ("fifo", True, None)
    assert [each["proposal"] for each in srpt["now"]["ordered"]] == ["Preempt", "Claim"]
    assert srpt["preemptions"] == 1
    ends = [{each["job"][-1]: each["seconds"] for each in policy["jobs"]} for policy in (present, srpt)]
    left = {each["job"][-1]: each["seconds"] for each in found["remaining"]}
    assert ends[0]["0"] == pytest.approx(left["0"], abs=1)
    assert ends[0]["1"] == pytest.approx(left["0"] + 50, abs=1)
    assert ends[1]["1"] == pytest.approx(50, abs=1)
    assert ends[1]["0"] > ends[0]["0"]
    counts = srpt["against_present"]
    assert (counts["helped"], counts["hurt"] + counts["unchanged"]) == (2, 1)
    assert present["average_seconds"] == pytest.approx(sum(ends[0].values()) / 3)


def test_the_prediction_is_near_what_then_happened(path, capsys):
    """The simulated run from which the state is goes on; the measured job ends when it was said to."""
    found = as_json(capsys, path)
    first = found["policies"][0]["jobs"][0]
    uncertainty = found["remaining"][0]["uncertainty"]
    assert abs(first["seconds"] - (900.0 - AT)) <= uncertainty + 30.0


def test_a_journal_says_the_same_as_the_state_that_it_leads_to(tmp_path, capsys):
    """A file, or the directory of a manager."""
    moments = moments_until(60.0, given(), "fifo")  # the last step is a report, so the state knows its time
    state = moments[-1].after.flatten()
    (tmp_path / "s").mkdir()
    write_journal(tmp_path / "s" / "journal.jsonl", moments, state.settings)
    (tmp_path / "state.json").write_bytes(msgspec.json.encode(state))
    flags = ["--policy", "srpt"]
    journal = as_json(capsys, tmp_path / "s" / "journal.jsonl", *flags)
    assert journal == as_json(capsys, tmp_path / "s", *flags)
    assert journal == as_json(capsys, tmp_path / "state.json", *flags)


@contextlib.contextmanager
def served(content, *, token, at=0.0):
    """Serve the answer of `/v1/state`, given at that time, to who shows the token."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            known = self.headers.get("Authorization") == f"Bearer {token}" and self.path == "/v1/state"
            self.send_response(200 if known else 403)
            self.end_headers()
            self.wfile.write(content if known else b"{}")

        def date_time_string(self, timestamp=None):
            return email.utils.formatdate(at, usegmt=True)

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_running_manager_is_asked_with_the_owners_token(state, path, tmp_path, capsys):
    """The path may be left out; without the token there is a hint."""
    token = tmp_path / "token"
    token.write_text("secret\n")
    with served(path.read_bytes(), token="secret") as url:
        found = as_json(capsys, url, "--token", str(token))
        assert found == as_json(capsys, f"{url}/v1/state", "--token", str(token))
        assert found == as_json(capsys, path)
        assert ask(url) == 2
        assert "answered 403 Forbidden; --token FILE names the owner's token" in capsys.readouterr().err
    assert ask(url) == 2
    assert f"specon: --state: no manager answers at {url}/v1/state: " in capsys.readouterr().err


@pytest.mark.parametrize(("later", "counts"), [(40.0, True), (86_400.0, False)])
def test_the_time_of_a_managers_answer_counts(later, counts, state, capsys):
    """What was measured is that much older; unless its clock is another one."""
    told = state.replicas["default/job-0/worker/0"].progress
    with served(msgspec.json.encode(state), token="", at=told.reported_at + later) as url:
        left = as_json(capsys, url, "--token", "/dev/null")["remaining"][0]["seconds"]
    assert left == pytest.approx(told.remaining_seconds.value - (later if counts else 0.0), abs=1e-6)


def test_long_lists_are_cut_and_say_so(path, capsys):
    """As many lines of each as asked for; of the jobs those that differ the most."""
    assert ask(path, "--policy", "srpt", "--top", "1") == 0
    out = capsys.readouterr().out
    assert "  Preempt job-0: " in out
    assert "Claim" not in out
    assert "  and 1 more ordered\n" in out
    assert "and 2 jobs more (--top 3)" in out


def test_a_horizon_ends_the_prediction(path, capsys):
    """What is not over by then has no end."""
    assert ask(path, "--horizon", "60") == 0
    assert " later" in capsys.readouterr().out
    found = as_json(capsys, path, "--horizon", "60")
    assert [each["seconds"] for each in found["policies"][0]["jobs"]] == [None] * 3
    assert found["policies"][0]["completed"] == 0


def test_the_present_policy_keeps_its_parameters(state, tmp_path, capsys):
    """Another one of the same name has its own."""
    settings = msgspec.structs.replace(state.settings, policy="progress", parameters={"prior_seconds": 7.0})
    path = tmp_path / "state.json"
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(state, settings=settings)))
    found = as_json(capsys, path, "--policy", "progress", "--policy", "progress:prior_seconds=7.0")
    assert [each["policy"] for each in found["policies"]] == ["progress (as it is set)", "progress"]


def changed(state, change):
    built = msgspec.json.decode(msgspec.json.encode(state))
    change(built)
    return msgspec.json.encode(built)


def first_job(built):
    return built["jobs"]["default/job-0"]


def first_replica(built):
    return built["replicas"]["default/job-0/worker/0"]


BAD: dict[str, tuple[object, str]] = {
    "empty": (b"", "it is empty"),
    "blank": (b" \n", "it is empty"),
    "binary": (b"\x00\xff\xfe", "no state of a manager: "),
    "not JSON": (b"nodes: 3", "no state of a manager: JSON is malformed"),
    "deep": (b"[" * 100_000, "no state of a manager: "),
    "no object": (b"[1, 2]", "no state of a manager: Expected `object`, got `array`"),
    "another object": (b'{"jobs": {}, "nodes": {}}', "no state of a manager: it has no settings, replicas"),
    "cut off": (b'{"settings": {"policy": "fi', "no state of a manager: "),
    "huge number": (
        lambda b: first_job(b).update(submitted_at=1e300),
        "jobs: default/job-0: submitted_at is 1e+300 s, which is no time",
    ),
    "wrong type": (
        lambda b: first_job(b).update(submitted_at="now"),
        "Expected `float`, got `str` - at `$.jobs[...].submitted_at`",
    ),
    "unknown policy": (lambda b: b["settings"].update(policy="x"), "policy: 'x' is not one of"),
    "wrong parameters": (
        lambda b: b["settings"].update(parameters={"x": 1}),
        "parameters of policy fifo: ",
    ),
    "job without records": (
        lambda b: b["replicas"].clear(),
        "jobs: default/job-0 has a replica 'default/job-0/worker/0' that is not there",
    ),
    "record without job": (
        lambda b: first_replica(b).update(job="x/y"),
        "replicas: default/job-0/worker/0 is of job 'x/y', which is not there",
    ),
    "record of another": (
        lambda b: first_replica(b).update(name="x"),
        "replicas: 'default/job-0/worker/0' holds the record of 'x'",
    ),
    "replica of another": (
        lambda b: first_replica(b).update(job="default/job-1"),
        "jobs: default/job-0 has the replica 'default/job-0/worker/0' of default/job-1",
    ),
    "job without workers": (
        lambda b: first_job(b)["spec"].update(replicas=[]),
        "jobs: default/job-0 has no worker",
    ),
    "no nodes": (lambda b: b["nodes"].clear(), "nodes: there is none that is ready"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_is_no_state_is_told_in_one_sentence(name, state, tmp_path, capsys):
    """Exit code 2, with the file and what is wrong in it."""
    content, message = BAD[name]
    path = tmp_path / "bad"
    path.write_bytes(content if isinstance(content, bytes) else changed(state, content))
    assert ask(path) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"specon: --state: {path}: ")
    assert message in err
    assert len(err.splitlines()) == 1


def test_extreme_but_possible_numbers_are_survived(state, tmp_path, capsys):
    """Estimates beyond all bounds are cut, and a horizon ends what would take for ever."""

    def change(built):
        first_replica(built)["progress"]["remaining_seconds"] = {"value": 1e18, "uncertainty": 1e18}
        first_replica(built)["progress"]["total_steps"] = 10**15
        first_job(built)["attained_seconds"] = 1e15

    path = tmp_path / "state.json"
    path.write_bytes(changed(state, change))
    found = as_json(capsys, path, "--policy", "fifo", "--horizon", "1000")
    assert found["remaining"][0]["seconds"] <= 1e9


def test_a_journal_that_cannot_be_read_is_told(tmp_path, capsys):
    """With its line; a directory without a journal too."""
    path = tmp_path / "x.jsonl"
    path.write_text('{"type":"begin","schema":1}\n')
    assert ask(path) == 2
    assert f"specon: --state: {path}, line 1: " in capsys.readouterr().err
    assert ask(tmp_path) == 2
    assert f"{tmp_path / 'journal.jsonl'}: there is no journal" in capsys.readouterr().err
    assert ask(tmp_path / "nowhere") == 2
    assert "nowhere: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--policy", "nobody"], "--policy: policy: 'nobody' is not one of"),
        (["--policy", "srpt", "--policy", "srpt"], "--policy: srpt is given 2 times"),
        (["--horizon", "0"], "--horizon: 0 is not a number of seconds above 0"),
        (["--horizon", "nan"], "--horizon: nan is not a number of seconds above 0"),
        (["--prior", "-1"], "--prior: -1 is not a number of seconds above 0"),
        (["--top", "0"], "--top: 0 is less than 1"),
        (["--jobs", "0"], "--jobs: 0 is less than 1"),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_runs(flags, message, path, capsys, monkeypatch):
    """Exit code 2; the flag and the value are named."""
    monkeypatch.setattr(what_if, "simulate", None)
    assert ask(path, *flags) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"specon: {message}")


def test_a_policy_that_breaks_takes_nothing_from_the_others(path, capsys, monkeypatch):
    """Exit code 1, and what broke is told."""
    original = what_if.simulate

    def simulate_or_raise(workload, name, **rest):
        if name == "srpt":
            raise LookupError("lost")
        return original(workload, name, **rest)

    monkeypatch.setattr(what_if, "simulate", simulate_or_raise)
    assert ask(path, "--policy", "srpt", "--policy", "progress") == 1
    out, err = capsys.readouterr()
    assert "specon: srpt: LookupError: lost (" in err
    assert "progress: would" in out


def test_a_state_with_a_claim_of_a_job_that_is_gone_is_refused(state, tmp_path, capsys):
    """As everything that refers to what is not there."""
    claims = {"default/gone": Claimed(placement=(), until=1.0, reason="")}
    path = tmp_path / "state.json"
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(state, claims=claims)))
    assert ask(path) == 2
    assert "claims: there is no job 'default/gone'" in capsys.readouterr().err


def test_an_empty_state_has_nothing_to_predict(tmp_path, capsys):
    """One sentence."""
    path = tmp_path / "state.json"
    path.write_bytes(msgspec.json.encode(State(nodes={each.name: each for each in nodes()})))
    assert ask(path) == 2
    assert "jobs: all of them have ended" in capsys.readouterr().err


def test_admissions_and_scalings_say_with_how_many_workers(tmp_path, capsys):
    """What would be done to a job as a whole: how many workers it has and would have."""
    found = tmp_path / "state.json"
    state = with_gang(cluster_nodes(), elastic("w", declared_seconds=600.0), {}, queued_at=CHANGED_AT)
    found.write_bytes(msgspec.json.encode(state))
    assert ask(found, "--policy", "kod2") == 0
    assert "  AdmitGang w -> node-0 (0 -> 2 workers): " in capsys.readouterr().out
    now = as_json(capsys, found, "--policy", "kod2")["policies"][1]["now"]
    assert now["ordered"][0]["workers"] == [0, 2]


def test_a_dry_run_is_asked_what_it_would_order(state, tmp_path, capsys):
    """A manager that orders nothing still says what it would."""
    dry = msgspec.structs.replace(state, settings=msgspec.structs.replace(state.settings, dry_run=True))
    found = tmp_path / "state.json"
    found.write_bytes(msgspec.json.encode(dry))
    assert ask(found, "--policy", "srpt") == 0
    assert "\nsrpt: would order 2 now\n  Preempt job-0: " in capsys.readouterr().out


def scattered(tmp_path, **changes):
    """Write a state of two nodes of two CPUs, half of each free, on which a job for two waits; return it."""
    settings = Settings(policy="fifo", gate=Gate(horizon=60.0), **changes)
    found = msgspec.structs.replace(cluster_nodes(cpu=2.0), settings=settings)
    for name, node in (("a", "node-0"), ("b", "node-1")):
        found = with_gang(found, gang(name, 1, ps=0), {f"default/{name}/worker/0": node})
    for record in list(found.replicas.values()):
        running = msgspec.structs.replace(record, progress=Progress(step=5, metric="loss"))
        found = found.with_replica(running)
    found = with_gang(found, gang("w", 1, ps=0, cpu=2.0), {})
    path = tmp_path / "scattered.json"
    path.write_bytes(msgspec.json.encode(found.flatten()))
    return path


def test_it_says_which_moves_would_make_room_before_anybody_switches_them_on(tmp_path, capsys):
    """The moves with their price, what the start is worth, and what becomes free where."""
    assert ask(scattered(tmp_path), "--defragment") == 0
    assert capsys.readouterr().out == (
        "policy fifo, 2 of 2 nodes ready, 1 job waiting; defragment is off\n"
        "\n"
        "w, 1 replica, waits for 1s: 1 move would make room, in 1 round\n"
        "  price 10.0, its start is worth 120.0 (weighted replica-seconds); nothing cheaper would do\n"
        "  round 1: b node-1 -> node-0, price 10.0\n"
        "  node-1: 1 CPU, 7.451 GiB free now, 2 CPU, 7.451 GiB then, for 1 replica\n"
        "  it would be done\n"
    )


def test_moves_that_make_room_as_json(tmp_path, capsys):
    """Every part of the plan by name, and why it would not be done."""
    found = as_json(capsys, scattered(tmp_path, budgets=Budgets(moves_at_once=0)), "--defragment")
    (job,) = found["jobs"]
    assert (found["schema"], found["margin"], found["state"]["waiting"]) == (1, 1.0, 1)
    assert (job["job"], job["done"], job["price"], job["gain"]) == ("default/w", False, 10.0, 120.0)
    assert job["reason"] == "the budgets allow none of its moves at any time"
    (move,) = job["moves"]
    assert move["replicas"] == [{"replica": "default/b/worker/0", "source": "node-1", "target": "node-0"}]
    assert [each["node"] for each in job["frees"]] == ["node-1"]


def test_moves_are_looked_for_under_the_present_policy_alone(path):
    """Another one would be asked for something that is not looked at."""
    assert ask(path, "--defragment", "--policy", "srpt") == 2


def spread(tmp_path, **changes):
    """Write a state in which a gang of two on two nodes is known to train faster on one; return it."""
    settings = Settings(policy="fifo", gate=Gate(horizon=60.0), **changes)
    found = msgspec.structs.replace(cluster_nodes(cpu=2.0), settings=settings)
    spec = gang("g", 2, ps=0, kind="vae", resizing="none")
    found = with_gang(found, spec, {worker("g", index): f"node-{index}" for index in range(2)})
    lead = found.replicas[worker("g")]
    found = found.with_replica(msgspec.structs.replace(lead, progress=Progress(step=5, metric="loss")))
    found = known(found, MEASURED)
    path = tmp_path / "spread.json"
    path.write_bytes(msgspec.json.encode(found.flatten()))
    return path


def test_it_says_which_gangs_would_be_brought_together(tmp_path, capsys):
    """Both paces, how often they were measured, the price, what it is worth, and who goes where."""
    assert ask(spread(tmp_path), "--defragment") == 0
    assert capsys.readouterr().out == (
        "policy fifo, 2 of 2 nodes ready, 0 jobs waiting; defragment is off\n"
        "no job waits for room that is there and only scattered\n"
        "\n"
        "g, 2 workers on 2 nodes, would be faster on 1 node: 0.5 s for a step rather than 1 s"
        " (measured 10 and 10 times)\n"
        "  price 20.0, it saves 50 % of its time at least, worth 120.0 (weighted replica-seconds)\n"
        "  g/worker/1 node-1 -> node-0; all 2 of g start again\n"
        "  it would be done\n"
    )


def test_gangs_that_would_be_brought_together_as_json(tmp_path, capsys):
    """Every part by name, and why it would not be done."""
    found = as_json(capsys, spread(tmp_path, budgets=Budgets(moves_per_replica=0)), "--defragment")
    (gang,) = found["faster"]
    assert (gang["job"], gang["saves"]) == ("default/g", 0.5)
    assert (gang["setup"], gang["setup_then"]) == (
        {"workers": 2, "nodes": 2, "accelerator": ""},
        {"workers": 2, "nodes": 1, "accelerator": ""},
    )
    assert (gang["done"], gang["replicas"], gang["restarts"]) == (False, [], 0)
    assert gang["reason"] == "it was ended for a move 0 times, which is its budget"


def test_where_no_room_is_scattered_that_is_said(path, capsys):
    """A cluster that is full has nothing to be put together."""
    assert ask(path, "--defragment") == 0
    assert capsys.readouterr().out.endswith("no job waits for room that is there and only scattered\n")
