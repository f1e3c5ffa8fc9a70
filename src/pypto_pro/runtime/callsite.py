"""The author's line behind a call into the package."""

from __future__ import annotations

import os
import sys
import warnings
from itertools import islice
from types import FrameType

from pypto_pro.diag import Span

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_NOT_THE_AUTHOR = (_PACKAGE, "<frozen importlib")


def caller(beyond: tuple[str, ...] = ()) -> FrameType | None:
    """The innermost frame that is neither code of this package nor of the import system, nor below a path `beyond`."""
    skipped = (*_NOT_THE_AUTHOR, *beyond)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(skipped):
        frame = frame.f_back
    return frame


def call_site(label: str = "", beyond: tuple[str, ...] = ()) -> Span | None:
    """The range of source text of the innermost call from outside the package (and outside the paths `beyond`), None
    when there is none."""
    frame = caller(beyond)
    if frame is None:
        return None
    positions = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), None)
    line, end_line, column, end_column = positions or (None, None, None, None)
    line = line or frame.f_lineno
    return Span(frame.f_code.co_filename, line, column or 0, end_line or line, end_column or 0, label)


def warn_at_caller(message: str) -> None:
    """A RuntimeWarning at the author's line."""
    frame = caller()
    if frame is None:
        warnings.warn(message, RuntimeWarning, stacklevel=2)
    else:
        warnings.warn_explicit(message, RuntimeWarning, frame.f_code.co_filename, frame.f_lineno)
