"""What the front end and the launch say about usual slips: the help beside the error, in the words of the language."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_text import TILES, N, X, module, read

from pypto_pro.diag import errors

SLIPS = [
    # body, part of the message, part of the help
    ("pl.add(a, b)", "misses 'rhs'", "written as `pl.add(out, lhs, rhs)`"),
    ("pl.cast(a, b, pl.RoundMode.CAST_RINT)", "2 positional", "`pl.cast(out, src, *, mode=...)`"),
    ("pl.load(dst=a, src=x, offsets=[0, 0])", "'dst'", "`pl.load(dst_tile, src_tensor, offsets, *, order=...)`"),
    ("pl.TileType([16, 64], pl.DT_FP32)", "0 positional", "`pl.TileType(*, shape=..., dtype=..., "),
    ("q = pl.make_tile_group(type=tt, addr=0, mutex_ids=[0])", "'addr'", "did you mean `addrs`?"),
    ("q = pl.make_tile(tt, adr=0)", "'adr'", "did you mean `addr`?"),
    ("pl.cast(a, b, mode='rint')", "found the text 'rint'", "write `pl.RoundMode.CAST_RINT`"),
    ("pl.cast(a, b, mode=1)", "found the int 1", "write `pl.RoundMode.CAST_RINT`"),
    ("pl.cast(a, b, mode='x')", "found the text 'x'", "members are CAST_NONE"),
    ("q = pl.TileType(shape=[8, 8], dtype=pl.DT_FP32, target_memory='UB')", "'UB'", "write `pl.MemorySpace.Vec`"),
    ("q = pl.MemorySpace.L0A", "no attribute `L0A`", "write `pl.MemorySpace.Left`"),
    ("q = pl.MemorySpace.Far", "no attribute `Far`", "members are DDR, Vec"),
    ("q = pl.TileType(shape=[8, 8], dtype=float)", "type: type", "dtypes are written pl.DT_..."),
    ("q = pl.FP32", "no attribute `FP32`", "did you mean `DT_FP32`?"),
    ("load(a, x, [0, 0])", "`load` is not defined", "`pl.load`"),
    ("pl.sync_src()", "unknown operation", "did you mean `pl.system.sync_src`?"),
    ("pl.system.bar_v()", "unknown operation", "needs no barrier"),
    ("pl.reshape(a, b)", "unknown operation", "same address"),
    ("print(n)", "`print`", "pl.printf("),
    ("c = len(x)", "`len`", "`t.shape[k]`"),
    ("c = math.ceil(n / 4)", "`math.ceil`", "on constants only"),
    ("c = f'{n}'", "f-string", "pl.printf("),
    ("c = {'a': n}", "dict display", "pl.make_tuple"),
    ("c = a + b", "vector functions only", "use pl.add"),
    ("c = a > b", "compares scalars", "pl.lt"),
    ("c = x + 1", "takes scalars", "`t[i, j]`"),
    ("q = pl.make_tile_group(tt)", "takes 0 positional arguments but 1 was given", "`pl.make_tile_group(*, type=..."),
    ("c = n ** 2", "no device form", "x * x"),
    ("c = n if n > 1 else 2.0", "found a run-time int32 scalar and the float 2.0", "n * 1.0"),
    ("for i in pl.range(n / 4):\n    pass", "run-time fp32 scalar", "`a // b` divides integers"),
    ("pl.store(x, a, [n / 2, 0])", "run-time fp32 scalar", "`a // b` divides integers"),
    ("for i, v in enumerate((1, 2)):\n    pass", "pl.range", "for i in pl.range(n)"),
    ("c = x.size(0)", "no method `size`", "`t.shape[k]`"),
    ("c = a.size(0)", "no method `size`", "`t.valid_shape[k]`"),
    ("x.fill(0)", "no method `fill`", "pl.load"),
    ("c = []\nc.append(n)", "no method `append`", "pl.struct"),
    ("c = n.item()", "no method `item`", "a number already"),
    ("g.next", "no attribute `next`", "call it: `.next()`"),
    ("c = g.get(0)", "no method `get`", ".next(), .current()"),
    ("c = g.nxt()", "no method `nxt`", "did you mean `next`?"),
    ("return a", "returns nothing", "store results"),
    ("s = pl.struct(v=1)", "text literal", '`pl.struct("Name", field=value, ...)`'),
    ("s = pl.struct_array(4, v=1)", "text literal", '`pl.struct_array(4, "Name", field=value, ...)`'),
    ("c = T", "type: TileType", "in the kernel or in a helper"),
    ("c = CFG", "type: dict", "`cfg['k']`"),
    ("c = TEXT", "type: str", "bind it to a name in the kernel"),
    ("c = np.zeros(4)", "type: ndarray", "kernel arguments"),
    ("pl.printf('%d %d', n)", "2 conversions, found 1 argument ", ""),
]
BEFORE = "import math\nimport numpy as np\nT = pl.TileType(shape=[8], dtype=pl.DT_FP32)\nCFG = {'k': 1}\nTEXT = 'x'\n"


@pytest.mark.parametrize(("body", "message", "help_"), SLIPS, ids=[row[0].replace("\n", "; ") for row in SLIPS])
def test_help(body: str, message: str, help_: str) -> None:
    with pytest.raises(errors.ParserError) as caught:
        read(f"{TILES}a = g.next()\nb = g.next()\n{body}", f"{X}, {N}", BEFORE)
    assert message in caught.value.message
    assert help_ in (caught.value.hint or "")
    assert caught.value.span is not None


IN_REGISTERS = [
    ("r = vf.add(r, r)", "misses `mask`", "written as `vf.add(src0, src1, mask"),
    ("r = vf.add(r, r, on, on, on, on)", "operands at most", "written as `vf.add("),
    ("r = r + 1", "`+` takes scalars, found a vector register", "vf.adds("),
    ("if r > 1:\n        pass", "`>` compares scalars, found a vector register", "vf.lt("),
    ("r = pl.vf.add(r, r, on)", "cannot be called here", "written `vf.add`"),
    ("r = vf.load_align(t, 3.5)", "offset is an integer or a list of integers, found the float 3.5", ""),
    ("r = vf.astype(r, on, dtype=pl.DT_FP16, round_mode='rint')", "found the text 'rint'", "CAST_RINT"),
]


@pytest.mark.parametrize(("line", "message", "help_"), IN_REGISTERS)
def test_help_in_vector_functions(line: str, message: str, help_: str) -> None:
    head = "    on = vf.create_mask(dtype=pl.DT_FP32)\n    r = vf.load_align(t)\n"
    with pytest.raises(errors.ParserError) as caught:
        read(f"{TILES}\nv(g.next())", f"{X}, {N}", f"@pl.vector_function\ndef v(t):\n{head}    {line}\n")
    assert message in caught.value.message
    assert help_ in (caught.value.hint or "")


TILING = "from dataclasses import dataclass\n{}\n"
PARAMETERS = [
    # parameters, text before, part of the message
    ("x: np.ndarray, n: pl.DT_INT32", "", "found `np.ndarray`"),
    ("x: pl.Tensor, n: pl.DT_INT32", "", "`pl.Tensor` lacks its [...]"),
    ("x: pl.Ptr", "", "`pl.Ptr` lacks its [...]"),
    ("x: pl.Ptr[pl.DT_FP32], *rest: pl.DT_INT32", "", "found the `*` parameter `rest`"),
    ("x: pl.Ptr[pl.DT_FP32], **rest: pl.DT_INT32", "", "found the `**` parameter `rest`"),
    ("x: pl.Ptr[pl.DT_FP32], *, n: pl.DT_INT32", "", "found the keyword-only parameter `n`"),
    ("x: pl.Ptr[pl.DT_FP32], /, n: pl.DT_INT32", "", "found the positional-only parameter `x`"),
    ("x: pl.Ptr[pl.DT_FP32], t: T", "class T:\n    n: int", "`T` is no @dataclass"),
    ("x: pl.Ptr[pl.DT_FP32], t: T", "@dataclass\nclass T:\n    pass", "`T` has no fields"),
    ("x: pl.Ptr[pl.DT_FP32], t: T", "@dataclass\nclass T:\n    n: str", "field `n` of `T` is `str`; fields are int"),
    ("x: pl.Ptr[pl.DT_FP32], t: T", "@dataclass\nclass T:\n    n: 'int[M]'", "field `n` of `T` is `int[M]`"),
    ("x: pl.Ptr[pl.DT_FP32], t: T", "@dataclass\nclass T:\n    n: 'int[2049]'", "from 1 to 2048"),
    ("x: pl.Ptr[pl.DT_FP32], t: T", "@dataclass\nclass U:\n    n: int\n@dataclass\nclass T(U):\n    m: int",
     "`T` inherits from `U`"),
]  # fmt: skip


@pytest.mark.parametrize(("params", "before", "message"), PARAMETERS)
def test_parameters(params: str, before: str, message: str) -> None:
    with pytest.raises(errors.ParserError) as caught:
        read("pass", params, f"import numpy as np\n{TILING.format(before)}")
    assert message in caught.value.message
    assert caught.value.span is not None


LAUNCHED = """
@pl.jit
def k(x: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP32], n: pl.DT_INT32 = 3, f: pl.DT_FP32 = 1.0):
    with pl.section_vector():
        pass

