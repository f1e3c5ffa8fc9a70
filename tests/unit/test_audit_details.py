"""The legal detail decisions of wrapper-audit.md section 2, data flow, launches, and what messages say."""

from __future__ import annotations

import textwrap

import pytest

from pypto_pro.audit import Options, audit, audit_source
from pypto_pro.audit.report import Finding, Report
from pypto_pro.audit.text import diagnostics, render_report

HEAD = """\
import contextlib, copy, functools, itertools, logging, math, operator, warnings
from dataclasses import dataclass
from typing import List, Optional
import numpy as np
import torch
import pypto_pro.language as pl
from pypto_pro.runtime.platform import get_platform_info

log = logging.getLogger(__name__)

@dataclass
class Tiling:
    rows: int
    cols: int

@pl.jit(auto_mutex=True)
def op_kernel(x: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP32], y: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP32], n: pl.DT_INT32):
    with pl.section_vector():
        pl.load(t, x, [0, 0])
        pl.store(y, t, [0, 0])

"""
LINE = HEAD.count("\n")
WRAPPER = """\
def op_wrapper(x: torch.Tensor, scale: float = 1.0, w: Optional[torch.Tensor] = None, items: List[torch.Tensor] = ()):
{statement}
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    op_kernel[None, 8](x, y, x.shape[0])
    return y
"""


def report_of(text: str, mode: str = "plain") -> Report:
    return audit_source(HEAD + textwrap.dedent(text), filename="t.py", mode=mode)


def codes_of(report: Report) -> set[str]:
    return {finding.code for finding in report.all_findings()}


def only(report: Report, code: str) -> Finding:
    (finding,) = [f for f in report.all_findings() if f.code == code]
    return finding


LEGAL = """
a = x.shape[0], *x.shape
n = len(x.shape)
d = [e for e in x.shape]
p = math.prod(x.shape)
t = tuple(x.shape)
s = x.size(0) + x.size()[1] + x.stride(-1)
f = x.size; n = f(0)
ok = x.dtype == torch.float16 or x.dtype in (torch.float16, torch.bfloat16)
ok = x.device.type == "npu" and x.layout == torch.strided
b = x.dtype.itemsize if x.dtype.is_floating_point else 4
ok = isinstance(x, torch.Tensor)
ok = x is None or x is w or id(x) == 3 or type(x) is torch.Tensor
del scale
z = x
k = torch.float16
n = functools.reduce(operator.mul, x.shape, 1)
c = get_platform_info().vector_core_num
tiling = Tiling(rows=x.shape[0], cols=x.shape[1])
key = {"Op": 0, "Width": 32 if x.shape[1] < 64 else 64}
log.info("rows %d", x.shape[0])
warnings.warn("slow shape")
n = 0 if w is None else w.numel()
n = w.numel() if w is not None else 0
n = sum(t.numel() for t in items) + len(items)
m = max(t.shape[0] for t in items)
first = items[0].device
big = sorted(items, key=lambda t: t.numel())
both = list(items) + [x]
pairs = list(zip(items, items))
same = all(t.dtype == x.dtype for t in items)
same = any(t is x for t in items)
table = {x.dtype: 1}
name = f"{x.shape} {x.dtype} {scale:.3f}"
rest = [t.shape for _, t in enumerate(items)]
chain = [t.ndim for t in itertools.chain(items, items)]
shape = getattr(x, "shape", None)
total = x.numel() // 64 * int(scale)
u, v = x.shape
"""
ILLEGAL = """
torch.is_tensor(x) | W115
torch.Size((1, 2)) | W115
torch.device("cpu") | W115
torch.finfo(x.dtype) | W115
torch.numel(x) | W115
w == None | W112
x != w | W112
x < 3 | W112
3 in x | W110
x in items | W110
not x | W110
x and scale | W110
scale or x | none
int(x) | W110
float(x) | W110
bool(x) | W110
range(x) | W110
str(x) | W110
repr(x) | W110
print(x) | W110
"%s" % x | W110
"{}".format(x) | W110
format(x) | W110
hash(x) | W114
len(x) | W114
x.__len__() | W114
x.is_contiguous() | W114
torch.empty_like(x) | W108
torch.empty_strided((1,), (1,)) | W108
x.new_empty((1,)) | W108
np.max(x) | W117
np.prod(x.shape) | W116
prepare(x) | W116
prepare() | W116
eval("1") | W116
__import__("os") | W116
getattr(x, name) | W116
getattr(torch, "exp")(x) | W112
copy.deepcopy(x) | W105
copy.copy(x) | W105
math.sqrt(x) | W116
operator.add(x, w) | W112
log.info("x %s", x) | W110
warnings.warn(x) | W110
x[0] | W106
x[..., None] | W106
x.__getitem__(0) | W106
list(x) | W106
tuple(x) | W106
[*x] | W106
zip(x, x) | W106
enumerate(x) | W106
iter(x) | W106
[r for r in x] | W106
sum(x) | W112
max(x, w) | W112
sum(items) | W112
abs(x) | W112
-x | W112
~x | W112
x @ x | W112
2 * x | W112
x.T.float() | W101 W104
x.no_such_member() | W116
x.exp().sum() | W112
setattr(x, "tag", 1) | W113
delattr(x, "tag") | W113
hasattr(x, "T") | W104
vars(x) | W114
any(x) | W110
torch.autograd.grad(x, x) | W118
torch.nn.functional.relu(x) | W112
torch.ops.aten.add(x, x) | W115
torch.npu.current_stream().synchronize() | W111 W115
x.data.zero_() | W102 W113
map(torch.exp, items) | W112
[t.exp() for t in items] | W112
functools.reduce(lambda a, b: a + b, items) | W112
(lambda t: t.float())(x) | W101
functools.partial(torch.exp, x)() | W112
items[0].half() | W101
pl.load(x, x, [0]) | W116
"""


