"""Names and their codes: table-driven over `torch_names.toml`, the specification's lists, and torch itself."""

from __future__ import annotations

import pytest

from pypto_pro.audit import audit_source
from pypto_pro.audit.names import function_code, member_code, torch_names

HEAD = """\
import torch
import pypto_pro.language as pl

@pl.jit
def op_kernel(x: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP32], y: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP32]):
    pl.store(y, t, [0, 0])

"""
WRAPPER = """\
def op_wrapper(x: torch.Tensor):
    {statement}
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    op_kernel[None, 8](x, y)
    return y
"""
# The members that wrapper-audit.md section 3 lists by name.
LISTED = {
    "W101": "to type type_as float double half bfloat16 int long short char byte bool cfloat",
    "W102": "view_as reshape reshape_as flatten unflatten ravel squeeze unsqueeze expand expand_as broadcast_to "
    "as_strided unfold detach data real imag view",
    "W103": "view_as_real view_as_complex",
    "W104": "t T mT H mH transpose transpose_ permute movedim moveaxis swapaxes swapdims adjoint rot90 flip",
    "W105": "contiguous clone cpu cuda npu pin_memory share_memory_",
    "W106": "narrow select chunk split tensor_split unbind index_select gather take take_along_dim masked_select "
    "diagonal",
    "W107": "repeat tile repeat_interleave",
    "W108": "new_zeros new_ones new_full new_empty new_tensor tril triu",
    "W110": "item tolist equal allclose is_nonzero",
    "W112": "add add_ mul mul_ exp softmax matmul sum max where sort topk relu_ sub div_",
    "W113": "copy_ fill_ zero_ set_ resize_ index_put_ scatter_ masked_fill_ random_ anything_",
    "W114": "is_contiguous data_ptr element_size nbytes itemsize is_npu requires_grad grad names storage __len__",
    "W117": "numpy __array__ __dlpack__",
    "W118": "register_hook requires_grad_ backward",
}
FUNCTIONS = {
    "W107": "cat concat concatenate stack hstack vstack dstack column_stack block_diag constant_pad_nd "
    "nn.functional.pad",
    "W108": "zeros ones full zeros_like ones_like full_like empty_like empty_strided empty_permuted arange linspace "
    "eye tensor as_tensor from_numpy rand randn randint rand_like scalar_tensor",
    "W111": "npu.synchronize cuda.synchronize",
    "W112": "add mul exp softmax matmul sum max where sort topk einsum nn.functional.relu nn.functional.softmax "
    "linalg.norm fft.fft special.erf relu_",
    "W115": "is_tensor Size device finfo numel no_grad manual_seed compile npu.current_stream autocast ops.aten.add "
    "profiler.profile npu.npu_format_cast is_complex",
    "W118": "nn.Linear autograd.grad",
}


def codes_of(statement: str, delivery: bool = False) -> set[str]:
    text = HEAD + WRAPPER.format(statement=statement)
    report = audit_source(text, filename="t.py", mode="delivery" if delivery else "plain")
    return {finding.code for finding in report.all_findings()}


def pairs(table: dict[str, str]) -> list[tuple[str, str]]:
    return [(name, code) for code, names in table.items() for name in names.split()]


@pytest.mark.parametrize(("name", "code"), pairs(LISTED))
def test_listed_members_as_methods(name: str, code: str) -> None:
    assert codes_of(f"z = x.{name}()") == {code}


@pytest.mark.parametrize(("name", "code"), pairs(LISTED))
def test_listed_members_read_without_a_call(name: str, code: str) -> None:
    assert codes_of(f"z = x.{name}") == {code}


@pytest.mark.parametrize(("name", "code"), pairs(LISTED))
def test_listed_members_as_functions(name: str, code: str) -> None:
    expected = "W115" if code in ("W114", "W117", "W118") or name == "anything_" else code
    if name in ("numpy", "__array__", "__dlpack__", "register_hook", "requires_grad_", "backward"):
        expected = code
    if name == "__len__":
        expected = "W115"
    assert codes_of(f"z = torch.{name}(x)") == {expected}


@pytest.mark.parametrize(("name", "code"), pairs(FUNCTIONS))
def test_listed_functions(name: str, code: str) -> None:
    assert codes_of(f"z = torch.{name}(x)") == {code}


@pytest.mark.parametrize(("name", "code"), [(n, c) for n, c in torch_names().members.items() if n.isidentifier()])
def test_every_member_of_the_data_file(name: str, code: str) -> None:
    found = codes_of(f"z = x.{name}()" if name == "to" else f"z = x.{name}(0)")
    assert found == {code}


@pytest.mark.parametrize("name", sorted(torch_names().metadata_attributes | torch_names().metadata_methods))
def test_metadata_is_free(name: str) -> None:
    assert codes_of(f"z = x.{name}") == set()


def test_no_name_has_two_codes() -> None:
    names = torch_names()
    metadata = names.metadata_attributes | names.metadata_methods
    assert not metadata & names.members.keys()
    assert set(names.members.values()) <= {f"W{n}" for n in range(101, 119)}


def test_every_public_member_of_torch_is_classed() -> None:
    torch = pytest.importorskip("torch")
    names = torch_names()
    known = names.metadata_attributes | names.metadata_methods
    missing = [n for n in dir(torch.Tensor) if not n.startswith("_") and n not in known and member_code(n) is None]
    assert missing == []


def test_every_function_of_torch_that_takes_tensors_is_classed() -> None:
    """What torch offers both as a method and as a function has one code."""
    torch = pytest.importorskip("torch")
    for name in dir(torch.Tensor):
        if name.startswith("_") or not callable(getattr(torch, name, None)) or isinstance(getattr(torch, name), type):
            continue
        code = member_code(name)
        if code in (None, "W114") or name in torch_names().functions:
            continue
        assert function_code(f"torch.{name}") == code, name


@pytest.mark.parametrize(
    ("statement", "codes"),
    [
        ("z = x.to(torch.float16)", {"W101"}),
        ("z = x.to(dtype=torch.float16)", {"W101"}),
        ("z = x.to(x.dtype)", {"W101"}),
        ("z = x.to('cpu')", {"W105"}),
        ("z = x.to(x.device)", {"W105"}),
        ("z = x.to('cpu', torch.float16)", {"W101"}),
        ("z = x.to('cpu', non_blocking=True)", {"W105"}),
        ("z = x.to(device='cpu')", {"W105"}),
        ("z = x.to(torch.device('cpu'))", {"W105", "W115"}),
        ("k = pick()\n    z = x.to(k)", {"W101", "W116"}),
        ("z = x.view(torch.int32)", {"W103"}),
        ("z = x.view(dtype=torch.int32)", {"W103"}),
        ("z = x.view(-1, 64)", {"W102"}),
        ("z = torch.as_tensor(x, dtype=torch.float16)", {"W101"}),
        ("z = torch.Tensor.float(x)", {"W101"}),
        ("z = torch.Tensor.size(x, 0)", set()),
        ("z = torch.float(x)", {"W101"}),
    ],
)
def test_members_that_depend_on_their_arguments(statement: str, codes: set[str]) -> None:
    assert codes_of(statement) == codes
