"""Op functions: one module for each signature, from the entry's `lower` facet; a callback where there is none."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import Any

import llvmlite.ir as ir

from pypto_pro.diskcache import package_stamp
from pypto_pro.native import engine, matrix, objects, runner
from pypto_pro.native.beside import later
from pypto_pro.native.calls import Signature, load_operand
from pypto_pro.native.emit import PTR, VOID, Code
from pypto_pro.native.program import CALLBACK
from pypto_pro.ops.entry import Caution, Requirement

_lock = threading.RLock()
_addresses: dict[str, int] = {}  # symbol -> loaded function; shared by all kernels of the process
_by_text: dict[str, str] = {}  # signature text -> symbol


def function_of(signature: Signature) -> str:
    """Symbol of the function for a signature, compiled and loaded (`later`); the callback's without native code."""
    if signature.entry is None or "lower" not in signature.entry.facets:
        return CALLBACK
    with _lock:
        symbol = _by_text.get(signature.text)
        if symbol is None:
            symbol = _by_text[signature.text] = _build(signature)
    return symbol


def _build(signature: Signature) -> str:
    """From the cache by signature where it is there, so that not even LLVM text is made; empty code = declined."""
    key = engine.object_key(f"{package_stamp()}\n{signature.text}")
    code = objects.load(key)
    if code is None:
        text = op_module(signature)
        if text is not None:
            later(lambda: _generate(signature, key, text))
            return signature.symbol
        objects.save(key, b"")
    if not code:
        return CALLBACK
    _link(signature.symbol, code)
    return signature.symbol


def _generate(signature: Signature, key: str, text: str) -> None:
    """Compile, keep and load an op's function; what fails is tried again by the next kernel that needs it."""
    try:
        code = engine.generate(text)
        objects.save(key, code)
        _link(signature.symbol, code)
    except BaseException:
        _by_text.pop(signature.text, None)
        raise


def op_module(signature: Signature) -> str | None:
    """LLVM text of an op's function; None when its `lower` declines these operands (returns NotImplemented)."""
    module = ir.Module(signature.symbol)
    return None if emit_into(module, signature) is None else str(module)


def inlined(module: Any, signature: Signature) -> Any:
    """The op's function as a private one of a module, for calls too short to be worth a jump; None: declined."""
    found = module.globals.get(signature.symbol)
    if found is None and "lower" in signature.entry.facets:  # type: ignore[union-attr]
        found = emit_into(module, signature)
        if found is not None:
            found.linkage = "internal"
            found.attributes.add("alwaysinline")
    return found


def emit_into(module: Any, signature: Signature) -> Any:
    """The op's function in a module; None when its `lower` declines, which leaves an unfinished one behind."""
    from pypto_pro.native.builder import OpBuilder

    entry = signature.entry
    assert entry is not None
    function = ir.Function(module, ir.FunctionType(VOID, [PTR, PTR]), signature.symbol)
    code = Code(function)
    core, record = function.args
    operands = [
        load_operand(code, core, record, spec, offset)
        for spec, offset in zip(signature.specs, signature.offsets, strict=False)
    ]
    builder = OpBuilder(code, core, record, signature)
    named = entry.bind(operands, signature.attrs)
    if "issue" in entry.facets:
        facts = entry.facets["issue"](**named)
        builder.require(*(f.holds for f in facts if isinstance(f, Requirement)))  # the callback says what fails
        builder.doubt(*(f.holds for f in facts if isinstance(f, Caution)))
    if entry.facets["lower"](builder, **named) is NotImplemented:
        return None
    builder.finish()
    return function


heard: ContextVar[dict[str, str] | None] = ContextVar("pypto_pro_heard", default=None)
"""Where `load` notes the texts of modules, by symbol; None: nowhere."""


def load(symbol: str, text: str) -> None:
    """Compile a module and make its function known under `symbol`."""
    texts = heard.get()
    if texts is not None:
        texts[symbol] = text
    if symbol not in _addresses:
        later(lambda: _link(symbol, engine.compile_module(text)))


def _link(symbol: str, code: bytes) -> None:
    with _lock:
        if symbol not in _addresses:
            helpers = {**runner.helpers(code), **matrix.helpers(code)}
            _addresses.update(engine.link(code, (symbol,), {**_addresses, **helpers}))


def addresses(code: bytes) -> dict[str, int]:
    """Addresses by name of every function a program's object code may call."""
    return {**runner.helpers(code), **_addresses}