@pytest.mark.parametrize("statement", [line for line in LEGAL.splitlines() if line])
def test_legal_statements(statement: str) -> None:
    report = report_of(WRAPPER.format(statement=f"    {statement}"))
    assert codes_of(report) == set()
    assert report.verdict == "ok"


@pytest.mark.parametrize("row", [line for line in ILLEGAL.splitlines() if line])
def test_illegal_expressions(row: str) -> None:
    expression, _, codes = row.rpartition(" | ")
    report = report_of(WRAPPER.format(statement=f"    z = {expression}"))
    assert codes_of(report) == (set() if codes == "none" else set(codes.split()))


@pytest.mark.parametrize(
    ("statement", "codes"),
    [
        ("if x: pass", {"W110"}),
        ("while x: break", {"W110"}),
        ("assert x", {"W110"}),
        ("assert x.ndim == 2, f'{x}'", {"W110"}),
        ("if x.ndim != 2: raise ValueError('bad', x)", {"W110"}),
        ("x[0] = 1", {"W113"}),
        ("del x[0]", {"W113"}),
        ("x.tag = 1", {"W113"}),
        ("a, b = x", {"W106"}),
        ("x += 1", {"W112"}),
        ("for r in x: pass", {"W106"}),
        ("with torch.no_grad(): pass", {"W115"}),
        ("x.requires_grad = False", {"W113"}),
        ("for t in items: t.zero_()", {"W113"}),
        ("match x:\n        case 1: pass", {"W112"}),
    ],
)
def test_illegal_statements(statement: str, codes: set[str]) -> None:
    assert codes_of(report_of(WRAPPER.format(statement=f"    {statement}"))) == codes


# ---------------------------------------------------------------- data flow
def test_a_list_keeps_what_is_put_into_it() -> None:
    report = report_of(
        WRAPPER.format(
            statement="    work = []\n    work.append(x.shape[0])\n    work.append(x)\n    z = work[1].float()"
        )
    )
    assert codes_of(report) == {"W101"}


def test_attributes_of_instances_are_followed() -> None:
    text = """
    class Plan:
        def __init__(self, t):
            self.t = t
            self.rows = t.shape[0]

        @property
        def wide(self):
            return self.t.float()

    def op_wrapper(x):
        plan = Plan(x)
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        op_kernel[None, plan.rows](x, y, plan.rows)
        plan.wide
        return y
    """
    report = report_of(text)
    assert codes_of(report) == {"W101"}
    assert [step["function"] for step in only(report, "W101").chain] == ["op_wrapper", "wide"]


def test_narrowing_by_none_and_isinstance() -> None:
    text = """
    def op_wrapper(x, n):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        if isinstance(n, torch.Tensor):
            n = n.numel()
        else:
            n = n + 1
        op_kernel[None, 8](x, y, n)
        return y
    """
    assert report_of(text).verdict == "ok"


def test_closures_and_default_values() -> None:
    text = """
    def op_wrapper(x):
        rows = x.shape[0]
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)

        def go(t=x):
            op_kernel[None, 8](t, y, rows)

        go()
        return y
    """
    assert report_of(text).verdict == "ok"


