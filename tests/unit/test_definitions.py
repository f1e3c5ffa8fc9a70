"""Definitions for tooling: `pl.kernel`, `pl.function`, `pl.program`, `pl.parse` and what they refuse (frontend 16)."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

import pypto_pro.language as pl
from pypto_pro.diag import errors
from pypto_pro.ir.nodes import Op
from pypto_pro.ir.walk import statements

FUNCTION = "@pl.function\ndef {name}(x: pl.Tensor[[4], pl.DT_INT32], n: pl.DT_INT32):\n{body}\n"
BODY = "    with pl.section_vector():\n        x[0] = n"
PROGRAM = """
@pl.program
class Both:
    @pl.function
    def main(self, x: pl.Tensor[[4], pl.DT_INT32], n: pl.DT_INT32):
        v = self.twice(n)
        with pl.section_vector():
            x[0] = v
    @pl.function
    def twice(self, n: pl.DT_INT32):
        return n * 2
"""


def text(body: str = BODY, name: str = "f") -> str:
    return FUNCTION.format(name=name, body=body)


def test_a_kernel_definition_is_read_on_request_only() -> None:
    @pl.kernel
    def k(x: pl.Ptr[pl.DT_INT8]):
        nowhere

    assert isinstance(k, pl.KernelDef)
    assert not callable(k)
    with pytest.raises(errors.UndefinedVariableError):
        k.ir()


def test_options_of_definitions() -> None:
    with pytest.raises(TypeError, match="unexpected keyword"):
        pl.kernel(wrong=1)
    made = pl.parse("@pl.kernel(name='o', func_type=pl.FunctionType.InCore, auto_mutex=False, meta_data=3)\n"
                    "def k(x: pl.Ptr[pl.DT_INT8]):\n    pass")  # fmt: skip
    assert (made.name, made.func_type, made.auto_mutex, made.meta_data) == ("o", pl.FunctionType.InCore, False, 3)
    assert pl.parse(text()).func_type is pl.FunctionType.Opaque


def test_functions_are_read_at_decoration() -> None:
    with pytest.raises(errors.UndefinedVariableError, match="nowhere"):
        pl.parse(text("    nowhere"))
    assert [op.name for op in statements(pl.parse(text()).ir().programs[0].body) if isinstance(op, Op)] == ["pl.setval"]


def test_functions_may_return_a_value_in_their_last_statement() -> None:
    assert pl.parse(text(f"{BODY}\n    return n + 1")).name == "f"
    with pytest.raises(errors.ParserSyntaxError, match="in the last statement"):
        pl.parse(text(f"    if n > 1:\n        return 3\n{BODY}\n    return n"))
    with pytest.raises(errors.UndefinedVariableError):
        pl.parse(text(f"{BODY}\n    return nowhere"))
    kernel = pl.parse(text(f"{BODY}\n    return n").replace("pl.function", "pl.kernel"))
    with pytest.raises(errors.ParserSyntaxError, match="returns nothing"):
        kernel.ir()


def test_a_method_is_left_to_the_program() -> None:
    class C:
        @pl.function
        def m(self, n):
            return n

    assert C().m(3) == 3


@pytest.mark.parametrize(
    ("body", "name", "line"),
    [
        ("    a = n\n    a = 2", "a", 4),
        ("    n = 2", "n", 3),
        ("    a = 1\n    a += 1", "a", 4),
        ("    for i in pl.range(2):\n        pass\n    for i in pl.range(3):\n        pass", "i", 5),
        ("    if n > 1:\n        a = 1\n    else:\n        a = 2", "a", 6),
        ("    a, b = n, n\n    b: int = 3", "b", 4),
    ],
)
def test_strict_ssa_binds_every_name_once(body: str, name: str, line: int) -> None:
    strict = text(body).replace("@pl.function", "@pl.function(strict_ssa=True)")
    with pytest.raises(errors.SSAViolationError, match=f"`{name}` is bound again") as caught:
        pl.parse(strict)
    assert caught.value.span["line"] == line
    assert caught.value.previous is not None
    assert caught.value.error_code == 0xF00000 | errors.INVALID_OPERATION
    assert pl.parse(text(body)).name == "f"  # nobody else asks for it


def test_strict_ssa_is_content_with_single_assignments() -> None:
    body = "    a = n\n    _ = a\n    _ = 2\n    for i in pl.range(a):\n        b = i"
    assert pl.parse(text(body).replace("@pl.function", "@pl.function(strict_ssa=True)")).strict_ssa


def test_programs() -> None:
    both = pl.parse_program(PROGRAM)
    assert isinstance(both, SimpleNamespace)
    assert "pl.setval" in [op.name for op in statements(both.main.ir().programs[0].body) if isinstance(op, Op)]
    with pytest.raises(errors.UndefinedVariableError, match="thrice"):
        pl.parse_program(PROGRAM.replace("self.twice", "self.thrice"))
    with pytest.raises(errors.SSAViolationError):
        pl.parse_program(PROGRAM.replace("@pl.program", "@pl.program(strict_ssa=True)").replace("x[0] = v", "v = 3"))
    with pytest.raises(ValueError, match="no functions"):
        pl.parse_program("@pl.program\nclass Empty:\n    pass\n")


def test_texts_and_files_hold_exactly_one(tmp_path: Path) -> None:
    for wrong, found in (("a = 1", 0), (text() + text(name="g"), 2), (text() + PROGRAM, 2)):
        with pytest.raises(ValueError, match=f"exactly one function or program, found {found}"):
            pl.parse(wrong)
    with pytest.raises(SyntaxError):
        pl.parse("def f(:")
    file, whole = tmp_path / "one.py", tmp_path / "program.py"
    file.write_text(text())
    whole.write_text(PROGRAM)
    assert pl.loads(file).name == pl.loads(str(file)).name == "f"
    assert pl.loads_program(whole).main.name == "main"
    for load, given in ((pl.loads_program, file), (pl.parse_program, text())):
        with pytest.raises(ValueError, match="a program is wanted"):
            load(given)  # type: ignore[operator]


def test_errors_of_a_file_name_it(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text(text("    nowhere"))
    with pytest.raises(errors.UndefinedVariableError) as caught:
        pl.loads(file)
    assert (caught.value.span["filename"], caught.value.span["line"]) == (str(file), 3)


def test_exported_names_of_the_table() -> None:
    assert [mode.value for mode in pl.CrossCoreSyncMode] == [0, 1, 2, 3]
    assert {m.name for m in pl.SyncCoreType} == {"AIV_ONLY", "AIC_ONLY", "MIX"}
    assert {m.name for m in pl.SyncAllMode} == {"HARD", "SOFT"}
    assert {m.name for m in pl.FunctionType} == {"Opaque", "InCore", "Helper"}
    assert {m.name for m in pl.ReduceMode} == {"SUM", "MAX", "MIN"}
    assert {m.name for m in pl.CompareMode} == {"EQ", "NE", "LT", "LE", "GT", "GE"}
    assert all(hasattr(pl.MemRef(), name) for name in ("space", "address", "size", "id"))
    barriers = "bar_m bar_mte1 bar_mte2 bar_mte3 bar_fix bar_all"
    others = "set_cross_core wait_cross_core sync_all dcci mutex_lock mutex_unlock set_mm_layout_transform"
    for name in ("sync_src", "sync_dst", *barriers.split(), *others.split()):
        with pytest.raises((RuntimeError, TypeError)):
            getattr(pl.system, name)()
    for name in ("mutex_lock", "mutex_unlock"):
        with pytest.raises(RuntimeError, match=r"pl\.system"):
            getattr(pl.mutex, name)(pipe=pl.PipeType.V, mutex_id=1)
    for name in ("add", "load_align", "reg_tensor", "mask_reg"):
        with pytest.raises((RuntimeError, TypeError)):
            getattr(pl.Vf, name)()
    assert pl.parser.ParserError is errors.ParserError
