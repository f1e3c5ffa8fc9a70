"""The long form of a code: one Markdown page each, shipped inside the package."""

from __future__ import annotations

from importlib.resources import files

from pypto_pro.diag.codes import CODES
from pypto_pro.diag.names import nearest


def page(code: str) -> str:
    """The Markdown text of the page for `code`. Raises KeyError, naming the nearest code, when there is none."""
    if code not in CODES:
        near = nearest(code, CODES)
        raise KeyError(f"unknown code {code!r}" + (f"; did you mean {near}?" if near else ""))
    return (files("pypto_pro.diag") / "pages" / f"{code}.md").read_text(encoding="utf-8")


def explain(code: str) -> str:
    """What `code` means, a broken kernel, the mended kernel and how the device shows the mistake, as Markdown.

    The code may be given in lower case. Raises KeyError for a code that does not exist.
    """
    return page(code.strip().upper())