def test_keyword_forwarding_is_expanded() -> None:
    text = """
    def _go(*args, **kwargs):
        op_kernel[None, 8](*args, **kwargs)

    def op_wrapper(x):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        _go(x, y, n=x.shape[0])
        return y
    """
    assert report_of(text).verdict == "ok"


def test_star_import_of_torch() -> None:
    text = """
    from torch import *

    def op_wrapper(x):
        y = empty(x.shape, dtype=x.dtype, device=x.device)
        op_kernel[None, 8](exp(x), y, x.shape[0])
        return y
    """
    assert codes_of(report_of(text)) == {"W112"}


def test_conditional_import() -> None:
    text = """
    try:
        import torch_npu
    except ImportError:
        torch_npu = None

    def op_wrapper(x):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        op_kernel[None, 8](torch_npu.npu_format_cast(x, 29), y, x.shape[0])
        return y
    """
    assert codes_of(report_of(text)) == {"W115"}


def test_parameter_of_unknown_kind_is_unproven() -> None:
    text = """
    def op_wrapper(x, k):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        z = k * 2
        op_kernel[None, 8](x, y, x.shape[0])
        return y
    """
    report = report_of(text)
    assert report.verdict == "unproven"
    assert [use.subject for use in report.all_unproven()] == ["k"]
    assert report.exit_code == 1
    report.allow_unproven = True
    assert report.exit_code == 0
    report.mode = "delivery"
    assert report.exit_code == 1


@pytest.mark.parametrize("use", ["op_kernel[None, 8](x, y, k * 2)", "x.size(k); op_kernel[None, 8](x, y, 1 + k)"])
def test_evidence_makes_a_scalar(use: str) -> None:
    text = f"""
    def op_wrapper(x, k):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        {use}
        return y
    """
    assert report_of(text).verdict == "ok"


def test_configuration_objects_are_no_tensors() -> None:
    text = """
    def op_wrapper(x, cfg):
        y = torch.empty(x.shape, dtype=cfg.dtype, device=x.device)
        op_kernel[None, cfg.block_count](x, y, x.shape[0])
        return y
    """
    assert report_of(text).verdict == "ok"


def test_cached_wrapper() -> None:
    text = """
    @functools.lru_cache
    def _plan(rows):
        return rows * 2

    @functools.lru_cache(maxsize=None)
    def _prepare(t):
        return t.shape[0]

    def op_wrapper(x):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        op_kernel[None, 8](x, y, _plan(x.shape[0]) + _prepare(x))
        return y
    """
    assert codes_of(report_of(text)) == {"W116"}


# ---------------------------------------------------------------- launches
LAUNCHES = {
    "try-finally": ("try:\n        op_kernel[None, 8](x, y, 1)\n    finally:\n        pass", set()),
    "finally-adds": (
        "try:\n        op_kernel[None, 8](x, y, 1)\n    finally:\n        op_kernel[None, 8](x, y, 1)",
        {"W121"},
    ),
    "handler-raises": ("try:\n        op_kernel[None, 8](x, y, 1)\n    except RuntimeError:\n        raise", set()),
    "handler-again": (
        "try:\n        op_kernel[None, 8](x, y, 1)\n    except RuntimeError:\n        op_kernel[None, 4](x, y, 1)",
        {"W121"},
    ),
    "suppress": ("with contextlib.suppress(RuntimeError):\n        op_kernel[None, 8](x, y, 1)", {"W120"}),
    "ternary": ("op_kernel[None, 8](x, y, 1) if x.ndim == 2 else op_kernel[None, 4](x, y, 1)", set()),
    "short-circuit": ("x.ndim == 2 and op_kernel[None, 8](x, y, 1)", {"W120"}),
    "no-else": ("if x.ndim == 2:\n        op_kernel[None, 8](x, y, 1)", {"W120"}),
    "pruned": ("if False:\n        op_kernel[None, 4](x, y, 1)\n    op_kernel[None, 8](x, y, 1)", set()),
    "match-open": ("match x.ndim:\n        case 2:\n            op_kernel[None, 8](x, y, 1)", {"W120"}),
    "match-closed": (
        "match x.ndim:\n        case 2:\n            op_kernel[None, 8](x, y, 1)\n"
        "        case _:\n            raise ValueError",
        set(),
    ),
    "while-true": ("while True:\n        op_kernel[None, 8](x, y, 1)\n        break", {"W122"}),
    "for-else": ("for _ in x.shape:\n        pass\n    else:\n        op_kernel[None, 8](x, y, 1)", set()),
    "sorted-callback": ("sorted(items, key=lambda t: op_kernel[None, 8](t, y, 1))", {"W122"}),
    "subscript-only": ("op_kernel[None, 8]\n    op_kernel[None, 8](x, y, 1)", set()),
    "partial": ("go = functools.partial(op_kernel[None, 8], x, y)\n    go(1)", set()),
    "partial-twice": ("go = functools.partial(op_kernel[None, 8], x, y)\n    go(1)\n    go(2)", {"W121"}),
    "one-argument-form": ("op_kernel[8](x, y, 1)", set()),
    "bare-form": ("op_kernel(x, y, 1)", set()),
    "plain-function": ("helper[None, 8](x, y)", {"W124"}),
    "stranger": ("other[None, 8](x, y)", {"W116"}),
    "generator": ("def g():\n        op_kernel[None, 8](x, y, 1)\n        yield 1\n    next(g())", {"W122"}),
    "raises-first": ("if x.ndim != 2:\n        raise ValueError\n    op_kernel[None, 8](x, y, 1)", set()),
    "leaves": ("if x.ndim != 2:\n        exit(1)\n    op_kernel[None, 8](x, y, 1)", set()),
}


