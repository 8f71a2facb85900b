"""The helper over one socket: what it says, what it is asked, and that it never harms the trainer."""

import os
import select
import signal
import socket
import threading
import time
from contextlib import suppress

import pytest

import specon
from specon import connection, helper
from support.fake_sidecar import fresh, soon


def test_first_message_says_who_this_is_and_shows_the_token(sidecar):
    """The first line is a hello with the token, the process and its place among the ranks."""
    specon.announce("frame 1.0")
    hello = sidecar.hear()["hello"]
    assert hello == {
        "version": 1, "pid": os.getpid(), "rank": 0, "world": 1, "framework": "frame 1.0", "saves": True,
        "token": "secret",
    }  # fmt: skip


def test_request_is_true_once(sidecar):
    """A request is passed on once; a second one is another."""
    assert not specon.checkpoint_requested()
    sidecar.hear()
    sidecar.say("checkpoint", request="one", pause=0)
    assert soon(specon.checkpoint_requested)
    time.sleep(0.06)
    assert not specon.checkpoint_requested()
    sidecar.say("checkpoint", request="two", pause=0)
    assert soon(specon.checkpoint_requested)


def test_save_answers_the_request_and_a_regular_one_names_none(sidecar, tmp_path):
    """What was saved is told with the request that it answers, and without one where nobody asked."""
    specon.saved(tmp_path / "a", 3)
    assert [next(iter(sidecar.hear())), sidecar.hear()] == [
        "hello", {"saved": {"path": str(tmp_path / "a"), "step": 3, "request": None}},
    ]  # fmt: skip
    sidecar.say("checkpoint", request="one", pause=0)
    assert soon(specon.checkpoint_requested)
    specon.saved(tmp_path / "b", 4)
    assert "saves" in sidecar.hear()["hello"]
    assert sidecar.hear()["saved"]["request"] == "one"


def test_own_save_answers_where_the_trainer_never_asks(sidecar, tmp_path):
    """A trainer that never looks for requests answers with the next save of its own."""
    specon.report(1)
    sidecar.hear()
    sidecar.say("checkpoint", request="one", pause=0)
    time.sleep(0.05)
    specon.report(2)
    specon.saved(tmp_path, 2)
    assert soon(lambda: sidecar.hear().get("saved"))["request"] == "one"


def test_regular_save_answers_no_request_that_the_trainer_will_be_told_of(sidecar, tmp_path):
    """A save that began before the trainer was told is a regular one."""
    specon.checkpoint_requested()
    sidecar.hear()
    sidecar.say("checkpoint", request="one", pause=0)
    helper._helper.look(connection.now() + 1)
    specon.saved(tmp_path, 2)
    assert soon(lambda: sidecar.hear().get("saved"))["request"] is None
    helper._helper.look_at = 0
    assert soon(specon.checkpoint_requested)


def _pausing(sidecar, tmp_path, meanwhile) -> float:
    specon.checkpoint_requested()
    sidecar.hear()
    sidecar.say("checkpoint", request="one", pause=30)
    assert soon(specon.checkpoint_requested)
    thread = threading.Thread(target=meanwhile)
    thread.start()
    begun = time.monotonic()
    specon.saved(tmp_path, 4)
    thread.join()
    return time.monotonic() - begun


def test_pause_lasts_until_the_release(sidecar, tmp_path):
    """After the save the trainer waits as long as it is held, and trains on when released."""

    def meanwhile() -> None:
        soon(lambda: sidecar.hear().get("saved"))
        sidecar.say("hold", request="one")
        time.sleep(0.4)
        sidecar.say("release", request="one")

    assert 0.4 < _pausing(sidecar, tmp_path, meanwhile) < 5


def test_pause_ends_where_the_sidecar_falls_silent(sidecar, tmp_path, monkeypatch):
    """Nothing heard for the time after which a hold is stale: the trainer trains on."""
    monkeypatch.setattr(connection, "STALE_SECONDS", 0.5)
    assert 0.5 < _pausing(sidecar, tmp_path, sidecar.die) < 5


def test_pause_ends_where_the_trainer_is_told_to_end(sidecar, tmp_path):
    """A trainer that catches SIGTERM ends its pause when it comes, and its own handler is called."""
    heard = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
    try:

        def meanwhile() -> None:
            soon(lambda: sidecar.hear().get("saved"))
            os.kill(os.getpid(), signal.SIGTERM)

        assert _pausing(sidecar, tmp_path, meanwhile) < 5
        assert heard == [1]
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard == [1, 1]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_what_a_handler_raises_in_the_pause_is_the_trainers(sidecar, tmp_path):
    """An exception of the trainer's own signal handler goes through, as it would anywhere else."""

    class ToldError(Exception):
        pass

    def told(*_):
        raise ToldError

    before = signal.signal(signal.SIGTERM, told)

    def meanwhile() -> None:
        soon(lambda: sidecar.hear().get("saved"))
        os.kill(os.getpid(), signal.SIGTERM)

    try:
        with pytest.raises(ToldError):
            _pausing(sidecar, tmp_path, meanwhile)
        assert signal.getsignal(signal.SIGTERM) is told
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_sidecar_that_restarts_is_told_again(sidecar, monkeypatch):
    """Another sidecar at the same place hears who this is, and what waited."""
    monkeypatch.setattr(connection, "_RETRY_SECONDS", 0.05)
    specon.announce("frame")
    sidecar.hear()
    sidecar.die()
    specon.report(7, loss=0.5)
    sidecar.listen()

    def heard():
        specon.report(8, loss=0.5)
        return select.select([sidecar.server], [], [], 0)[0] and sidecar.hear()

    assert soon(heard)["hello"]["framework"] == "frame"
    helper._last_words()
    assert sidecar.hear()["report"]["values"] == {"loss": 0.5}


