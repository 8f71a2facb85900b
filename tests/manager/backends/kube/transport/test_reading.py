"""Whatever reading an object raises, it is only that this object says nothing."""

import logging

import pytest

from specon_manager.backends.kube.transport.reading import ReadGuard


def odd(depth=0):
    return odd(depth + 1)


def refused():
    raise OverflowError("the repetition number is too large")


class SpeechlessError(Exception):
    def __str__(self):
        raise RuntimeError


def speechless():
    raise SpeechlessError


@pytest.mark.parametrize("reader", [odd, refused, speechless])
def test_what_is_raised_goes_no_further_and_is_counted(reader, caplog):
    """The log has name and error, in one line that is not long."""
    counted = []
    with ReadGuard(counted.append).of("Pod", "tenant/train"):
        reader()
    assert counted == ["Pod"]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "Pod tenant/train cannot be read and says nothing: " in record.message
    assert "test_reading.py" in record.message
    assert len(record.message) < 800
    assert record.exc_info is None


def test_it_is_said_once_of_an_object_and_counted_each_time(caplog):
    """A watch shows an object again and again; another error of the same object is news."""
    counted = []
    reading = ReadGuard(counted.append)
    for _ in range(3):
        with reading.of("Pod", "a/b"):
            refused()
    with reading.of("Pod", "a/b"):
        odd()
    assert (len(counted), len(caplog.records)) == (4, 2)


def test_what_was_said_is_remembered_of_so_many_objects_only(caplog):
    """A tenant may make as many as there is room for."""
    reading = ReadGuard()
    for index in range(5000):
        with reading.of("Pod", str(index)):
            refused()
    assert len(caplog.records) == 5000
    assert len(reading._told) <= 1000


def test_the_end_of_the_whole_work_is_no_odd_object():
    """Only errors end in the guard."""
    with pytest.raises(KeyboardInterrupt), ReadGuard().of("Pod", "a/b"):
        raise KeyboardInterrupt
