"""YAML and JSON text as plain data that remembers where each mapping and each value stands."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

from pypto_pro.diag import Span
from pypto_pro.diag.errors import DiagnosticError


class PlanFileError(DiagnosticError, ValueError):
    """A plan file that cannot be read, or a field of it that makes no sense."""

    default_code = "L001"


class Located(dict[str, Any]):
    """A mapping of the file: `span` is its own place, `spans[key]` that of the value of a key (empty for JSON)."""

    span: Span | None = None

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.spans: dict[str, Span] = {}


def parse(text: str, file: str) -> Any:
    """The data of a plan file; JSON by suffix, YAML otherwise (needs pyyaml). PlanFileError where it is malformed."""
    if file.endswith(".json"):
        try:
            return json.loads(text, object_hook=Located)
        except json.JSONDecodeError as error:
            where = _at(text, file, error.lineno, error.colno - 1)
            raise PlanFileError(f"the plan is not JSON: {error.msg}", where) from None
    return _parse_yaml(text, file)


def _at(text: str, file: str, line: int, column: int) -> Span:
    """A place a parser names; what it misses at the end of the text may be on a line that does not exist."""
    return Span(file, min(line, max(1, len(text.splitlines()))), column)


def _parse_yaml(text: str, file: str) -> Any:
    try:
        yaml: Any = import_module("yaml")  # an optional dependency, wanted only here
    except ImportError:
        hint = "pip install pypto-pro[plan], or write the plan as JSON"
        raise PlanFileError("a YAML plan needs the package pyyaml", Span(file, 1), hint=hint) from None

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # Any
        """SafeLoader whose mappings are `Located`."""

    def place(node: Any) -> Span:
        start, end = node.start_mark, node.end_mark
        return Span(file, start.line + 1, start.column, end.line + 1, end.column)

    def mapping(loader: Any, node: Any) -> Any:
        found = Located()
        found.span = place(node)
        yield found
        loader.flatten_mapping(node)
        for key, value in node.value:
            name = str(loader.construct_object(key))
            found[name] = loader.construct_object(value, deep=True)
            found.spans[name] = place(value)

    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    try:
        return yaml.load(text, Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = _at(text, file, mark.line + 1, mark.column) if mark is not None else Span(file, 1)
        raise PlanFileError(f"the plan is not YAML: {error.problem}", where) from None
    except yaml.YAMLError as error:
        raise PlanFileError(f"the plan is not YAML: {error}", Span(file, 1)) from None
