"""The long form of a code: one Markdown page each, shipped inside the package.

A page holds what the code means, `## Broken` and `## Mended` with one example each, and `## On the device`; a test
runs the examples. Kernels assume `import numpy as np` and `import pypto_pro.language as pl` and end with the launch;
wrappers assume the kernel they name; codes of the layout report show plans.
"""

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
    entry = CODES[wanted]
    page = (files("pypto_pro.diag") / "pages" / f"{wanted}.md").read_text(encoding="utf-8")
    return f"# {wanted} {entry.kind} ({entry.severity}): {entry.meaning}\n\n{page}"
