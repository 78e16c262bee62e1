"""Prompts and noise are the same wherever they are asked for."""

import numpy as np
import pytest

from warmcurve.embedded import library, noise


def test_prompts_differ_and_are_repeatable():
    """As many different prompts of one length as asked for, the same each time, the fewer a beginning of the more."""
    many = library.prompts(40, 100)
    assert len(set(many)) == 40
    assert {len(prompt) for prompt in many} == {100}
    assert library.prompts(10, 100) == many[:10]


def test_held_out_files_are_a_small_part():
    """Training files and held-out files share nothing, and some are held out."""
    training, held_out = set(library.files(held_out=False)), set(library.files(held_out=True))
    assert not training & held_out
    assert 0 < len(held_out) < len(training) / 8


def test_a_machine_without_source_is_told_so(tmp_path):
    """Where the standard library has no source, there are no prompts, and the error says why."""
    with pytest.raises(FileNotFoundError, match="standard library"):
        library.prompts(1, 10, tmp_path)


def test_noise_is_a_function_of_seed_and_position():
    """The same rows each time, spread over the table, of standard Gumbel noise."""
    seeds, positions = np.arange(64)[:, None], np.arange(384)
    rows = noise.rows(seeds, positions)
    np.testing.assert_array_equal(rows, noise.rows(seeds, positions))
    assert 0 <= rows.min() < rows.max() < len(noise.table())
    assert len(np.unique(rows)) > 0.95 * len(noise.table())
    assert noise.table().mean() == pytest.approx(np.euler_gamma, abs=0.01)
    assert noise.table().var() == pytest.approx(np.pi**2 / 6, abs=0.02)
