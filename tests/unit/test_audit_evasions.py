"""Roundabout ways to touch a tensor: none of them gets past the audit."""

from __future__ import annotations

import pytest

from pypto_pro.audit import audit_source

HEAD = """\
import torch, operator, sys, functools, importlib, threading, itertools, copy, contextlib, asyncio, types, collections
from dataclasses import dataclass
import pypto_pro.language as pl
@pl.jit
def k(x: pl.Tensor[[64], pl.DT_FP32], y: pl.Tensor[[64], pl.DT_FP32]):
    pl.store(y, t, [0])
class Holder:
    def __init__(self, t):
        self.t = t
    def __call__(self):
        return self.t.float()
    def __enter__(self):
        return self.t.half()
    def __exit__(self, *a):
        pass
    def __getitem__(self, i):
        return self.t.exp()
    def __iter__(self):
        yield self.t.exp()
    def __add__(self, o):
        return self.t.exp()
    def __bool__(self):
        return bool(self.t)
    def __getattr__(self, n):
        return self.t.exp()
    def __del__(self):
        pass
@dataclass
class D:
    t: object
    def __post_init__(self):
        self.t = self.t.float()
async def co(t):
    return t.float()
def gen(t):
    yield t.float()
def deco(f):
    def inner(*a, **kw):
        return f(*a, **kw).half()
    return inner
@deco
def wrapped(t):
    return t
"""
WRAPPER = """\
def op_wrapper(x: torch.Tensor, xs: "list[torch.Tensor]" = ()):
    {}
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    k[None, 1](x, y)
    return y
"""
EVASIONS = [
    "x.__class__.float(x)",
    "torch.Tensor.float.__call__(x)",
    "type(x).float(x)",
    'operator.methodcaller("float")(x)',
    'operator.attrgetter("T")(x)',
    'vars(torch)["exp"](x)',
    'torch.__dict__["exp"](x)',
    'sys.modules["torch"].exp(x)',
    'globals()["torch"].exp(x)',
    "x.__add__(1)",
    'x.__getattribute__("float")()',
    'object.__getattribute__(x, "float")()',
    "Holder(x)()",
    "Holder(x)[0]",
    "for i in Holder(x): pass",
    "Holder(x) + 1",
    "z = 1 if Holder(x) else 2",
    "Holder(x).anything",
    "list(map(str, [x]))",
    "[z for z in (q.float() for q in xs)]",
    "[*map(lambda t: t.half(), [x])]",
    'exec("x.float()")',
    '{"a": torch.exp}.get("a")(x)',
    'f = {"a": torch.exp}["a"]; f(x)',
    "torch.empty((4,)).fill_(0)",
    "(z := x.float())",
    "x.data",
    "q = x; q *= 2",
    "D(x)",
    "threading.Thread(target=lambda: x.float()).start()",
    "asyncio.run(co(x))",
    "print(*[x])",
    '"".join([str(x)])',
    "next(gen(x))",
    "with Holder(x) as q: pass",
    "wrapped(x)",
    "collections.deque([x])[0].float()",
    "types.SimpleNamespace(t=x).t.float()",
    'dict(t=x)["t"].float()',
    '{**{"t": x}}["t"].float()',
    "[x][0].float()",
    "(lambda *a: a[0].float())(x)",
    '(lambda **kw: kw["t"].float())(t=x)',
    "functools.partial(lambda t: t.float(), x)()",
    "itertools.starmap(torch.exp, [(x,)])",
    "list(itertools.accumulate([x, x]))",
    "sorted([x, x])",
    "max([x, x], key=lambda t: t.sum())",
    "copy.copy([x])",
    "for t in xs: t.float()",
    "z = [t for t in xs if t.any()]",
    'getattr(x, "fl" + "oat")()',
    "a, *b = xs; b[0].float()",
    "while x.sum() > 0: pass",
    "assert torch.all(x)",
    "del x.grad",
    "x.T.shape",
    'f"{x.sum()}"',
    'f"{x=}"',
    "xs[0][0]",
    "xs[:1][0].float()",
    "torch.npu.synchronize()",
    "torch.zeros_like(x)",
    "match xs: \n        case [first, *rest]: first.float()",
    "try: x.float()\n    except Exception: pass",
    "contextlib.ExitStack().enter_context(torch.no_grad())",
    "x.to",
    "xs.sort()",
    "x.new_zeros(3)",
    "torch.utils.checkpoint.checkpoint(lambda t: t.exp(), x)",
    "z = x.size.__self__.float()",
    "tuple(map(operator.neg, xs))",
    "tuple(t * 2 for t in xs)",
    "x.shape[0] * x",
]
HARMLESS = [
    "bool(xs)",
    "hash(x.shape), id(x)",
    "unused = lambda: x.float()",
    "plan = Holder(x.shape[0])",
    "shape = x.size.__self__.shape",
    "names = sorted([d for d in x.shape])",
    "launch = k.__getitem__",
]


@pytest.mark.parametrize("statement", EVASIONS)
def test_no_way_around(statement: str) -> None:
    assert audit_source(HEAD + WRAPPER.format(statement), filename="t.py").verdict == "violation"


@pytest.mark.parametrize("statement", HARMLESS)
def test_harmless_relatives(statement: str) -> None:
    assert audit_source(HEAD + WRAPPER.format(statement), filename="t.py").verdict == "ok"
