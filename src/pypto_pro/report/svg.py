"""A small SVG writer: shapes, text and titles with escaping, numbers rounded so that equal input gives equal files."""

from __future__ import annotations

from html import escape

FONT = "Inter, 'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', sans-serif"
MONO = "'JetBrains Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
AVERAGE_CHARACTER = 0.58  # of the font size; wide enough for the widest of the fonts above


def number(value: float) -> str:
    """At most two decimals, no trailing zeros."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def text_width(text: str, size: float) -> float:
    """Estimated width of a line of text in pixels."""
    return len(text) * size * AVERAGE_CHARACTER


class Canvas:
    """Collects elements; `render` gives the document."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def rect(
        self, x: float, y: float, width: float, height: float, fill: str, *, stroke: str = "none", radius: float = 0,
        opacity: float = 1, dash: str = "", title: str = "", stroke_width: float = 1,
    ) -> None:  # fmt: skip
        """A rectangle, with an optional tooltip."""
        attributes = (
            f'x="{number(x)}" y="{number(y)}" width="{number(max(width, 0))}" height="{number(max(height, 0))}"'
            f' fill="{fill}" stroke="{stroke}" stroke-width="{number(stroke_width)}"'
        )
        if radius:
            attributes += f' rx="{number(radius)}"'
        if opacity != 1:
            attributes += f' opacity="{number(opacity)}"'
        if dash:
            attributes += f' stroke-dasharray="{dash}"'
        self._element("rect", attributes, title)

    def line(
        self, x1: float, y1: float, x2: float, y2: float, stroke: str, *, width: float = 1, dash: str = ""
    ) -> None:
        """A straight line."""
        attributes = (
            f'x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}" stroke="{stroke}"'
            f' stroke-width="{number(width)}"'
        )
        self._element("line", attributes + (f' stroke-dasharray="{dash}"' if dash else ""))

    def path(self, d: str, *, fill: str = "none", stroke: str = "none", width: float = 1, opacity: float = 1) -> None:
        """A path given by its commands."""
        self._element(
            "path",
            f'd="{d}" fill="{fill}" stroke="{stroke}" stroke-width="{number(width)}" opacity="{number(opacity)}"',
        )

    def circle(self, x: float, y: float, radius: float, fill: str, stroke: str = "none") -> None:
        """A disc."""
        self._element(
            "circle", f'cx="{number(x)}" cy="{number(y)}" r="{number(radius)}" fill="{fill}" stroke="{stroke}"'
        )

    def text(
        self, x: float, y: float, text: str, *, size: float = 12, fill: str = "#1f2933", anchor: str = "start",
        weight: int = 400, mono: bool = False, halo: bool = False, turn: float = 0,
    ) -> None:  # fmt: skip
        """One line of text; `halo` draws a white outline so that it stays legible on anything."""
        attributes = (
            f'x="{number(x)}" y="{number(y)}" font-family="{MONO if mono else FONT}" font-size="{number(size)}"'
            f' fill="{fill}" text-anchor="{anchor}" font-weight="{weight}"'
        )
        if halo:
            attributes += ' stroke="#ffffff" stroke-width="3" stroke-linejoin="round" paint-order="stroke"'
        if turn:
            attributes += f' transform="rotate({number(turn)} {number(x)} {number(y)})"'
        self._parts.append(f"<text {attributes}>{escape(text)}</text>")

    def raw(self, text: str) -> None:
        """Something already written as SVG, such as a pattern."""
        self._parts.append(text)

    def _element(self, tag: str, attributes: str, title: str = "") -> None:
        inner = f"<title>{escape(title)}</title>" if title else ""
        self._parts.append(f"<{tag} {attributes}>{inner}</{tag}>" if inner else f"<{tag} {attributes}/>")

    def render(self, width: float, height: float, title: str) -> str:
        """The whole document on a white card."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{number(width)}" height="{number(height)}"'
            f' viewBox="0 0 {number(width)} {number(height)}" role="img">\n<title>{escape(title)}</title>\n'
            f'<rect width="100%" height="100%" rx="14" fill="#ffffff"/>\n'
        )
        return head + "\n".join(self._parts) + "\n</svg>\n"
