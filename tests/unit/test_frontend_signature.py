"""Annotations, parameters, tiling classes, captured names and sources."""

from __future__ import annotations

import linecache
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from kernel_text import N, X, kernel_of, module, read, statements

import pypto_pro.language as pl
from pypto_pro.diag import errors
from pypto_pro.dtypes import DataType
from pypto_pro.enums import TensorLayout
from pypto_pro.frontend import markers
from pypto_pro.frontend.annotations import DYNAMIC, STATIC, MemRef, PtrAnnotation, TensorAnnotation
from pypto_pro.frontend.parse import Specialisation, parse_kernel
from pypto_pro.frontend.signature import REQUIRED, ParamKind, has_kernel_annotation, read_signature
from pypto_pro.frontend.source import KernelSource, source_of
from pypto_pro.frontend.tiling import tiling_struct
from pypto_pro.ir.nodes import Assign, Const
from pypto_pro.ir.types import ArrayType, ScalarType

D = DataType


def test_tensor_annotations() -> None:
    assert pl.Tensor[[4, DYNAMIC], D.DT_FP32] == TensorAnnotation((4, DYNAMIC), False, D.DT_FP32)
    assert pl.Tensor([4], D.DT_FP32) == pl.Tensor[[4], D.DT_FP32]
    assert pl.Tensor[[4], D.DT_FP32, TensorLayout.NZ].layout is TensorLayout.NZ
    assert pl.Tensor[[4], D.DT_FP32, MemRef()].memref == MemRef()
    assert pl.Tensor[[4], D.DT_FP32, TensorLayout.DN, MemRef()].layout is TensorLayout.DN
    assert pl.Tensor[[STATIC, ...], D.DT_FP32].open_ended
    assert pl.Tensor[[], D.DT_FP32].dims == ()
    assert pl.Ptr[D.DT_INT8] == PtrAnnotation(D.DT_INT8)


