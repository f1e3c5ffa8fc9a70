"""The register-level operators of examples/: right on both executors, and nothing for the checks to find."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from typing import Any

import pytest

import pypto_pro

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
NAMES = ["vf_softmax", "vf_rmsnorm", "vf_dequantise", "vf_topk", "vf_transpose"]


def example(name: str) -> Any:
    """A module of examples/, freshly executed."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize("name", NAMES)
def test_right_natively(name: str) -> None:
    with pypto_pro.options(executor="native", check=False):
        example(name).main()  # compares with numpy itself


@pytest.mark.parametrize("name", NAMES)
def test_right_and_clean_under_the_checks(name: str) -> None:
    with pypto_pro.options(check=True):  # a finding of severity error would be a CheckError
        example(name).main()
