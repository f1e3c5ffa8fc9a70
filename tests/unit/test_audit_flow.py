"""What the auditor follows: values through control flow and calls, launches, outputs."""

from __future__ import annotations

import textwrap

import pytest
from audit_samples import HEAD, WRAPPER, codes_of, only, report_of

from pypto_pro.audit import Options, audit, audit_source


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
