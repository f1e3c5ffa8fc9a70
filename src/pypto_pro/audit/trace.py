"""What one interpretation of a wrapper observed, in order. Judged afterwards, in `launches.py` and `outputs.py`."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from pypto_pro.audit.values import Kernel, Value

Chain = tuple[tuple[str, int], ...]  # (function, line of the call that entered it), outermost first


@dataclass(frozen=True)
class Hit:
    """One rule broken at one expression. `member` is the last component of the name that was used."""

    code: str
    node: ast.AST
    chain: Chain
    subject: str
    message: str
    member: str = ""
    origin: ast.AST | None = None
    after_launch: bool = False
    used_at: int = 0  # line where the wrapper uses a module-level value, 0 when the expression is its own


@dataclass(frozen=True)
class Launch:
    """One launch expression. `arguments` are the values by kernel parameter."""

    node: ast.AST
    chain: Chain
    kernels: tuple[Kernel, ...]
    form: str
    block_dim: str
    loop: ast.AST | None
    arguments: tuple[tuple[str, Value], ...]


@dataclass(frozen=True)
class Allocation:
    """One evaluation of `torch.empty`; `site` identifies it in the sources of tensors."""

    node: ast.AST
    chain: Chain
    site: str


@dataclass(frozen=True)
class MetadataRead:
    """A listed member of a tensor was read."""

    subject: str
    member: str
    node: ast.AST


@dataclass(frozen=True)
class Called:
    """A call was classified: allowed, finding, launch or local."""

    node: ast.AST
    callee: str
    resolved: bool
    verdict: str
    code: str | None


@dataclass(frozen=True)
class Unproven:
    """An operator met a value of unknown kind."""

    node: ast.AST
    chain: Chain
    subject: str
    why: str


@dataclass(frozen=True)
class Entered:
    """A function of the file was followed from the wrapper."""

    node: ast.AST
    name: str


Event = Hit | Launch | Allocation | MetadataRead | Called | Unproven | Entered