BAD = [
    lambda: pl.Tensor[[0], D.DT_FP32],
    lambda: pl.Tensor[[True], D.DT_FP32],
    lambda: pl.Tensor[[-1], D.DT_FP32],
    lambda: pl.Tensor[[1.5], D.DT_FP32],
    lambda: pl.Tensor[["n"], D.DT_FP32],
    lambda: pl.Tensor[[..., 3], D.DT_FP32],
    lambda: pl.Tensor[[..., ...], D.DT_FP32],
    lambda: pl.Tensor[4, D.DT_FP32],
    lambda: pl.Tensor[[4]],
    lambda: pl.Tensor[[4], 5],
    lambda: pl.Tensor[[4], D.DT_FP32, TensorLayout.ZN],
    lambda: pl.Tensor[[4], D.DT_FP32, 5],
    lambda: pl.Tensor[[4], D.DT_FP32, TensorLayout.ND, 5],
    lambda: pl.Tensor[[4], D.DT_FP32, MemRef(), 5],
    lambda: pl.Tensor[[4], D.DT_FP32, TensorLayout.ND, MemRef(), 1],
    lambda: pl.Ptr[int],
    lambda: pl.Tile[[4, 4], D.DT_FP32, 3],
    lambda: pl.Tile[[4, DYNAMIC], D.DT_FP32],
    lambda: pl.Tile[[4, 4]],
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_annotations(number: int) -> None:
    with pytest.raises(TypeError):
        BAD[number]()


@dataclass
class Plain:
    a: int
    b: float
    c: bool
    d: int[4]
    e: bool[3] = field(default_factory=lambda: [False] * 3)


def test_signature() -> None:
    def fn(x: pl.Tensor[[pl.DYNAMIC, 8], pl.DT_FP16], p: pl.Ptr[pl.DT_INT8], n: pl.DT_INT32 = 5, t: Plain = None):
        pass

    specs = read_signature(fn, {**globals(), "pl": pl})
    assert [s.kind for s in specs] == [ParamKind.TENSOR, ParamKind.PTR, ParamKind.SCALAR, ParamKind.TILING]
    assert specs[0].dims == (DYNAMIC, 8)
    assert specs[0].default is REQUIRED
    assert specs[2].default == 5
    assert specs[3].tiling_class is Plain
    assert has_kernel_annotation(specs)

    def nothing(a: int, b, c: tuple[int, int]):
        pass

    assert not has_kernel_annotation(read_signature(nothing, globals()))


def test_annotations_that_fail_name_their_parameter() -> None:
    def fn(x: nowhere.Tensor):
        pass

    with pytest.raises(TypeError, match="annotation of `x`"):
        read_signature(fn, globals())


def test_tiling_struct() -> None:
    struct = tiling_struct(Plain)
    assert struct is not None
    assert dict(struct.fields) == {
        "a": ScalarType(D.DT_INDEX),
        "b": ScalarType(D.DT_FP32),
        "c": ScalarType(D.DT_BOOL),
        "d": ArrayType(ScalarType(D.DT_INDEX), 4),
        "e": ArrayType(ScalarType(D.DT_BOOL), 3),
    }


def test_what_is_no_tiling_class() -> None:
    @dataclass
    class Child(Plain):
        f: int = 0

    @dataclass
    class Text:
        a: str

    @dataclass
    class Large:
        a: int[2049]

    @dataclass
    class Zero:
        a: int[0]

    @dataclass
    class Named:
        a: int[SIZE]

    @dataclass
    class Empty:
        pass

    class NoDataclass:
        a: int

    for cls in (Child, Text, Large, Zero, Named, Empty, NoDataclass, 5, None):
        assert tiling_struct(cls) is None


TILING = (
    "from dataclasses import dataclass\n@dataclass\nclass Data:\n    "
    "n: int\n    f: float\n    b: bool\n    a: 'int[4]'\n"
)


def test_tiling_fields_are_run_time_and_read_only() -> None:
    kernel = read(
        "c = t.n + t.a[1]\nd = t.a\ne = d[t.n]\nif t.b:\n    c = 1\nf = t.f", "x: pl.Ptr[pl.DT_FP32], t: Data", TILING
    )
    assert kernel.params[1].type.is_tiling
    for body, kind in (
        ("t.n = 1", errors.ParserTypeError),
        ("t.a[0] = 1", errors.ParserTypeError),
        ("q = t.zz", errors.UnsupportedFeatureError),
        ("q = t.a[4]", errors.ParserSyntaxError),
        ("q = t.a[-1]", errors.ParserSyntaxError),
        ("q = t.n[0]", errors.ParserTypeError),
        ("q = t.a[0:1]", errors.ParserSyntaxError),
        ("q = t.a['x']", errors.ParserSyntaxError),
        ("q = t.a[0, 1]", errors.ParserSyntaxError),
        ("q = pl.TileType(shape=[t.n, 64], dtype=pl.DT_FP32)", errors.FinalRejectionError),
    ):
        with pytest.raises(errors.ParserError) as caught:
            read(body, "x: pl.Ptr[pl.DT_FP32], t: Data", TILING)
        assert type(caught.value) is kind, (body, caught.value)


def test_static_dims_are_constants() -> None:
    params = "x: pl.Tensor[[pl.STATIC, pl.DYNAMIC, ...], pl.DT_FP32]"
    kernel = read(
        "t = pl.TileType(shape=[x.shape[0], x.shape[2]], dtype=pl.DT_FP32)\nn = x.shape[1]",
        params,
        static=((0, 0, 8), (0, 2, 16), (0, 3, 2)),
    )
    assert kernel.params[0].type.dims == (8, None, 16, 2)
    with pytest.raises(errors.ParserError, match="needs a size"):
        read("pass", params)


def test_key_fields_and_dtype_variables() -> None:
    helper = "def width():\n    return Width * 2\n"
    body = (
        "t = pl.TileType(shape=[16, width()], dtype=dt)\nif Op == 0:\n    a = n\n"
        "else:\n    a = pl.no_such(nowhere)\nif dt == pl.DT_FP16:\n    b = nowhere"
    )
    read(body, f"{X}, {N}", helper, key={"Op": 0, "Width": 32}, datatypes={"dt": D.DT_FP32})
    with pytest.raises(errors.ParserSyntaxError, match="no_such"):
        read(body, f"{X}, {N}", helper, key={"Op": 1, "Width": 32}, datatypes={"dt": D.DT_FP32})


def test_key_fields_may_remove_sections() -> None:
    body = "if Op == 0:\n    with pl.section_cube():\n        pass\nwith pl.section_vector():\n    pass"
    assert len(read(body, key={"Op": 0}).programs) == 2
    assert len(read(body, key={"Op": 1}).programs) == 1


# --- closures --------------------------------------------------------------------------------------------------------


def test_enclosing_locals_are_copied_and_globals_stay_live() -> None:
    text = (
        "G = 1\ndef make(width, dt):\n    @pl.jit\n    def k(x: pl.Tensor[[width, width], dt]):\n"
        "        for i in pl.range(1):\n            a = G\n            b = width\n    width = 99\n    return k\n"
    )
    scope = module(text)
    made = scope["make"](8, D.DT_FP16)
    scope["G"] = 7
    kernel = parse_kernel(made.source, Specialisation())
    assert kernel.params[0].type.dims == (8, 8)
    assert kernel.captured == (("G", "7"),)
    values = {s.var.name: s.value for s in statements(kernel, Assign)}
    assert values["a"] == Const(7)


def test_postponed_annotations_see_the_enclosing_scope() -> None:
    text = (
        "from __future__ import annotations\ndef make(width):\n    @pl.jit\n    "
        "def k(x: pl.Tensor[[width * 2, 4], pl.DT_FP16], n: pl.DT_INT32):\n"
        "        pass\n    return k\n"
    )
    kernel = parse_kernel(_future(text)["make"](8).source, Specialisation())
    assert kernel.params[0].type.dims == (16, 4)


def _future(text: str) -> dict[str, Any]:
    """A module whose first line is the future import."""
    name = "<future kernel>"
    source = text.replace("annotations\n", "annotations\nimport pypto_pro.language as pl\n", 1)
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"__name__": "future_kernel"}
    exec(compile(source, name, "exec", dont_inherit=True), scope)
    return scope


