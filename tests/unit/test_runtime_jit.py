"""`@pl.jit`: what is decided at decoration, at the subscript and at the call, before anything is compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto_pro.language as pl
from pypto_pro.diag.errors import ArgumentError, ArgumentKindError
from pypto_pro.runtime.jit import JitKernel, Launcher
from pypto_pro.runtime.specialise import DatatypeSchema
from pypto_pro.runtime.tilingkey import TilingKeyField


class Key:
    Wide = TilingKeyField(bits=1, values=[0, 1])


@pl.jit
def plain(x: pl.Tensor[[pl.DYNAMIC], pl.DT_FP32], n: pl.DT_INT32 = 4):
    """What it does."""


@pl.jit(tiling_key=Key)
def keyed(x: pl.Ptr[pl.DT_UINT8]):
    pass


@pl.jit(datatype={"x": "x_dtype"})
def typed(x: pl.Ptr[pl.DT_UINT8]):
    pass


@pl.jit(tiling_key=Key, datatype={"x": "dt", "y": "dt"})
def both(x: pl.Ptr[pl.DT_UINT8], y: pl.Ptr[pl.DT_UINT8]):
    pass


X = np.zeros(4, np.float32)


def test_a_kernel_object_keeps_what_python_tools_ask_for() -> None:
    assert isinstance(plain, JitKernel)
    assert (plain.__name__, plain.__doc__, plain.arch) == ("plain", "What it does.", None)
    assert (plain.tilingkey_schema, plain.datatype_schema) == (None, None)
    assert both.tilingkey_schema is not None
    assert both.tilingkey_schema.names == ("Wide",)
    assert both.datatype_schema == {"x": "dt", "y": "dt"}


def test_a_function_without_kernel_annotations_stays_python() -> None:
    @pl.jit
    def host(a, b: int = 2):
        """Doc."""
        return a + b

    assert not isinstance(host, JitKernel)
    assert host(1) == 3
    assert host.__doc__ == "Doc."


def test_unknown_options_are_type_errors() -> None:
    with pytest.raises(TypeError, match="auto_mutx"):
        pl.jit(auto_mutx=True)


def test_annotations_are_evaluated_at_decoration() -> None:
    with pytest.raises(TypeError, match="`x` cannot be evaluated"):

        @pl.jit
        def k(x: pl.Tensor[[Nowhere], pl.DT_FP32]):
            pass

    with pytest.raises(TypeError, match="a dim is a positive int"):

        @pl.jit
        def k2(x: pl.Tensor[[0], pl.DT_FP32]):
            pass


def test_enclosing_locals_are_captured() -> None:
    size = 5

    @pl.jit
    def k(x: pl.Tensor[[size], pl.DT_FP32]):
        pass

    assert k.specs[0].dims == (5,)


def test_schema_errors_at_decoration() -> None:
    class Taken:
        x = TilingKeyField(bits=1, values=[0])

    def body(x: pl.Ptr[pl.DT_UINT8]):
        pass

    with pytest.raises(ValueError, match="name of a kernel parameter"):
        pl.jit(tiling_key=Taken)(body)
    for wrong in ({}, {"z": "dt"}, {"x": "2"}, {"x": "x"}, ["x"], {1: "a"}):
        with pytest.raises(ValueError, match=r"datatype|dtype variable"):
            pl.jit(datatype=wrong)(body)
    with pytest.raises(ValueError, match="tiling key field"):
        pl.jit(tiling_key=Key, datatype={"x": "Wide"})(body)


@pytest.mark.parametrize(
    ("kernel", "form"),
    [
        (plain, (None,)), (plain, (None, 1, {})), (plain, (None, 1, {}, {})), (plain, ()),
        (keyed, 4), (keyed, (None, 1)), (keyed, (None, 1, {"Wide": 0}, {})), (keyed, (None, 1, {"Wide": 2})),
        (keyed, (None, 1, {})), (keyed, (None, 1, [0])), (keyed, (None, 1, None)),
        (typed, 4), (typed, (None, 1)), (typed, (None, 1, {}, {})),
        (both, (None, 1, {"Wide": 0})), (both, (None, 1)), (both, 1),
    ],
)  # fmt: skip
def test_launch_forms_that_do_not_fit(kernel: Any, form: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        kernel[form]


@pytest.mark.parametrize("kernel", [keyed, typed, both])
def test_schemas_need_brackets(kernel: Any) -> None:
    with pytest.raises(ValueError, match="launched as"):
        kernel(X)


def test_launch_forms_that_fit() -> None:
    made = (plain[3], plain[None, 3], keyed[None, 3, {"Wide": 1}], typed[None, 3, {}], both[None, 3, {"Wide": 0}, {}])
    assert all(isinstance(launcher, Launcher) and launcher.block_dim == 3 for launcher in made)


@pytest.mark.parametrize("blocks", [0, -1, True, 2.0, np.int64(2), None, "2"])
def test_block_dim_is_checked_at_the_call(blocks: Any) -> None:
    launcher = plain[None, blocks]
    with pytest.raises(ArgumentError, match="block_dim must be an int above 0"):
        launcher(X)


@pytest.mark.parametrize("blocks", [2**31, 2**40, 2**70])
def test_block_dim_fits_the_index_queries(blocks: int) -> None:
    with pytest.raises(ArgumentError, match="block_dim must be at most 2147483647"):
        plain[None, blocks](X)


@pytest.mark.parametrize(
    ("args", "kwargs"), [((), {}), ((X, 1, 2), {}), ((X,), {"m": 1}), ((X,), {"x": X})], ids=str
)
def test_names_are_bound_as_python_does(args: Any, kwargs: Any) -> None:
    with pytest.raises(ArgumentKindError, match="plain"):
        plain(*args, **kwargs)


def test_names_come_before_block_dim_and_tensors() -> None:
    with pytest.raises(TypeError, match="missing a required argument"):
        plain[None, 0]()
    with pytest.raises(ValueError, match="block_dim"):
        plain[None, 0]("no tensor")


def test_defaults_of_the_signature_hold() -> None:
    assert plain.bind_names((X,), {}) == (X, 4)
    assert plain.bind_names((), {"n": 2, "x": X}) == (X, 2)


def test_errors_point_at_the_authors_line() -> None:
    with pytest.raises(ArgumentError) as caught:
        plain[None, 0](X)  # here
    span = caught.value.diagnostic.spans[0]
    assert (span.file, span.source_line().strip()) == (__file__, "plain[None, 0](X)  # here")
    with pytest.raises(ArgumentError) as caught:
        keyed[None, 1, {"Wide": 7}]
    assert "Wide" in caught.value.diagnostic.spans[0].source_line()


def test_datatypes_of_a_launch() -> None:
    schema = DatatypeSchema.of({"x": "a", "y": "a", "z": "b"}, ["x", "y", "z"], [])
    good = {"x": pl.DT_FP16, "y": pl.DT_FP16, "z": pl.DT_INT8}
    assert schema.check(good) == (("a", pl.DT_FP16), ("b", pl.DT_INT8))
    for wrong, error in (
        ({"x": pl.DT_FP16}, ValueError),
        ({**good, "w": pl.DT_FP16}, ValueError),
        ({**good, "y": pl.DT_FP32}, ValueError),
        ({**good, "z": "int8"}, TypeError),
        (None, ValueError),
    ):
        with pytest.raises(error):
            schema.check(wrong)
    with pytest.raises(ArgumentError):
        both[None, 1, {"Wide": 0}, {"x": pl.DT_FP16, "y": pl.DT_FP32}](X, X)
    with pytest.raises(ArgumentKindError):
        both[None, 1, {"Wide": 0}, {"x": 1, "y": 1}](X, X)
