"""Running a compiled variant on the executor that the options choose."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pypto_pro.ir.launch import Launch
from pypto_pro.runtime.options import Options
from pypto_pro.runtime.specialise import Variant


def run(variant: Variant, launch: Launch, options: Options) -> None:
    """Run one launch to its end; outputs are in the caller's buffers when it returns.

    Raises PlacementError for tiles that cannot lie where they are, StuckError when no core can go on, CheckError when
    checks are on and find errors.
    """
    if options.check:
        import_module("pypto_pro.runtime.checking").launch(variant, launch, options)
    elif options.executor == "native":
        native_code(variant).run(launch, options.threads)
    else:
        interpret(variant, launch, options)


def interpret(variant: Variant, launch: Launch, options: Options) -> None:
    """Run a launch on the simulator. StuckError when it does not finish."""
    from pypto_pro import interp
    from pypto_pro.runtime.stuck import stuck_error

    require_placeable(variant)
    result = interp.run(variant.kernel, launch, schedule=options.schedule, seed=options.seed)
    if result.stuck:
        raise stuck_error(variant.kernel.name, result)


def require_placeable(variant: Variant) -> None:
    """PlacementError unless the tiles of a variant can lie where they are; looked at before its first run."""
    if "placement" not in variant.compiled:
        from pypto_pro.memory.launch import certain_errors  # a stored kernel was looked at when it was made

        found = certain_errors(variant.kernel)
        if found:
            from pypto_pro.runtime.placement import refusal

            raise refusal(found, variant.kernel.name)
        variant.compiled["placement"] = True


def native_code(variant: Variant) -> Any:
    """What native made of a variant, loaded or compiled at the first launch."""
    code = variant.compiled.get("native")
    if code is None:
        from pypto_pro.runtime import compiling

        code = compiling.native_code(variant)
    return code
