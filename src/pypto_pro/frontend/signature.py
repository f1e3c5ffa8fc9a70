"""A kernel's parameters: what each annotation says, for the launch checks and for the front end."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import FunctionType
from typing import Any

from pypto_pro.dtypes import DataType
from pypto_pro.enums import TensorLayout
from pypto_pro.frontend.annotations import Dim, Ptr, PtrAnnotation, Tensor, TensorAnnotation
from pypto_pro.frontend.tiling import tiling_struct
from pypto_pro.ir.types import StructType

REQUIRED: Any = inspect.Parameter.empty
_TUPLE = re.compile(r"\s*(?:typing\.)?[Tt]uple\s*(?:\[|\Z)")


class ParamKind(StrEnum):
    """What a launch passes for a parameter. `unknown`: an annotation that the first compile rejects."""

    TENSOR = "tensor"
    PTR = "ptr"
    SCALAR = "scalar"
    TILING = "tiling"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class ParamSpec:
    """One kernel parameter.

    `dims` are the explicit dims of a tensor (ints, DYNAMIC, STATIC), `open_ended` whether further STATIC axes follow;
    `struct` and `tiling_class` belong to tiling parameters; `annotation` is the evaluated annotation, REQUIRED when
    there is none; `default` is REQUIRED when a call must give the argument.
    """

    name: str
    kind: ParamKind
    dtype: DataType | None = None
    dims: tuple[Dim, ...] = ()
    open_ended: bool = False
    layout: TensorLayout = TensorLayout.ND
    struct: StructType | None = None
    tiling_class: type | None = None
    default: Any = REQUIRED
    annotation: Any = REQUIRED


def read_signature(fn: Callable[..., Any], env: Mapping[str, Any]) -> tuple[ParamSpec, ...]:
    """The parameters of `fn`; string annotations are evaluated in `env` (globals overlaid by captured locals).

    Raises TypeError when an annotation cannot be evaluated or holds bad dims.
    """
    return tuple(
        _param(name, evaluate_annotation(parameter.annotation, name, env), parameter.default)
        for name, parameter in inspect.signature(fn).parameters.items()
    )


def evaluate_annotation(annotation: Any, name: str, env: Mapping[str, Any]) -> Any:
    """The object behind an annotation, strings evaluated. TypeError naming the parameter when that fails."""
    if not isinstance(annotation, str):
        return annotation
    if _TUPLE.match(annotation):
        return tuple
    try:
        return eval(annotation, dict(env))  # the author's own annotation, as Python itself would evaluate it
    except Exception as error:
        raise TypeError(
            f"the annotation of `{name}` cannot be evaluated: `{annotation}`: {type(error).__name__}: {error}"
        ) from error


def has_kernel_annotation(specs: tuple[ParamSpec, ...]) -> bool:
    """Whether the function is a kernel at all: a tensor, pointer, scalar or tiling annotation on any parameter.

    `pl.Tensor` and `pl.Ptr` without their brackets mean one, too, and are told at the first launch.
    """
    return any(spec.kind is not ParamKind.UNKNOWN or spec.annotation in (Tensor, Ptr) for spec in specs)


def _param(name: str, annotation: Any, default: Any) -> ParamSpec:
    match annotation:
        case TensorAnnotation(dims, open_ended, dtype, layout):
            return ParamSpec(
                name, ParamKind.TENSOR, dtype, dims, open_ended, layout or TensorLayout.ND,
                default=default, annotation=annotation,
            )
        case PtrAnnotation(dtype):
            return ParamSpec(name, ParamKind.PTR, dtype, default=default, annotation=annotation)
        case DataType():
            return ParamSpec(name, ParamKind.SCALAR, annotation, default=default, annotation=annotation)
    struct = tiling_struct(annotation)
    if struct is not None:
        return ParamSpec(
            name, ParamKind.TILING, struct=struct, tiling_class=annotation, default=default, annotation=annotation
        )
    return ParamSpec(name, ParamKind.UNKNOWN, default=default, annotation=annotation)


def parameter_names(fn: FunctionType) -> tuple[str, ...]:
    """The names of a function's parameters."""
    return tuple(inspect.signature(fn).parameters)