@pytest.mark.parametrize("name", LAUNCHES)
def test_launch_counting(name: str) -> None:
    body, codes = LAUNCHES[name]
    text = "def helper(*args):\n    pass\n\ndef op_wrapper(x: torch.Tensor, items: List[torch.Tensor] = ()):\n"
    text += f"    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)\n    {body}\n    return y\n"
    assert codes_of(audit_source(HEAD + text, filename="t.py")) == codes


def test_factory_makes_one_kernel() -> None:
    text = """
    def make(width):
        @pl.jit
        def k(x: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP32], y: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP32]):
            pl.store(y, t, [0, width])
        return k

    NARROW, WIDE = make(32), make(64)

    def op_wrapper(x):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        k = NARROW if x.shape[1] < 64 else WIDE
        k[None, 8](x, y)
        return y
    """
    assert report_of(text).verdict == "ok"


def test_kernels_from_a_table() -> None:
    text = """
    @pl.jit
    def k_two(x: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP16], y: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP16], n: pl.DT_INT32):
        pl.store(y, t, [0, 0])

    KERNELS = {torch.float16: k_two, torch.float32: op_kernel}

    def op_wrapper(x):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        KERNELS[x.dtype][None, 8](x, y, 1)
        return y
    """
    finding = only(report_of(text), "W123")
    assert "`k_two`" in finding.message
    assert "`op_kernel`" in finding.message


def test_functions_from_a_container_are_not_provable() -> None:
    text = """
    def go(x, y):
        op_kernel[None, 8](x, y, 1)

    STEPS = [go]

    def op_wrapper(x):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        STEPS[0](x, y)
        return y
    """
    assert codes_of(report_of(text)) == {"W116"}


def test_other_front_end() -> None:
    text = """
    import pypto

    @pypto.frontend.jit
    def old(x, y):
        pass

    def op_wrapper(x):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        old[None, 8](x, y)
        return y
    """
    assert "W124" in codes_of(report_of(text))


def test_local_decorator_is_followed() -> None:
    text = """
    def checked(f):
        @functools.wraps(f)
        def inner(x):
            x.float()
            return f(x)
        return inner

    @checked
    def op_wrapper(x):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        op_kernel[None, 8](x, y, 1)
        return y
    """
    report = report_of(text)
    assert codes_of(report) == {"W101"}


def test_wrapper_that_never_returns() -> None:
    assert codes_of(report_of("def op_wrapper(x):\n    raise NotImplementedError\n")) == {"W120"}


# ---------------------------------------------------------------- outputs
def test_named_workspace_is_declared() -> None:
    text = textwrap.dedent("""
    @pl.jit
    def k(x: pl.Tensor[[64], pl.DT_FP32], ws: pl.Ptr[pl.DT_FP32], y: pl.Tensor[[64], pl.DT_FP32]):
        v = pl.make_tensor(pl.addptr(ws, 4), [64])
        pl.store(v, t, [0])
        helper(y, t)

    def helper(dst, tile):
        pl.store_tile(dst, tile, [0])

    def op_wrapper(x):
        ws = torch.empty((64,), dtype=torch.float32, device=x.device)
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        k[None, 1](x, ws, y)
        return y
    """)
    plain = audit_source(HEAD + text, filename="t.py")
    assert codes_of(plain) == {"W109"}
    assert "written by the kernel but not returned" in only(plain, "W109").message
    named = audit(HEAD + text, "t.py", Options(outputs=("ws", "y")))
    assert named.verdict == "ok"
    assert named.wrappers[0].contract.source == "option"


