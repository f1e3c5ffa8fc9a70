"""The wrappers, design documents and knowledge records of the explain pages go through the audit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pages import codes_with, example, reported, text_of, unwanted

from pypto_pro.audit import Options
from pypto_pro.audit.delivered import Knowledge, audit_file
from pypto_pro.audit.text import diagnostics
from pypto_pro.diag import Diagnostic

PRELUDE = """\
import torch
import pypto_pro.language as pl

@pl.jit
def op_kernel(x: pl.Tensor[[pl.DYNAMIC, pl.DYNAMIC], pl.DT_FP32], y: pl.Tensor[[pl.DYNAMIC, pl.DYNAMIC], pl.DT_FP32],
              n: pl.DT_INT32):
    tiles = pl.make_tile_group(type=pl.TileType(shape=[16, 64], dtype=pl.DT_FP32), addrs=0, mutex_ids=[0, 1])
    with pl.section_vector():
        for i in pl.range(pl.get_block_idx(), n, pl.get_block_num()):
            t = tiles.next()
            pl.load(t, x, [i * 16, 0])
            pl.store(y, t, [i * 16, 0])

"""
DELIVERY = ("W130", "W140", "W141", "W142", "W150")  # rules of a delivered file as a whole
REFERENCES = {"constraints/wrapper-boundary.md": "# Wrapper boundary\n", "constraints/precision.md": "# Precision\n"}
SELECTION = {
    "schema_version": 3,
    "op": "op",
    "class_id": ".",
    "optional_patterns": [],
    "no_matching_pattern": True,
    "required_constraints": [{"path": path, "reason": "every class"} for path in REFERENCES],
}
Golden = Callable[[Path | str, str], None]


def audit_wrapper(code: str, text: str, knowledge: Knowledge | None = None, **options: object) -> list[Diagnostic]:
    """Findings on a file `test_op.py` with the kernel and the text."""
    file = Path("test_op.py")
    file.write_text(PRELUDE + text, encoding="utf-8")
    mode = "delivery" if code in DELIVERY or knowledge else "plain"
    return diagnostics(audit_file(file, Options(mode=mode, **options), knowledge))  # type: ignore[arg-type]


def audit_page(code: str, heading: str) -> list[Diagnostic]:
    """Findings on a page's example: a wrapper, or a design document beside a legal one."""
    text = text_of(code, heading)
    language = (example(code, heading) or ("", ""))[0]
    if language == "markdown":
        Path("design.md").write_text(text, encoding="utf-8")
        return audit_wrapper(code, text_of("W101", "Mended"), design=("design.md", text))
    return audit_wrapper(code, text)


def audit_record(text: str) -> list[Diagnostic]:
    """Findings on a record (with the selection above), or on a selection (with a legal record), or on code."""
    for name, content in REFERENCES.items():
        file = Path("kb", name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
    is_code = not text.startswith("{")
    is_selection = "required_constraints" in text
    record = text_of("K202", "Mended") if is_code or is_selection else text
    Path("KB_USAGE.json").write_text(record, encoding="utf-8")
    Path("KB_SELECTION.json").write_text(text if is_selection else json.dumps(SELECTION), encoding="utf-8")
    knowledge = Knowledge(Path("KB_USAGE.json"), Path("KB_SELECTION.json"), Path("kb"))
    return audit_wrapper("", text if is_code else text_of("W101", "Mended"), knowledge)


@pytest.mark.parametrize("code", codes_with("python markdown", "Broken", "W"))
def test_broken_wrapper(code: str, golden: Golden) -> None:
    golden(f"expected/{code}.txt", reported(audit_page(code, "Broken"), code))


@pytest.mark.parametrize("code", codes_with("python markdown", "Mended", "W"))
def test_mended_wrapper(code: str) -> None:
    assert unwanted(audit_page(code, "Mended"), code) == ""


@pytest.mark.parametrize("code", codes_with("python json", "Broken", "K"))
def test_broken_record(code: str, golden: Golden) -> None:
    golden(f"expected/{code}.txt", reported(audit_record(text_of(code, "Broken")), code))


@pytest.mark.parametrize("code", codes_with("python json", "Mended", "K"))
def test_mended_record(code: str) -> None:
    assert unwanted(audit_record(text_of(code, "Mended")), code) == ""
