"""The long form of a code: one Markdown page each, shipped inside the package."""

from __future__ import annotations

from importlib.resources import files

from pypto_pro.diag.codes import CODES
from pypto_pro.diag.names import nearest


def explain(code: str) -> str:
    """What `code` means, a broken kernel, the mended kernel and how the device shows the mistake, as Markdown.

    The code may be given in lower case. Raises KeyError, naming the nearest code, for one that does not exist.
    """
    wanted = code.strip().upper()
    if wanted not in CODES:
        near = nearest(wanted, CODES)
        raise KeyError(f"unknown code {code!r}" + (f"; did you mean {near}?" if near else ""))
    return (files("pypto_pro.diag") / "pages" / f"{wanted}.md").read_text(encoding="utf-8")
