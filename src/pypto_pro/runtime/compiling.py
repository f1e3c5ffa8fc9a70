"""From a signature to a variant: out of the disk cache, or compiled, checked for what it depends on, and kept."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pypto_pro.runtime import options, stored
from pypto_pro.runtime.dependencies import Dependencies, describe, is_repeatable, names_read_by
from pypto_pro.runtime.platform import resolve_arch
from pypto_pro.runtime.specialise import Signature, Variant, making
from pypto_pro.runtime.watch import watch

if TYPE_CHECKING:
    from pypto_pro.frontend.closure import Captures
    from pypto_pro.runtime.jit import JitKernel


def make_variant(kernel: JitKernel, signature: Signature, key: Mapping[str, int] | None) -> Variant:
    """The variant of a kernel for one signature. Raises what the front end raises, and TimeoutExpired."""
    chosen = options.current()
    arch = resolve_arch(kernel.options.arch)
    if chosen.interpreted:
        return _compiled(kernel, signature, key, None)
    deciding = (arch, *kernel.options.deciding)
    text = stored.text_key(kernel.source, deciding, kernel.specs, signature.static, key, signature.datatypes)
    if chosen.keep is None:
        for names in stored.names_of(text):
            found = describe(kernel.source.fn, kernel.source.enclosing, names)
            entry = stored.read(stored.entry_key(text, found)) if found is not None else None
            if found is not None and entry is not None:
                watched = watch(entry.captured, found.scopes(kernel.source.enclosing))
                return Variant(entry.kernel, frozenset(entry.written), watched, stored=entry)
    return _compiled(kernel, signature, key, text)


def _compiled(kernel: JitKernel, signature: Signature, key: Mapping[str, int] | None, text: str | None) -> Variant:
    """A variant compiled now; `text` is its key by text, None when it is not to be stored."""
    from pypto_pro.frontend.closure import Captures

    began, limit = time.monotonic(), time_limit(kernel)
    fn, enclosing = kernel.source.fn, kernel.source.enclosing
    before = describe(fn, enclosing)
    captures = Captures()
    made = kernel.compile(signature.static, key, signature.datatypes, captures=captures)
    left = limit - (time.monotonic() - began)
    if left <= 0:
        raise out_of_time(kernel.source.name, limit)
    keep = options.current().keep
    if keep is not None:
        from pypto_pro.runtime import artifacts

        name, file = kernel.options.name or kernel.source.name, fn.__code__.co_filename
        llvm = not options.current().interpreted
        artifacts.write(
            keep, name, file, signature, made, kernel.specs, kernel.datatype_schema, llvm=llvm,
            transformed=captures.transformed,
        )  # fmt: skip
    names = frozenset(captures.names).union(*map(names_read_by, captures.called))
    found = describe(fn, enclosing, names)
    place = None
    if found is not None and text is not None and _tells_all(kernel, before, found, captures, names):
        place = stored.entry_key(text, found)
        stored.remember(text, names)
    scopes = found.scopes(enclosing) if found is not None else (enclosing, fn.__globals__)
    variant = Variant.of(made, watch((text for text, _ in made.captured), scopes), place)
    variant.seconds_left = left
    return variant


def _tells_all(
    kernel: JitKernel, before: Dependencies | None, found: Dependencies, captures: Captures, names: frozenset[str]
) -> bool:
    """Whether an equal description means an equal result: all that was read is described, and has not changed since."""
    if before is None or not found.cover(names) or not all(map(is_repeatable, captures.called)):
        return False
    after = describe(kernel.source.fn, kernel.source.enclosing)
    return after is not None and after.digest == before.digest


def time_limit(kernel: JitKernel) -> float:
    """Seconds a compile may take: the decorator's option, else the setting."""
    given = kernel.options.compile_timeout
    return options.current().compile_timeout if given is None else given


def out_of_time(name: str, limit: float) -> Exception:
    """The error of a compile that took too long."""
    from subprocess import TimeoutExpired

    return TimeoutExpired(f"compile {name}", limit)


def native_code(variant: Variant) -> Any:
    """What native made of a variant: loaded from the disk cache, or compiled at the first launch and stored there."""
    code = variant.compiled.get("native")
    if code is None:
        with making:
            code = variant.compiled.get("native")
            if code is None:
                code = variant.compiled["native"] = _load(variant) or _generate(variant)
    return code


def _load(variant: Variant) -> Any:
    if variant.stored is None:
        return None
    try:
        return variant.stored.native()
    except (RuntimeError, ValueError, LookupError) as error:
        warnings.warn(f"a stored kernel cannot be loaded and is made anew: {error}", RuntimeWarning, stacklevel=2)
        return None


def _generate(variant: Variant) -> Any:
    from pypto_pro.native.engine import OutOfTime, time_bound
    from pypto_pro.native.kernel import compile
    from pypto_pro.runtime.launch import require_placeable

    require_placeable(variant)
    try:
        with time_bound(variant.seconds_left):
            code = compile(variant.kernel)
    except OutOfTime:
        raise out_of_time(variant.kernel.name, variant.seconds_left) from None
    if variant.key is not None:
        stored.write(variant.key, variant.kernel, [*variant.written], code.image())
        variant.key = None
    return code
