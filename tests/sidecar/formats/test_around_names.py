"""What stands around the name of a metric is no part of it, and what tells two names apart is."""

import pytest

from specon_sidecar.formats.key_value import KeyValue
from specon_sidecar.formats.parser import FormatOptions


@pytest.mark.parametrize(
    ("line", "name", "value", "step"),
    [
        ("Global step: 50; Average loss over last 10 steps: 2.2", "Average loss", 2.2, 50),
        ("2024-05-01 12:00:00 [train] e0 b5/30 loss=2.17", "loss", 2.17, None),
        ("step:50 bits/char 2.18", "bits/char", 2.18, 50),
        ("step 50: bits per dim: 2.18", "bits per dim", 2.18, 50),
        ("step 50: train bits per char: 2.18", "train bits per char", 2.18, 50),
        ("step 50 e1 loss: 2.2 e2 loss: 6.6", "sum of loss parts", 8.8, 50),
        ("step 50 s1 loss: 2.2", "s1 loss", 2.2, 50),
    ],
)
def test_what_stands_around_a_name_is_no_part_of_it(line, name, value, step):
    """A stretch of steps, short counters; and rates of compression are errors where there is nothing else."""
    sample = KeyValue(FormatOptions()).parse(line.encode())
    assert (sample.name, sample.value, sample.step) == (name, value, step)
