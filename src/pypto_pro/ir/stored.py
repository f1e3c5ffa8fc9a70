"""A kernel as text that loses nothing: IR text, and beside it the spans and the captured constants.

`load(dump(kernel))` equals the kernel, statement spans included.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from pypto_pro.diag import Span
from pypto_pro.ir import walk
from pypto_pro.ir.nodes import Block, Kernel
from pypto_pro.ir.printer import print_kernel


class _Spans:
    """Spans as rows of numbers: file, line, column, end line, end column, label, row of `inlined_at`."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self.rows: dict[Span, int] = {}
        self.table: list[list[int]] = []

    def row(self, span: Span | None) -> int:
        """The number of a span's row, -1 for none."""
        if span is None:
            return -1
        if span not in self.rows:
            file, label = (self.texts.setdefault(text, len(self.texts)) for text in (span.file, span.label))
            outer = self.row(span.inlined_at)
            self.rows[span] = len(self.table)
            self.table.append([file, span.line, span.column, span.end_line, span.end_column, label, outer])
        return self.rows[span]


def dump(kernel: Kernel) -> str:
    """The text. TypeError for an attribute that IR text cannot hold."""
    spans = _Spans()
    places = [[spans.row(stmt.span) for stmt in walk.statements(program.body)] for program in kernel.programs]
    whole = spans.row(kernel.span)
    stored = {
        "ir": print_kernel(kernel),
        "captured": kernel.captured,
        "texts": [*spans.texts],
        "spans": spans.table,
        "kernel": whole,
        "statements": places,
    }
    return json.dumps(stored, separators=(",", ":"))


def load(text: str) -> Kernel:
    """The kernel of a text. ValueError, KeyError or SyntaxError when it is not one of `dump`."""
    from pypto_pro.ir.parser import parse_kernel  # needed in another process than `dump`

    stored = json.loads(text)
    texts: list[str] = stored["texts"]
    spans: list[Span] = []
    for file, line, column, end_line, end_column, label, outer in stored["spans"]:
        inlined = spans[outer] if outer >= 0 else None
        spans.append(Span(texts[file], line, column, end_line, end_column, texts[label], inlined))
    kernel = parse_kernel(stored["ir"])
    programs = tuple(
        dataclasses.replace(program, body=_placed(program.body, (spans[row] for row in rows)))
        for program, rows in zip(kernel.programs, stored["statements"], strict=True)
    )
    captured = tuple((name, value) for name, value in stored["captured"])
    return dataclasses.replace(kernel, programs=programs, captured=captured, span=spans[stored["kernel"]])


def _placed(block: Block, spans: Iterator[Span]) -> Block:
    """The block with the spans of its statements, in the order of `walk.statements`."""
    done = []
    for stmt in block:
        changed: dict[str, Any] = {"span": next(spans)}
        for name in walk.block_fields(walk.class_of(stmt)):
            changed[name] = _placed(getattr(stmt, name), spans)
        done.append(dataclasses.replace(stmt, **changed))
    return tuple(done)
