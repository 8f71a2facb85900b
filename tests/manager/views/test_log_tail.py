"""The end of a log as a screen shows it."""

import os

import pytest

from specon_manager.backends.local.log_tail import read_tail
from specon_manager.views.log_tail import BYTES, LINES, pod_log_tail, tail_of


def test_the_last_lines_are_shown_without_what_steers_a_screen():
    """Escape sequences are taken out, and of a progress bar only its last state is left."""
    tail = tail_of("/x", b"step 1\n\x1b[31mred\x1b[0m\n 10%\r 50%\r 90%\r\nlast", whole=True)
    assert tail.lines == ("step 1", "[31mred [0m", "90%", "last")
    assert not tail.more


def test_it_is_bounded(tmp_path):
    """In lines, in their length, and in what is read of a large file."""
    log = tmp_path / "train.log"
    log.write_text("".join(f"step {number} {'x' * 500}\n" for number in range(5000)))
    tail = read_tail(log)
    assert tail.more
    assert 0 < len(tail.lines) <= LINES
    assert max(map(len, tail.lines)) <= 300
    assert tail.lines[-1].startswith("step 4999")
    assert sum(map(len, tail.lines)) < BYTES


def test_a_line_that_begins_before_what_was_read_is_left_out():
    """Half a line would say something that nobody wrote."""
    assert tail_of("/x", b"alf a line\nwhole\n", whole=False).lines == ("whole",)


@pytest.mark.parametrize(
    ("make", "note"),
    [
        (lambda path: None, "nothing is written yet"),
        (lambda path: path.write_text(""), "nothing is written yet"),
        (lambda path: path.mkdir(), "no log in it yet"),
        (os.mkfifo, "cannot be read: is no regular file"),
    ],
)
def test_what_has_no_lines_says_why(tmp_path, make, note):
    """A pipe is not waited for."""
    make(tmp_path / "log")
    tail = read_tail(tmp_path / "log")
    assert (tail.lines, tail.note) == ((), note)


def test_on_kubernetes_it_says_where_the_log_is():
    """With the pod's name where that is known."""
    assert pod_log_tail("team/a/worker/0", "a-0-xyz").path == "kubectl -n team logs a-0-xyz"
    assert pod_log_tail("team/a/worker/0", None).path == "kubectl -n team logs POD"