def test_allocation_for_a_read_parameter() -> None:
    text = """
    def op_wrapper(x):
        z = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        op_kernel[None, 8](z, y, 1)
        return y, z
    """
    assert "passed as parameter `x`, which the kernel only reads" in only(report_of(text), "W109").message


@pytest.mark.parametrize("extra", ["pin_memory=True", "requires_grad=False", "out=None", "names=None"])
def test_illegal_keywords_of_empty(extra: str) -> None:
    text = f"""
    def op_wrapper(x):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device, {extra})
        op_kernel[None, 8](x, y, 1)
        return y
    """
    assert codes_of(report_of(text)) == {"W109"}


@pytest.mark.parametrize("returned", ["(y,)", "[y]", '{"y": y}', "Tiling(y, 1)", "y if x.ndim else None", "y.half()"])
def test_returned_inside_something(returned: str) -> None:
    text = f"""
    def op_wrapper(x):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        op_kernel[None, 8](x, y, 1)
        return {returned}
    """
    assert "W109" not in codes_of(report_of(text))


# ---------------------------------------------------------------- messages
def test_a_transposed_view_is_sent_into_the_kernel() -> None:
    """Field case 12: the help names the in-kernel form and never `.contiguous()`."""
    text = """
    def copy_wrapper(x):
        y = torch.empty((64, 32), dtype=torch.float32, device=x.device)
        op_kernel[None, 1](x.t(), y, 1)
        return y
    """
    report = report_of(text)
    finding = only(report, "W104")
    assert finding.expression == "x.t()"
    assert finding.line == LINE + 4
    assert finding.help is not None
    assert "strides" in finding.help
    assert "make_tensor" in finding.help
    assert "contiguous" not in render_report(report, color=False)


def test_conversions_are_platform_gated() -> None:
    report = report_of(WRAPPER.format(statement="    z = x.float()"))
    finding = only(report, "W101")
    assert finding.gate is not None
    assert "confirm the target first" in finding.gate
    assert "pl.cast" in (finding.help or "")
    assert "platform gate" in render_report(report, color=False)


def test_help_of_a_cast_behind_the_launch_speaks_of_the_store() -> None:
    text = """
    def op_wrapper(x):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        op_kernel[None, 8](x, y, 1)
        return y.half()
    """
    assert "before `pl.store`" in (only(report_of(text), "W101").help or "")


def test_one_report_a_line_with_a_count() -> None:
    report = report_of(WRAPPER.format(statement="    z = (x + 1, x + 2)"))
    assert only(report, "W112").count == 2


def test_helper_called_twice_is_one_report() -> None:
    text = """
    def _wide(t):
        return t.float()

    def op_wrapper(x):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        _wide(x)
        _wide(x)
        op_kernel[None, 8](x, y, 1)
        return y
    """
    assert only(report_of(text), "W101").count == 2


@pytest.mark.parametrize("member", ["float()", "T", "contiguous()", "item()", "exp()", "zero_()", "reshape(-1)"])
def test_moving_a_finding_into_a_helper(member: str) -> None:
    inline = report_of(WRAPPER.format(statement=f"    z = x.{member}"))
    moved = report_of(f"def _aside(t):\n    return t.{member}\n\n" + WRAPPER.format(statement="    z = _aside(x)"))
    assert codes_of(inline) == codes_of(moved)
    ((a,), (b,)) = inline.all_findings(), moved.all_findings()
    assert len(b.chain) == len(a.chain) + 1
    assert b.chain[-1]["function"] == "_aside"
    (diagnostic,) = diagnostics(moved)
    assert [span.label for span in diagnostic.calls] == ["_aside"]


def test_exit_and_condition_are_named() -> None:
    text = """
    def op_wrapper(x):
        if x.numel() == 0:
            return x
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        op_kernel[None, 8](x, y, 1)
        return y
    """
    message = only(report_of(text), "W120").message
    assert f"in line {LINE + 4}" in message
    assert "if x.numel() == 0" in message


def test_findings_of_module_values_name_the_use() -> None:
    text = """
    MASK = torch.ones(64)

    def op_wrapper(x):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        op_kernel[None, 8](MASK, y, 1)
        return y
    """
    finding = only(report_of(text), "W108")
    assert finding.line == LINE + 2
    assert any(f"line {LINE + 6}" in note for note in finding.notes)


def test_unused_module_values_are_not_reported() -> None:
    text = "MASK = torch.ones(64)\n" + WRAPPER.format(statement="    pass")
    assert report_of(text).verdict == "ok"
