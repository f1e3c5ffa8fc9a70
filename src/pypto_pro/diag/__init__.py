"""Messages: spans, diagnostics, codes and their renderers. Imports nothing else of the package."""

from pypto_pro.diag.codes import BY_KIND, CODES, Code
from pypto_pro.diag.diagnostic import Diagnostic, Finding, Severity
from pypto_pro.diag.span import NOWHERE, Span, characters

__all__ = ["BY_KIND", "CODES", "NOWHERE", "Code", "Diagnostic", "Finding", "Severity", "Span", "characters"]
