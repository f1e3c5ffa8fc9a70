"""The legal detail decisions of wrapper-audit.md section 2, and what messages say."""

from __future__ import annotations

import pytest
from audit_samples import LINE, WRAPPER, codes_of, only, report_of

from pypto_pro.audit.text import diagnostics, render_report

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
