"""What the stand-in does not have: errors that name it and point at the author's line."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn

from pypto_pro.diag import Span
from pypto_pro.diag.errors import DiagnosticError
from pypto_pro.runtime.callsite import call_site

HINT = "docs/device-scripts.md lists what there is; guard what only the device has, or compute it with torch operators"


class MissingNameError(DiagnosticError, AttributeError):
    """A name of torch_npu or torch.npu that the stand-in does not have."""

    default_code = "P004"


class MissingModuleError(DiagnosticError, ModuleNotFoundError):
    """A module of the device library that the stand-in does not have, or torch itself."""

    default_code = "P004"


class UnsupportedError(DiagnosticError, NotImplementedError):
    """A use of an existing name that the stand-in cannot do."""

    default_code = "P006"


def author_site() -> Span | None:
    """The innermost line that is code of neither this package nor torch."""
    torch = sys.modules.get("torch")
    return call_site(beyond=() if torch is None else (os.path.dirname(torch.__file__ or "") + os.sep,))


def missing_names(
    module: str, known: Iterable[str], instead: Mapping[str, str] | None = None
) -> Callable[[str], NoReturn]:
    """A module's `__getattr__`: MissingNameError for every name, with what to do `instead`, or the nearest one."""
    names = sorted(known)

    def fail(name: str) -> NoReturn:
        if name.startswith("__"):  # Python and its tools ask for these; nobody forgot them
            raise AttributeError(f"module `{module}` has no attribute `{name}`")
        message = f"the stand-in for `{module}` has no `{name}`"
        if instead and name in instead:
            raise MissingNameError(message, author_site(), hint=instead[name])
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.85)  # `npu_*` names all look alike: only typos
        raise MissingNameError(message, author_site(), hint=f"did you mean `{near[0]}`?" if near else HINT)

    return fail


def missing_module(name: str) -> MissingModuleError:
    """The error for `import torch_npu.<what we do not have>`."""
    return MissingModuleError(f"the stand-in for the device library has no module `{name}`", author_site(), hint=HINT)


def unsupported(what: str, hint: str | None = None) -> UnsupportedError:
    """The error for something that only the device can do."""
    return UnsupportedError(what, author_site(), hint=hint)
