"""`pl.parser`: the errors a kernel's source can have."""

from pypto_pro.language.parser import diagnostics
from pypto_pro.language.parser.diagnostics import ParserError

__all__ = ["ParserError", "diagnostics"]
