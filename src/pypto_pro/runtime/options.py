"""The settings of a launch: one table, an environment variable each, and the `options(...)` context manager.

Order of precedence: the innermost `options(...)`, then the environment, then the default. `options` holds for the
current thread (and asyncio task); threads started inside it begin with the environment again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from typing import Any

from pypto_pro.diag.errors import ArgumentError, ArgumentKindError
from pypto_pro.diag.names import did_you_mean
from pypto_pro.diskcache import DEFAULT_MB

EXECUTORS = ("native", "interp")
SCHEDULES = ("in_order", "latest", "random")


@dataclass(frozen=True, slots=True)
class Options:
    """What a launch does. `check` and a schedule other than the default are only known to interp."""

    executor: str = "native"
    check: bool = False
    schedule: str = "in_order"
    seed: int = 0
    schedules: int = 1
    cache_dir: str | None = None
    cache_mb: int = DEFAULT_MB
    threads: int | None = None
    keep: str | None = None
    verify: bool = False
    compile_timeout: float = 600.0

    @property
    def interpreted(self) -> bool:
        """Whether a launch runs on interp: by choice, or because checks need it."""
        return self.check or self.executor == "interp"


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table: how a text is read, what is valid in words, what it does."""

    name: str
    valid: str
    doc: str
    read: Callable[[Any], Any]
    """The value for a Python value or an environment text; ValueError when it is not valid."""
    in_code: bool = True
    """Whether `options(...)` takes it; the others hold for a whole process."""

    @property
    def variable(self) -> str:
        """The environment variable."""
        return f"PYPTO_PRO_{self.name.upper()}"


def _choice(names: tuple[str, ...]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in names:
            raise ValueError(value)
        return str(value)

    return read


def _flag(value: Any) -> bool:
    if value in (True, "1"):
        return True
    if value in (False, "0"):
        return False
    raise ValueError(value)


def _integer(least: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int | str) or int(value) < least:
            raise ValueError(value)
        return int(value)

    return read


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str) or not 0 < float(value) < float("inf"):
        raise ValueError(value)
    return float(value)


def _optional(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value in (None, "") else read(value)


def _path(value: Any) -> str:
    return os.fspath(value)  # type: ignore[no-any-return]


TABLE = (
    Setting("executor", "native, interp", "what runs a launch: compiled code, or the simulator", _choice(EXECUTORS)),
    Setting("check", "0, 1", "run every launch under all checks; errors raise CheckError", _flag),
    Setting("schedule", "in_order, latest, random", "which runnable instruction interp runs next", _choice(SCHEDULES)),
    Setting("seed", "an int >= 0", "seed of schedule `random`", _integer(0)),
    Setting("schedules", "an int >= 1", "how many seeds a check tries, from `seed` upwards", _integer(1)),
    Setting("cache_dir", "a directory", "where compiled code is kept between processes", _optional(_path), False),
    Setting("cache_mb", "an int >= 0", "megabytes the cache may take; what was used last stays", _integer(0), False),
    Setting("threads", "an int >= 1", "worker threads of native; default: one a processor", _optional(_integer(1))),
    Setting("keep", "a directory", "where IR and generated code of each compile are written", _optional(_path)),
    Setting("compile_timeout", "seconds > 0", "how long one compile may take; the option of jit goes first", _seconds),
    Setting("verify", "0, 1", "run the IR verifier after every compiler pass", _flag, False),
)
SETTINGS = {setting.name: setting for setting in TABLE}
_VARIABLES = tuple((setting.variable, setting.name) for setting in TABLE)
_DEFAULTS = Options()
assert set(SETTINGS) == {field.name for field in fields(Options)}

_changes: ContextVar[tuple[tuple[str, Any], ...]] = ContextVar("pypto_pro_options", default=())
_seen: tuple[tuple[Any, ...], tuple[tuple[str, Any], ...], Options] | None = None


# os.environ decodes on every look-up, which would be a fifth of a warm launch; what lies below it shows changes as well
_RAW: Any = getattr(os.environ, "_data", None) or os.environ
_RAW_KEYS = [v if _RAW is os.environ else os.environ.encodekey(v) for v, _ in _VARIABLES]


def current() -> Options:
    """The settings in force here. ArgumentError for an environment value that is not valid."""
    global _seen
    texts = tuple(map(_RAW.get, _RAW_KEYS))
    changes = _changes.get()
    seen = _seen
    if seen is not None and seen[0] == texts and seen[1] is changes:
        return seen[2]
    made = replace(from_environment(), **dict(changes))
    _seen = (texts, changes, made)
    return made


def from_environment() -> Options:
    """The defaults as the environment changes them. ArgumentError for a value that is not valid."""
    values = {}
    for variable, name in _VARIABLES:
        text = os.environ.get(variable)
        if text is not None and text != "":
            values[name] = _read(SETTINGS[name], text, variable)
    return replace(_DEFAULTS, **values)


@contextmanager
def options(**changes: Any) -> Iterator[Options]:
    """Change settings for the launches inside the `with`: `with pypto_pro.options(executor="interp"): ...`.

    ArgumentKindError (a TypeError) for an unknown name, ArgumentError (a ValueError) for a value that is not valid.
    """
    names = [setting.name for setting in TABLE if setting.in_code]
    for name in changes:
        if name not in names:
            hint = did_you_mean(name, names)
            if name in SETTINGS:
                hint = f"set the environment variable {SETTINGS[name].variable}"
            raise ArgumentKindError(f"options() has no setting `{name}`; there are {', '.join(names)}", hint=hint)
    values = {name: _read(SETTINGS[name], value, name) for name, value in changes.items()}
    token = _changes.set(tuple({**dict(_changes.get()), **values}.items()))
    try:
        yield current()
    finally:
        _changes.reset(token)


def _read(setting: Setting, value: Any, shown: str) -> Any:
    try:
        return setting.read(value)
    except (ValueError, TypeError):
        hint = did_you_mean(str(value), setting.valid.split(", "))
        raise ArgumentError(f"{shown} is {value!r}; valid are {setting.valid}", hint=hint) from None
