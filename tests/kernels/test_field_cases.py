"""The mistakes of `field_cases`: what the report must say about each, and that the mended twins are clean."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import field_cases
import numpy as np
import pytest
from field_cases import CASES, Case

import pypto_pro
from pypto_pro import Finding
from pypto_pro.runtime.checking import Report

LINES = {
    mark: number
    for number, line in enumerate(Path(field_cases.__file__).read_text(encoding="utf-8").splitlines(), 1)
    for mark in re.findall(r"# <- (\w+)", line)
}
CLEAN = (
    "two_tokens", "with_credits", "pick_ordered", "war_ordered", "apart", "thick", "tails_widened", "count_flushed",
    "short_m_compact",
)  # fmt: skip


def check(name: str, schedule: str = "in_order") -> tuple[Report, list[np.ndarray]]:
    case: Case = CASES[name]
    arguments = case.arguments()
    with pypto_pro.options(schedule=schedule):
        return pypto_pro.check(case.kernel[None, case.blocks], *arguments), arguments


def only(report: Report, kind: str) -> Finding:
    """The one finding that is no note; it is of that kind."""
    serious = [f for f in report.findings if str(f.severity) != "note"]
    assert [f.kind for f in serious] == [kind], str(report)
    return serious[0]


def note(report: Report, kind: str) -> Finding:
    assert report.clean, str(report)
    return next(f for f in report.findings if f.kind == kind)


def places(finding: Finding) -> set[int]:
    return {span.line for span in finding.spans}


def at(*marks: str) -> set[int]:
    return {LINES[mark] for mark in marks}


@pytest.mark.parametrize("name", CLEAN)
@pytest.mark.parametrize("schedule", ["in_order", "latest", "random"])
def test_mended(name: str, schedule: str) -> None:
    report, _ = check(name, schedule)
    assert report.clean, str(report)


def test_one_token_two_takers() -> None:
    found = only(check("one_token")[0], "deadlock")
    assert places(found) == at("A1", "B1")
    assert "MTE2 of AIV1 waits for cross-core counter 3 of AIV1" in found.message
    assert "no set in this launch reaches it" in found.message
    assert any("UNICAST id 3: it reaches AIV0 only" in n for n in found.notes)
    assert "INTRA_BLOCK" in (found.help or "")
    assert "19" in (found.help or "")


@pytest.mark.parametrize("schedule", ["in_order", "latest", "random"])
def test_a_producer_without_credits(schedule: str) -> None:
    found = only(check("runaway", schedule)[0], "counter_overflow")
    assert str(found.severity) == "warning"
    assert found.spans[0].line == LINES["A2"]
    assert "up to 24 credits" in found.message


def test_more_sets_than_waits() -> None:
    report, _ = check("runaway_26")
    left = next(f for f in report.findings if f.kind == "leftover_flag")
    assert "counter 0 of AIV0 ends at 2" in left.message


@pytest.mark.parametrize("schedule", ["in_order", "latest", "random"])
def test_a_scalar_reads_too_early(schedule: str) -> None:
    found = only(check("pick", schedule)[0], "race")
    assert places(found) == at("A3", "B3")
    assert set(found.pipes) == {"MTE2", "S"}
    assert "set_pipe=MTE2, wait_pipe=S" in (found.help or "")


def test_what_follows_from_the_early_read_is_no_second_error() -> None:
    found = only(check("pick", "latest")[0], "race")
    assert any(f"line {LINES['C3']}" in text and "past the end" in text for text in found.consequences)


def test_overwritten_while_it_is_stored() -> None:
    found = only(check("war")[0], "race")
    assert places(found) == at("A4", "B4")
    assert found.message == "`exp` of i=1 writes `b` while `store` of i=0 may still be reading it"
    assert found.count == 7
    assert "0x800..0x1000" in found.notes[0]
    assert "set_pipe=MTE3, wait_pipe=V" in (found.help or "")


def test_slots_of_two_sizes() -> None:
    found = only(check("straddle")[0], "address_overlap")
    assert places(found) >= at("A5", "B5")
    assert "overlap in [4096,6144) and share no mutex id" in found.message
    assert any("may still be" in text for text in found.consequences)


@pytest.mark.parametrize(
    ("name", "mark", "text"),
    [
        ("thin_slice", "A6", "starts 4 B into a 32 B block"),
        ("thin_rows", "B6", "16 B, not a multiple of 32 B; declare [8, 8] and valid_shape [8, 4]"),
    ],
)
def test_rows_off_their_blocks(name: str, mark: str, text: str) -> None:
    found = only(check(name)[0], "value")
    assert found.spans[0].line == LINES[mark]
    assert text in found.message


def test_a_left_over_valid_shape() -> None:
    found = only(check("tails")[0], "unwritten_output")
    assert places(found) == at("A7", "B7")
    assert "192 elements of `y`" in found.message
    labels = " ".join(span.label for span in found.spans)
    assert "set here in r=0, c=128" in labels
    assert "valid shape (1, 32)" in labels


def test_a_scalar_store_in_the_cache() -> None:
    report, (_, y) = check("count")
    found = only(report, "coherence")
    assert places(found) == at("A8", "B8")
    assert "none after the write, none before the read" in found.message
    assert (y[:5] == 1).sum() < 5 * 64 or not report.clean


def test_a_short_m() -> None:
    report, _ = check("short_m")
    found = [f for f in report.findings if f.kind == "stride_mismatch"]
    product = next(f for f in found if places(f) == at("A9", "B9"))
    assert "with a row pitch of 64" in product.message
    assert "wrote it with 16" in product.message
    assert "compact=1" in (product.help or "")
    assert all(f.kind == "stride_mismatch" for f in report.findings if str(f.severity) != "note")


def test_ties_away_from_zero() -> None:
    report, (_, y) = check("to_bf16")
    found = note(report, "tie_rounding")
    assert found.spans[0].line == LINES["A10"]
    assert found.message.startswith("64 of 64 elements are exact ties")
    assert (y == 1.0078125).all()


def test_where_nan_is_born_and_hidden() -> None:
    found = note(check("masked")[0], "nan_born")
    assert found.spans[0].line == LINES["A11"]
    assert "64 NaN in row 3" in found.message
    assert any(f"line {LINES['B11']}: `cast` turns 64 NaN into 0" in text for text in found.consequences)


@pytest.fixture
def block_of_16() -> Iterator[None]:
    x, y = np.ones((16, 64), np.float32), np.zeros((16, 64), np.float32)
    with pypto_pro.options(executor="interp"):
        field_cases.blk[None, 1](x, y)
    field_cases.BLOCK = 16
    yield
    field_cases.BLOCK = 8


@pytest.mark.usefixtures("block_of_16")
def test_a_constant_changed_later() -> None:
    report, (_, y) = check("blk")
    assert not y[8:].any()
    assert "global `BLOCK` is 16 now, this variant was compiled with 8" in note(report, "stale_capture").message
    assert report.clean


def test_a_mistake_in_a_helper() -> None:
    found = only(check("deep")[0], "value")
    assert found.spans[0].line == LINES["A14"]
    assert [site.line for site in found.calls] == [LINES["B14"]]


def test_an_option_that_does_nothing() -> None:
    found = note(check("deep_unlocked")[0], "no_lock")
    assert found.spans[0].line == LINES["C14"]
    assert "no lock was inserted" in found.message
    assert "carries mutex ids" in found.message