VALUES = [
    ("5", True),
    ("2.5", True),
    ("True", True),
    ("(1, 2)", True),
    ("[1, [2, 3]]", True),
    ("pl.DT_FP32", True),
    ("pl.ND", True),
    ("'text'", False),
    ("None", False),
    ("{'a': 1}", False),
    ("object()", False),
    ("{1, 2}", False),
    ("range(3)", False),
    ("pl.TileType([16, 64], pl.DT_FP32)", False),
    ("[1, 'x']", False),
    ("int", False),
    ("pl", False),
]


@pytest.mark.parametrize(("value", "good"), VALUES)
def test_what_the_closure_may_hold(value: str, good: bool) -> None:
    if good:
        read("a = V", before=f"V = {value}")
        return
    with pytest.raises(errors.ParserTypeError, match="Unsupported closure variable type"):
        read("a = V", before=f"V = {value}")


def test_locals_shadow_globals() -> None:
    kernel = read("a = V\nV = n\nb = V", before="V = 5")
    assert next(s.value for s in statements(kernel, Assign) if s.var.name == "b").var.name == "V"


def test_a_run_time_local_never_falls_through_to_a_global() -> None:
    with pytest.raises(errors.UnsupportedFeatureError):
        read("V = n\na = V ** 2", before="V = 5")


# --- sources ---------------------------------------------------------------------------------------------------------


def test_same_text_in_two_files_is_two_sources() -> None:
    first = kernel_of("a = n", "n: pl.DT_INT32")
    second = kernel_of("a = n", "n: pl.DT_INT64")
    assert parse_kernel(first.source, Specialisation()).params != parse_kernel(second.source, Specialisation()).params


def test_spans_are_those_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "two.py"
    file.write_text(
        "import pypto_pro.language as pl\n\nif True:\n    @pl.jit\n    "
        "def k(n: pl.DT_INT32):\n        s = '''\n text'''\n        a = (n +\n             nowhere)\n"
    )
    scope: dict[str, Any] = {"__name__": "two"}
    exec(compile(file.read_text(), str(file), "exec"), scope)
    with pytest.raises(errors.UndefinedVariableError) as caught:
        parse_kernel(scope["k"].source, Specialisation())
    span = caught.value.span
    assert span is not None
    assert (span["line"], span["column"], span["end_column"]) == (9, 13, 20)


def test_no_source_is_an_error_of_the_language() -> None:
    scope: dict[str, Any] = {"pl": pl, "__name__": "nowhere"}
    exec(compile("@pl.jit\ndef k(n: pl.DT_INT32):\n    pass\n", "<gone>", "exec"), scope)
    with pytest.raises(errors.ParserSyntaxError, match="source text of `k` cannot be found"):
        parse_kernel(scope["k"].source, Specialisation())


def test_what_cannot_be_a_kernel() -> None:
    with pytest.raises(errors.ParserSyntaxError, match="plain function"):
        KernelSource.capture(print)
    with pytest.raises(errors.ParserSyntaxError, match="plain `def`"):
        source_of(module("k = lambda n: n\n")["k"])


def test_a_docstring_is_no_statement() -> None:
    assert read("pass", before="").programs
    scope = module("@pl.jit\ndef k(n: pl.DT_INT32):\n    'Only words.'\n")
    assert parse_kernel(scope["k"].source, Specialisation()).programs[0].body == ()


def test_markers() -> None:
    @markers.vector_function
    def v(t):
        pass

    assert markers.kind_of(v) == markers.VECTOR
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert markers.inline(v) is v
    assert caught[0].category is DeprecationWarning
    assert markers.max_threads_of(markers.simt_function(max_threads=4)(lambda: 0)) == 4
