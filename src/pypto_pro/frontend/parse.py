"""From a captured kernel to IR: the entry point of the front end."""

from __future__ import annotations

import ast
import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from pypto_pro.diag.errors import ParserError, ParserSyntaxError, ParserTypeError, SSAViolationError
from pypto_pro.enums import CoreKind
from pypto_pro.frontend import (
    closure,
    constructs_debug,
    constructs_scalars,
    constructs_sync,
    constructs_tensors,
    constructs_tiles,
    expressions,
    inline,
    simt,
    statements,
)
from pypto_pro.frontend.annotations import Ptr, Tensor
from pypto_pro.frontend.context import Context, Frame, FrameKind
from pypto_pro.frontend.pipeline.config import PipelineConfig
from pypto_pro.frontend.pipeline.probe import Probe
from pypto_pro.frontend.scan import Liveness
from pypto_pro.frontend.signature import ParamKind, ParamSpec, read_signature
from pypto_pro.frontend.source import KernelSource, Source, source_of
from pypto_pro.frontend.specialise import Specialisation
from pypto_pro.frontend.tiling import why_no_tiling
from pypto_pro.frontend.values import StructValue, Value
from pypto_pro.ir.nodes import (
    Block,
    For,
    If,
    Kernel,
    Local,
    Place,
    Program,
    SimtLaunch,
    Stmt,
    Var,
    VfCall,
    While,
)
from pypto_pro.ir.types import PtrType, ScalarType, StructType, TensorType

__all__ = ["Specialisation", "parse_kernel"]

# importing them registers what the front end understands itself
CONSTRUCTS = (constructs_debug, constructs_scalars, constructs_sync, constructs_tensors, constructs_tiles, simt)


class _Hooks:
    """The two entry points that the parts of the front end reach through the context."""

    def evaluate(self, ctx: Context, node: ast.expr, hint: str | None = None) -> Value:
        """The value of an expression."""
        return expressions.evaluate(ctx, node, hint)

    def execute(self, ctx: Context, body: list[ast.stmt]) -> bool:
        """Read statements."""
        return statements.execute(ctx, body)


def parse_kernel(
    source: KernelSource, special: Specialisation, *, auto_mutex: bool = True,
    captures: closure.Captures | None = None, pipeline: PipelineConfig | None = None,
) -> Kernel:  # fmt: skip
    """The IR of one variant of a kernel: the body read for the cube core, then for the vector core.

    Only programs of core kinds whose sections were reached are kept, both when there is no section at all. `captures`
    is told what was taken from outside the text. With `pipeline` the kernel is read, transformed and read again.
    Raises ParserError and its subclasses; anything unforeseen is wrapped in ParserSyntaxError.
    """
    reader = _Reader if pipeline is None else functools.partial(_pipelined, config=pipeline)
    try:
        return reader(source, special, auto_mutex, captures or closure.Captures()).kernel()
    except ParserError:
        raise
    except RecursionError as error:
        raise ParserSyntaxError(
            f"`{source.name}` is nested too deeply to be read", source_of(source.fn).span(source_of(source.fn).tree),
            hint="split it into helpers",
        ) from error  # fmt: skip
    except Exception as error:
        text = f"{type(error).__name__}: {error} (in kernel `{source.name}`)"
        where = source_of(source.fn)
        raise ParserSyntaxError(text, where.span(where.tree), code="P008", kernel=source.name) from error


def _pipelined(
    source: KernelSource, special: Specialisation, auto_mutex: bool, captures: closure.Captures,
    config: PipelineConfig,
) -> _Reader:  # fmt: skip
    """A reader of the transformed kernel."""
    from pypto_pro.frontend.pipeline import transform  # most kernels do without

    names = {**source.environment(), **special.constants()}
    rewriter = transform.Rewriter(source.name, source_of(source.fn), names, config)
    probing = _Reader(source, special, auto_mutex, captures)
    probing.pipelined, probing.probe = True, rewriter.probe
    try:
        rewriter.probe.finish(probing.kernel())
    except ParserError:
        rewriter.explain()
        raise
    reader = _Reader(source, special, auto_mutex, captures)
    reader.pipelined, reader.source = True, rewriter.rewrite()
    captures.transformed = transform.text_of(reader.source)
    return reader


