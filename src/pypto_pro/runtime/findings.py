"""Exceptions of the package as findings."""

from __future__ import annotations

from dataclasses import replace

from pypto_pro.diag import Diagnostic
from pypto_pro.diag.errors import DiagnosticError


def as_finding(error: DiagnosticError) -> Diagnostic:
    """An exception of the package as a finding: what a rule said, without the name of the exception it raised.

    An exception that no rule raised (P008) keeps its name: it is all there is to go by.
    """
    found = error.diagnostic
    rule = type(error.__cause__).__name__
    if error.__cause__ is None or f"{rule}: " not in found.message or found.code == "P008":
        return found
    message = found.message.replace(f"{rule}: ", "", 1).removesuffix(f" (in kernel `{found.kernel}`)")
    return replace(found, message=message, title="")
