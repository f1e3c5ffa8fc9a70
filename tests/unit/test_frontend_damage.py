"""Damaged kernels are read or answered by an error of the language at a line; never by an error of ours."""

from __future__ import annotations

import warnings

import kernel_mutations
import pytest

FEW, MANY = 40, 400


def wrong(seeds: range) -> list[tuple[int, str]]:
    text = kernel_mutations.SOURCE.read_text(encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python remarks on some of the damage
        answers = ((seed, kernel_mutations.outcome(seed, text)) for seed in seeds)
        return [(seed, answer) for seed, answer in answers if answer is not None]


def test_damaged_kernels() -> None:
    assert wrong(range(FEW)) == []


@pytest.mark.slow
def test_many_damaged_kernels() -> None:
    assert wrong(range(FEW, MANY)) == []