class _Reader:
    """The parts the two readings share."""

    pipelined = False
    probe: Probe | None = None

    def __init__(
        self, source: KernelSource, special: Specialisation, auto_mutex: bool, captures: closure.Captures
    ) -> None:
        self.captured = source
        self.special = special
        self.auto_mutex = auto_mutex
        self.source: Source = source_of(source.fn)
        self.seen = captures
        self.specs = read_signature(source.fn, {**source.environment(), **special.constants()})
        self._check_definition()
        self.params = tuple(self._param(i, spec) for i, spec in enumerate(self.specs))

    def kernel(self) -> Kernel:
        """Both programs, as far as the kernel has them."""
        span = self.source.span(self.source.tree)
        programs: dict[CoreKind, Program] = {}
        reached: set[CoreKind] = set()
        for core in (CoreKind.CUBE, CoreKind.VECTOR):
            body, found = self._program(core)
            programs[core] = Program(core, body)
            reached |= found
        kept = tuple(program for core, program in programs.items() if core in reached or not reached)
        captured = tuple(sorted(self.seen.constants.items()))
        return Kernel(self.captured.name, self.params, kept, self.auto_mutex, captured, span=span)

    def _program(self, core: CoreKind) -> tuple[Block, set[CoreKind]]:
        fn = self.captured.fn
        constants = self.special.constants()
        ctx = Context(
            core, self.captured.name, self.auto_mutex, _Hooks(), constants, captured=self.seen,
            reading=self.special.reading,
        )  # fmt: skip
        ctx.pipelined, ctx.probe = self.pipelined, self.probe
        body = inline.body_of(self.source)
        scope = closure.Closure(constants, self.captured.enclosing, fn.__globals__, self.seen)
        ctx.frames.append(Frame(FrameKind.KERNEL, fn.__name__, self.source, scope, Liveness(body, core)))
        ctx.expanding.append(fn)
        ctx.params = frozenset(self.params)
        for var in self.params:
            ctx.pool[var.name] = 1
            ctx.stable.add(var)
            ctx.frame.names[var.name] = _bound(var)
        ctx.execute(body)
        return close(ctx.block), ctx.reached

    # --- definition and parameters -----------------------------------------------------------------------------------

    def _error(self, kind: type[ParserError], message: str, node: ast.AST, **rest: Any) -> ParserError:
        return kind(message, self.source.span(node), kernel=self.captured.name, **rest)

    def _check_definition(self) -> None:
        tree = self.source.tree
        args = tree.args
        if args.posonlyargs or args.kwonlyargs or args.vararg or args.kwarg:
            odd = next(a for a in (args.vararg, args.kwarg, *args.kwonlyargs, *args.posonlyargs) if a is not None)
            kind = {id(args.vararg): "`*`", id(args.kwarg): "`**`"}.get(
                id(odd), "keyword-only" if odd in args.kwonlyargs else "positional-only"
            )  # fmt: skip
            text = f"a kernel has plain parameters only, found the {kind} parameter `{odd.arg}`"
            raise self._error(ParserSyntaxError, text, odd)
        returns = tree.returns
        if self.special.reading.strict_ssa:
            self._check_single_assignment(tree)
        if self.special.reading.may_return:
            returns = None
        if returns is not None and not (isinstance(returns, ast.Constant) and returns.value in (None, "None")):
            raise self._error(ParserSyntaxError, "a kernel returns nothing", returns, hint="leave the annotation out")
        tiling = [i for i, spec in enumerate(self.specs) if spec.kind is ParamKind.TILING]
        if len(tiling) > 1:
            raise self._error(ParserSyntaxError, "a kernel has one tiling parameter at most", args.args[tiling[1]])
        if tiling and tiling[0] != len(self.specs) - 1:
            raise self._error(ParserSyntaxError, "the tiling parameter is the last one", args.args[tiling[0]])

    def _check_single_assignment(self, tree: ast.FunctionDef) -> None:
        """SSAViolationError for the first name that is bound twice: parameters, assignments, loop variables."""
        bound: dict[str, ast.AST] = {arg.arg: arg for arg in tree.args.args}
        names = [node for stmt in tree.body for node in ast.walk(stmt) if isinstance(node, ast.Name)]
        for node in sorted(names, key=lambda name: (name.lineno, name.col_offset)):
            if isinstance(node.ctx, ast.Store) and node.id != "_":
                first = bound.setdefault(node.id, node)
                if first is not node:
                    raise SSAViolationError(
                        f"`{node.id}` is bound again, and single assignment is asked for", self.source.span(node),
                        previous=self.source.span(first), kernel=self.captured.name, hint="use a new name",
                    )  # fmt: skip

    def _param(self, index: int, spec: ParamSpec) -> Var:
        arg = next((a for a in self.source.tree.args.args if a.arg == spec.name), self.source.tree)
        match spec.kind:
            case ParamKind.TENSOR:
                assert spec.dtype is not None
                return Var(spec.name, TensorType(spec.dtype, self.special.dims(index, spec), spec.layout))
            case ParamKind.PTR:
                assert spec.dtype is not None
                return Var(spec.name, PtrType(spec.dtype))
            case ParamKind.SCALAR:
                return Var(spec.name, self._scalar(spec, arg))
            case ParamKind.TILING:
                assert spec.struct is not None
                return Var(spec.name, spec.struct)
        if isinstance(arg, ast.arg) and arg.annotation is None:
            raise self._error(ParserTypeError, f"parameter `{spec.name}` has no annotation", arg)
        text = f"the annotation of `{spec.name}` is no kernel annotation: {self._why_not(spec, arg)}"
        hint = "a parameter is a pl.Tensor[[dims], dtype], pl.Ptr[dtype], pl.DT_... or a tiling dataclass"
        raise self._error(ParserTypeError, text, arg, hint=hint)

    @staticmethod
    def _why_not(spec: ParamSpec, arg: Any) -> str:
        written = ast.unparse(arg.annotation).strip("'\"")
        if spec.annotation in (Tensor, Ptr):
            return f"`{written}` lacks its [...]"
        own = isinstance(spec.annotation, type) and spec.annotation.__module__ not in ("builtins", "typing", "numpy")
        return (why_no_tiling(spec.annotation) if own else None) or f"found `{written}`"

    def _scalar(self, spec: ParamSpec, arg: ast.AST) -> ScalarType:
        assert spec.dtype is not None
        annotation = getattr(arg, "annotation", None)
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            annotation = ast.parse(annotation.value, mode="eval").body
        if not isinstance(annotation, ast.Attribute):
            raise self._error(
                ParserTypeError, f"the dtype of scalar `{spec.name}` is written as `pl.{spec.dtype.name}`", arg
            )
        if spec.dtype.is_storage_only or not spec.dtype.name.startswith("DT_"):
            raise self._error(ParserTypeError, f"a scalar cannot be {spec.dtype.to_string()}", arg)
        return ScalarType(spec.dtype)


def _bound(var: Var) -> Value:
    """The value of a parameter."""
    if isinstance(var.type, StructType):
        return StructValue(Place(var, None, (), None, var.type))
    return Local(var)


def close(block: Sequence[Stmt]) -> Block:
    """The open blocks of a program as tuples."""
    return tuple(_closed(stmt) for stmt in block)


def _closed(stmt: Stmt) -> Stmt:
    match stmt:
        case If(then=then, orelse=orelse):
            return dataclasses.replace(stmt, then=close(then), orelse=close(orelse))
        case For(body=body) | While(body=body) | VfCall(body=body) | SimtLaunch(body=body):
            return dataclasses.replace(stmt, body=close(body))
    return stmt
