"""`torch.autocast("npu")`: operators that run in FP16 or BF16, in FP32, or in the widest type of their operands.

The lists are those that torch gives every accelerator. What is in none of them runs in the types it is given. Casts are
not cached: a weight used twice is cast twice, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from pypto_pro.torch_shim.tensors import TYPE

_KEY = "AutocastPrivateUse1"
_BELOW = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)

_LOWER = (
    "_convolution.deprecated", "_convolution", "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d",
    "conv_transpose2d.input", "conv_transpose3d.input", "convolution", "prelu", "addmm", "addmv", "addr", "matmul",
    "einsum", "mm", "mv", "linalg_vecdot", "linear", "addbmm", "baddbmm", "bmm", "chain_matmul", "linalg_multi_dot",
    "_thnn_fused_lstm_cell", "_thnn_fused_gru_cell", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell",
    "_scaled_dot_product_flash_attention", "scaled_dot_product_attention",
)  # fmt: skip
_FP32 = (
    "acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal", "rsqrt", "sinh",
    "tan", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar", "softplus", "layer_norm", "native_layer_norm",
    "rms_norm", "group_norm", "frobenius_norm.dim", "nuclear_norm", "nuclear_norm.dim", "cosine_similarity",
    "poisson_nll_loss", "cosine_embedding_loss", "nll_loss", "nll_loss2d", "hinge_embedding_loss", "kl_div", "l1_loss",
    "smooth_l1_loss", "huber_loss", "mse_loss", "margin_ranking_loss", "multilabel_margin_loss", "soft_margin_loss",
    "triplet_margin_loss", "multi_margin_loss", "binary_cross_entropy_with_logits", "dist", "pdist", "cdist", "renorm",
    "logsumexp", "norm.Scalar", "norm.ScalarOpt_dim", "upsample_nearest1d", "_upsample_nearest_exact1d",
    "upsample_nearest2d", "_upsample_nearest_exact2d", "upsample_nearest3d", "_upsample_nearest_exact3d",
    "upsample_linear1d", "upsample_bilinear2d", "_upsample_bilinear2d_aa", "upsample_trilinear3d", "upsample_bicubic2d",
    "_upsample_bicubic2d_aa",
)  # fmt: skip
_FP32_RESULT = (
    "prod", "prod.dim_int", "softmax.int", "log_softmax.int", "cumprod", "cumsum", "linalg_vector_norm",
    "linalg_matrix_norm", "linalg_matrix_norm.str_ord", "sum", "sum.dim_IntList",
)  # fmt: skip
"""These take the type they compute in as `dtype`."""
_WIDEST = (
    "addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "vdot", "grid_sampler", "index_put", "tensordot",
    "scatter_add", "cat", "stack",
)  # fmt: skip

Kernel = Callable[..., Any]


def register() -> tuple[Any, ...]:
    """Register the casts. The returned libraries must be kept: their end is the end of the registration."""
    every = torch.library.Library("_", "IMPL")
    every.fallback(torch.library.fallthrough_kernel, _KEY)
    some = torch.library.Library("aten", "IMPL")
    for names, make in ((_LOWER, _lower), (_FP32, _fp32), (_FP32_RESULT, _fp32_result), (_WIDEST, _widest)):
        for name in names:
            packet, _, overload = name.partition(".")
            op = getattr(getattr(torch.ops.aten, packet), overload or "default")
            some.impl(op, make(op), _KEY)
    return every, some


def _lower(op: Any) -> Kernel:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        return _cast_and_run(op, torch.get_autocast_dtype(TYPE), args, kwargs)

    return kernel


def _fp32(op: Any) -> Kernel:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        return _cast_and_run(op, torch.float32, args, kwargs)

    return kernel


def _fp32_result(op: Any) -> Kernel:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        position = [a.name for a in op._schema.arguments].index("dtype")
        given = kwargs.get("dtype") if len(args) <= position else args[position]
        if given is None and _is_castable(args[0]):
            args, kwargs = args[:position], {**kwargs, "dtype": torch.float32}
        return _run(op, args, kwargs)

    return kernel


def _widest(op: Any) -> Kernel:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        found = {value.dtype for value in _tensors((args, tuple(kwargs.values()))) if _is_castable(value)}
        if len(found) < 2:
            return _run(op, args, kwargs)
        mixed = found == {torch.float16, torch.bfloat16}  # neither holds the other
        return _cast_and_run(op, torch.float32 if mixed else found.difference(_NARROW).pop(), args, kwargs)

    return kernel


_NARROW = (torch.float16, torch.bfloat16)


def _is_castable(value: Any) -> bool:
    """Floating-point tensors of the device; FP64 was asked for, and FP8 is data."""
    known = value.dtype in (torch.float32, *_NARROW) if isinstance(value, torch.Tensor) else False
    return known and value.device.type == TYPE


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)


def _cast_and_run(op: Any, dtype: Any, args: Any, kwargs: Any) -> Any:
    def cast(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [cast(item) for item in value]
        return value.to(dtype) if _is_castable(value) else value

    with torch._C._ExcludeDispatchKeyGuard(_BELOW):
        return op(*map(cast, args), **{name: cast(value) for name, value in kwargs.items()})


def _run(op: Any, args: Any, kwargs: Any) -> Any:
    with torch._C._ExcludeDispatchKeyGuard(_BELOW):
        return op(*args, **kwargs)