def test_a_save_that_a_dying_sidecar_did_not_take_is_told_to_the_next(sidecar, monkeypatch):
    """What could not be sent in full waits, in its order."""
    monkeypatch.setattr(connection, "_RETRY_SECONDS", 0.0)
    specon.announce("frame")
    sidecar.hear()
    sidecar.die()
    specon.saved("/a", 1)
    specon.saved("/b", 2)
    sidecar.listen()
    helper._helper.look(connection.now() + 1)
    assert [sidecar.hear() for _ in range(3)][1:] == [
        {"saved": {"path": path, "step": step, "request": None}} for path, step in (("/a", 1), ("/b", 2))
    ]


def test_reports_are_bounded_numbers(sidecar):
    """What is no finite number is none; names and their count are bounded; the epoch has its place."""
    specon.report(3, loss=float("nan"), total="400", epoch=1.5, strange=object(), good=2, **{"n" * 300: 1})
    sidecar.hear()
    assert sidecar.hear()["report"] == {
        "step": 3, "total": 400, "epoch": 1.5,
        "values": {"strange": None, "good": 2.0, "n" * 128: 1.0, "loss": None},
    }  # fmt: skip


def test_many_reports_are_few_messages_and_the_last_is_among_them(sidecar):
    """Ten reports a second are sent; the last one is not lost."""
    for step in range(1000):
        specon.report(step, loss=1.0)
    helper._last_words()
    helper._helper.connection.close()
    heard = []
    with suppress(EOFError):
        while True:
            heard.append(sidecar.hear())
    steps = [one["report"]["step"] for one in heard if "report" in one]
    assert steps[0] == 0
    assert steps[-1] == 999
    assert len(steps) < 50


def test_a_sidecar_that_reads_nothing_blocks_nobody(sidecar, monkeypatch):
    """With a full socket the newest report waits; the trainer never does."""
    monkeypatch.setattr(helper, "_REPORT_SECONDS", 0)
    begun = time.monotonic()
    for step in range(20000):
        specon.report(step, loss=1.0)
        helper._helper.look(connection.now())
    assert time.monotonic() - begun < 20
    assert len(helper._helper.connection._out) < connection.MAX_LINE


@pytest.mark.parametrize(
    "line",
    [b"\xff\xfe", b"[1]", b"{" * 50000, b'{"checkpoint": 1}', b'{"checkpoint": {"request": {}, "pause": []}}',
     b'{"welcome": {"resume": {"path": 1}}}', b'{"later": {"x": 1}}', b"x" * 200000],
)  # fmt: skip
def test_nonsense_from_the_socket_is_no_harm(sidecar, line):
    """Whatever stands at the other end, the trainer gets no exception."""
    specon.checkpoint_requested()
    sidecar.hear()
    sidecar.peer.sendall(line + b"\n")
    for _ in range(3):
        helper._helper.look_at = 0
        assert not specon.checkpoint_requested()


def test_resume_is_what_the_sidecar_welcomes_with(sidecar):
    """The verified checkpoint comes with the welcome; it is asked for once."""
    thread = threading.Thread(
        target=lambda: (sidecar.hear(), sidecar.say("welcome", resume={"path": "/c/step-9", "step": 9}))
    )
    thread.start()
    assert (specon.resume_path(), specon.resume_step()) == ("/c/step-9", 9)
    thread.join()


def test_nothing_to_go_on_from(sidecar, monkeypatch):
    """Where there is none, or nobody listens, the trainer begins anew."""
    thread = threading.Thread(target=lambda: (sidecar.hear(), sidecar.say("welcome", resume=None)))
    thread.start()
    assert specon.resume_path() is None
    thread.join()
    sidecar.die()
    fresh(monkeypatch)
    monkeypatch.setattr(helper, "_WELCOME_SECONDS", 0.1)
    assert specon.resume_path() is None


def test_without_a_sidecar_all_calls_do_nothing(monkeypatch, tmp_path, capsys):
    """Where no socket is named nothing happens, and nothing is said."""
    monkeypatch.delenv("SPECON_SOCKET", raising=False)
    fresh(monkeypatch)
    specon.announce("x")
    specon.report(1, loss=object())
    specon.saved(tmp_path, 1)
    specon.refused("no")
    specon.resumed(None, 0)
    assert not specon.checkpoint_requested()
    assert specon.resume_path() is None
    assert not specon.enabled()
    assert capsys.readouterr().err == ""


