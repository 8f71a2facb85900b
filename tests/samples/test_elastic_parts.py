"""The parts of the parameter-server sample that need no process of their own."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

TRAINING = str(Path(__file__).parents[2] / "samples" / "training")
sys.path.insert(0, TRAINING)  # scripts import each other from their own folder
try:
    import array_checkpoints
    import numpy_perceptron
    import parameter_wire
finally:
    sys.path.remove(TRAINING)


def test_the_gradient_is_that_of_the_loss():
    """It agrees with differences of the loss in every tenth parameter."""
    model = numpy_perceptron.Perceptron(hidden=5)
    chance = np.random.default_rng(1)
    images, labels = chance.random((12, 64)), chance.integers(10, size=12)
    parameters = model.initial(2).astype(np.float64)
    _, gradient = model.gradient(parameters, images, labels)
    for index in range(0, model.size, 10):
        ahead, behind = parameters.copy(), parameters.copy()
        ahead[index] += 1e-4
        behind[index] -= 1e-4
        rise = model.gradient(ahead, images, labels)[0] - model.gradient(behind, images, labels)[0]
        assert gradient[index] == pytest.approx(rise / 2e-4, abs=1e-4)


def test_training_lowers_the_loss():
    """Fifty steps of Adam on one batch halve it."""
    model = numpy_perceptron.Perceptron(hidden=16)
    chance = np.random.default_rng(1)
    images, labels = chance.random((32, 64), dtype=np.float32), chance.integers(10, size=32)
    trained = numpy_perceptron.Trained.fresh(model.initial(1))
    losses = []
    for _ in range(50):
        loss, gradient = model.gradient(trained.parameters, images, labels)
        trained.apply(gradient, 0.01)
        losses.append(loss)
    assert losses[-1] < losses[0] / 2
    assert trained.step == 50


@pytest.fixture
def trained():
    trained = numpy_perceptron.Trained.fresh(numpy_perceptron.Perceptron(hidden=3).initial(1))
    trained.apply(np.ones_like(trained.parameters), 0.1)
    return trained


def test_a_checkpoint_is_read_as_it_was_written(tmp_path, trained):
    """Parameters, both moments and the step; only the newest stay."""
    for step in range(1, 6):
        trained.step = step
        path = array_checkpoints.save(tmp_path, trained, keep=2)
    assert [each.name for each in array_checkpoints.listed(tmp_path)] == [
        "step-00000004.npz",
        "step-00000005.npz",
    ]
    found = array_checkpoints.read(path, trained.parameters.size)
    assert found.step == 5
    for name in ("parameters", "mean", "square"):
        np.testing.assert_array_equal(getattr(found, name), getattr(trained, name))


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_a_damaged_checkpoint_is_never_taken(tmp_path_factory, data):
    """One that is cut off is refused with a ValueError; one of another size as well."""
    folder = tmp_path_factory.getbasetemp() / "arrays"
    folder.mkdir(exist_ok=True)
    fresh = numpy_perceptron.Trained.fresh(numpy_perceptron.Perceptron(hidden=3).initial(1))
    path = array_checkpoints.save(folder, fresh, keep=2)
    with pytest.raises(ValueError, match=path.name):
        array_checkpoints.read(path, fresh.parameters.size + 1)
    content = path.read_bytes()
    path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1), label="cut at")])
    with pytest.raises(ValueError, match=path.name):
        array_checkpoints.read(path, fresh.parameters.size)


@given(st.lists(st.floats(width=32, allow_nan=False)))
def test_an_array_arrives_as_it_was_sent(numbers):
    """Whatever the numbers are; the header says how many bytes follow."""
    array = np.array(numbers, dtype=np.float32)
    message = parameter_wire.packed(parameter_wire.PUSH, array, step=7, loss=0.5)
    operation, step, loss, size = parameter_wire.HEADER.unpack_from(message)
    assert (operation, step, loss) == (parameter_wire.PUSH, 7, 0.5)
    content = message[parameter_wire.HEADER.size :]
    assert len(content) == size
    np.testing.assert_array_equal(parameter_wire.as_array(content), array)


def test_half_a_number_is_refused():
    """Five bytes are no whole number of float32."""
    with pytest.raises(parameter_wire.WireError, match="5 bytes"):
        parameter_wire.as_array(b"12345")


def test_the_address_is_read_from_file_or_environment(tmp_path, monkeypatch):
    """The file for one machine, PS_ADDRESS for a cluster; a wrong one is named."""
    file = tmp_path / "server.json"
    parameter_wire.publish(file, 4711)
    assert parameter_wire.address(file) == ("127.0.0.1", 4711)
    monkeypatch.setenv("PS_ADDRESS", "server-ps-0.samples.svc:2222")
    assert parameter_wire.address(None) == ("server-ps-0.samples.svc", 2222)
    monkeypatch.setenv("PS_ADDRESS", "nowhere")
    with pytest.raises(ValueError, match="PS_ADDRESS must be HOST:PORT, not 'nowhere'"):
        parameter_wire.address(None)
