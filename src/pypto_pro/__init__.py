"""PyPTO-Pro: run and prove Ascend 950 tile kernels on any CPU.

`options` and everything of the checks are imported when first used, so that `import pypto_pro.language` stays quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pypto_pro.audit import record_wrapper
    from pypto_pro.diag import Finding, Severity, Span
    from pypto_pro.diag.errors import ArgumentError, CheckError, ParserError, StuckError
    from pypto_pro.runtime.options import options

_WHERE = {
    "ArgumentError": "pypto_pro.diag.errors",
    "CheckError": "pypto_pro.diag.errors",
    "Finding": "pypto_pro.diag",
    "ParserError": "pypto_pro.diag.errors",
    "Report": "pypto_pro.runtime.checking",
    "Severity": "pypto_pro.diag",
    "Span": "pypto_pro.diag",
    "StuckError": "pypto_pro.diag.errors",
    "check": "pypto_pro.runtime.checking",
    "options": "pypto_pro.runtime.options",
    "record_wrapper": "pypto_pro.audit",
}

__all__ = [
    "ArgumentError",
    "CheckError",
    "Finding",
    "ParserError",
    "Severity",
    "Span",
    "StuckError",
    "__version__",
    "options",
    "record_wrapper",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module `pypto_pro` has no attribute `{name}`")
    from importlib import import_module

    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
