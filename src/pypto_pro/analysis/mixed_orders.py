"""Tensor variables that transfers walk in orders which one transfer descriptor cannot hold.

The device keeps one descriptor a tensor variable: plain loads mixed with transposing ones, or several explicit orders,
may use that of another transfer. Follows variables by name; views made by `make_tensor` are variables of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pypto_pro.diag import Span
from pypto_pro.ir.nodes import Kernel, Local, Op, Program, Var
from pypto_pro.ir.types import TensorType
from pypto_pro.ir.walk import statements
from pypto_pro.ops.entry import Operand, Role
from pypto_pro.ops.table import entry_of

ORDER = "order"


@dataclass(frozen=True)
class Transfer:
    """A transfer that takes an order: its place, the order written (None: its own), whether it reads the tensor."""

    span: Span
    order: tuple[int, ...] | None
    reads: bool

    @property
    def transposes(self) -> bool:
        """Whether the tile's rows walk the later axis."""
        return self.order is not None and self.order[0] > self.order[-1]

    def clashes(self, other: Transfer) -> bool:
        """Whether both cannot share a descriptor: loads of both directions, or two explicit orders."""
        if None not in (self.order, other.order) and self.order != other.order:
            return True
        return self.reads and other.reads and self.transposes != other.transposes


@dataclass(frozen=True)
class Mixed:
    """A tensor variable and the first two transfers of it that do not fit together, in program order."""

    tensor: str
    first: Transfer
    second: Transfer


def find_mixed_orders(kernel: Kernel) -> list[Mixed]:
    """One finding a tensor variable and core program."""
    return [mixed for program in kernel.programs for mixed in _mixed_in(program)]


def _mixed_in(program: Program) -> Iterator[Mixed]:
    seen: dict[Var, list[Transfer]] = {}
    told: set[Var] = set()
    for stmt in statements(program.body):
        if not isinstance(stmt, Op):
            continue
        for var, transfer in _transfers(stmt):
            first = next((t for t in seen.setdefault(var, []) if t.clashes(transfer)), None)
            seen[var].append(transfer)
            if first is not None and var not in told:
                told.add(var)
                yield Mixed(var.name, first, transfer)


def _transfers(op: Op) -> Iterator[tuple[Var, Transfer]]:
    """The tensor variables of an op that takes an order."""
    attrs = dict(op.attrs)
    if ORDER not in attrs:
        return
    for arg, param in zip(op.args, entry_of(op.name).data_params, strict=True):
        if isinstance(arg, Local) and isinstance(arg.type, TensorType) and isinstance(param.spec, Operand):
            yield arg.var, Transfer(op.span, attrs[ORDER], param.spec.role is Role.IN)