def test_wrong_arguments_are_one_line_and_no_exception(sidecar, capsys):
    """A mistake in a call is told once; the trainer goes on."""
    specon.saved(None, "x")
    specon.saved(object(), 1)
    assert not specon.checkpoint_requested()
    assert capsys.readouterr().err.count("\n") == 1


def test_child_of_a_fork_has_a_connection_of_its_own(sidecar):
    """What a forked worker does neither uses nor keeps the trainer's connection."""
    specon.announce("parent")
    sidecar.hear()
    child = os.fork()
    if child == 0:
        os._exit(0 if helper._helper.connection._socket is None else 1)
    assert os.waitpid(child, 0)[1] == 0
    specon.saved("/a", 1)
    assert sidecar.hear()["saved"]["step"] == 1


def test_values_that_wait_are_not_replaced_by_a_mere_count_of_steps(sidecar, monkeypatch):
    """Between two logs of a framework there are many steps, and the loss is in none of them."""
    helper._helper.report_at = helper.now() + 3600.0
    specon.report(10, loss=0.5)
    specon.report(11)
    assert helper._helper.late["values"] == {"loss": 0.5}
    helper._helper.report_at = 0.0
    specon.report(12)
    assert helper._helper.late is None


@pytest.mark.parametrize(
    "arguments",
    [(None, 3), ("a", None), ("a", float("nan")), ("a", -1), ("a", 10**5000), ("a" * 5000, 3), (b"/\xff", 3)],
)
def test_nonsense_from_one_rank_is_an_answer_and_no_end_of_the_helper(sidecar, arguments, capsys):
    """Other ranks count on this one's part in what they agree on: it goes on taking part."""
    assert not specon.checkpoint_requested()
    sidecar.hear()
    sidecar.say("checkpoint", request="one", pause=0)
    assert soon(specon.checkpoint_requested)
    specon.saved(*arguments)
    while "refused" not in (heard := sidecar.hear()):
        assert "saved" not in heard
    assert heard["refused"]["request"] == "one"
    assert "saved()" in capsys.readouterr().err
    sidecar.say("checkpoint", request="two", pause=0)
    assert soon(specon.checkpoint_requested)


def test_what_was_closed_under_the_helper_is_the_trainers(sidecar, monkeypatch):
    """A daemon closes all it has open; what then gets the number of the helper's socket stays whole."""
    monkeypatch.setattr(connection, "_RETRY_SECONDS", 0.0)
    specon.announce("frame")
    sidecar.hear()
    number = helper._helper.connection._socket.fileno()
    own, other = socket.socketpair()
    os.dup2(own.fileno(), number)
    own.close()
    other.setblocking(False)
    specon.saved("/a", 1)
    helper._helper.look(connection.now() + 1)
    with pytest.raises(BlockingIOError):
        other.recv(100)
    os.write(number, b"whole")
    assert other.recv(100) == b"whole"
    os.close(number)
    other.close()
    sidecar.others.append(sidecar.peer)
    sidecar.accept()
    assert [next(iter(sidecar.hear())) for _ in range(2)] == ["hello", "saved"]


def test_a_handler_that_speaks_amid_a_message_tears_none(sidecar, monkeypatch):
    """A signal may come while a message is sent, and its handler may have one: each comes whole."""
    specon.announce("frame")
    sidecar.hear()
    held = helper._helper.connection

    class Interrupted:
        def __init__(self, inside) -> None:
            self.inside, self.interrupted = inside, False

        def send(self, content) -> int:
            sent = self.inside.send(content)
            if not self.interrupted:
                self.interrupted = True
                specon.saved("/b", 2)
            return sent

        def __getattr__(self, name):
            return getattr(self.inside, name)

    monkeypatch.setattr(held, "_socket", Interrupted(held._socket))
    specon.saved("/a", 1)
    helper._helper.look(connection.now() + 1)
    assert [sidecar.hear()["saved"]["path"] for _ in range(2)] == ["/a", "/b"]


def test_report_that_is_too_long_for_a_message_is_left_out(sidecar):
    """The sidecar would send away who says more than a message may have."""
    specon.report(1, **{"\U0001f600" * 100 + str(number): 1.0 for number in range(64)})
    helper._helper.report_at = 0.0
    specon.report(2)
    sidecar.hear()
    assert sidecar.hear()["report"]["step"] == 2


def test_a_token_that_cannot_be_read_yet_is_tried_again(sidecar, monkeypatch, capsys):
    """Another sidecar writes another one soon."""
    monkeypatch.setattr(connection, "_RETRY_SECONDS", 0.0)
    sidecar.token_file.write_bytes(b"\xff\xfe")
    specon.announce("frame")
    assert sidecar.hear()["hello"]["token"] != "secret"
    sidecar.token_file.write_bytes(b"secret\n")
    sidecar.peer.close()
    sidecar.peer = None

    def heard():
        helper._helper.look(connection.now() + 1)
        return select.select([sidecar.server], [], [], 0)[0] and sidecar.hear()

    assert soon(heard)["hello"]["token"] == "secret"
    assert capsys.readouterr().err == ""