class C:
    @pl.jit
    def m(self, x: pl.Ptr[pl.DT_FP32]):
        pass
"""
LAUNCHES: list[tuple[str, str, str]] = [
    ("k()", "missing a required argument: 'x'", "written as `k(x, n=3, f=1.0)`"),
    ("k(A, m=2)", "unexpected keyword argument 'm'", "written as `k(x, n=3, f=1.0)`"),
    ("C().m(A)", "missing a required argument", "a method cannot be a kernel"),
    ("k(A, np.int64(3))", "int64", "pass int(n)"),
    ("k(A, np.array(3))", "ndarray", "pass int(n)"),
    ("k(A, 1, np.float32(3))", "float32", "pass float(f)"),
    ("k(A, 1, 2)", "found 2 (int)", "pass 2.0"),
    ("k(3)", "found an int", ""),
    ("k(np.ndarray)", "found the class ndarray itself", ""),
]


@pytest.mark.parametrize(("call", "message", "help_"), LAUNCHES)
def test_launches(call: str, message: str, help_: str) -> None:
    names: dict[str, Any] = module(LAUNCHED, np=np, A=np.zeros((2, 64), np.float32))
    with pytest.raises(errors.ArgumentKindError) as caught:
        exec(call, names)
    assert message in caught.value.diagnostic.message
    assert help_ in (caught.value.diagnostic.help or "")
