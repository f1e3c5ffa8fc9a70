"""What to write instead of what other libraries, Python or a misremembered name suggest; the front end's help texts."""

from __future__ import annotations

from pypto_pro.diag.names import did_you_mean
from pypto_pro.frontend.values import GroupValue, TupleValue, Value, is_register, is_scalar, is_tensor, is_tile

_PRINT = 'pl.printf("%d\\n", value) prints a scalar from the device, pl.dump_data(t) a tile or tensor'

BUILTINS = {
    "print": _PRINT,
    "len": "the extents of a tensor are `t.shape[k]`, the valid extents of a tile `t.valid_shape[k]`",
    "abs": "write `x if x >= 0 else -x` for a scalar, pl.abs(out, t) for a tile",
    "sum": "add scalars in a loop; pl.sum reduces a tile",
    "int": "a scalar is converted where it is stored; `a // b` divides integers",
    "float": "an integer becomes FP32 in arithmetic with a float: `n * 1.0`",
    "bool": "write `x != 0`",
    "range": "a loop is `for i in pl.range(...)`",
    "pow": "multiply; there is no run-time power",
    "divmod": "write `a // b` and `a % b`",
}
"""Functions of Python, on run-time values."""

OPERATIONS = {
    "print": _PRINT,
    "reshape": "make a second tile with the other TileType at the same address: the bytes are shared",
    "zeros": "pl.expands(t, 0) fills a tile",
    "barrier": "pl.system.bar_all() waits for all pipes of the core, bar_mte2(), bar_mte3(), ... for one",
    "system.bar_v": "V runs its operations one after the other and needs no barrier",
    "system.bar_s": "S runs its operations one after the other and needs no barrier",
    "Vf": "import the class as `vf`: from pypto_pro.language import Vf as vf",
}
"""Operations the language does not have."""

OBJECTS = {
    "TileType": "make the TileType in the kernel or in a helper: the device takes none from outside",
    "str": "write the text where it is used, or bind it to a name in the kernel",
    "ndarray": "pass arrays as kernel arguments",
    "Tensor": "pass tensors as kernel arguments",
    "NoneType": "None is no value of a kernel; `p is None` asks whether a pl.Ptr is null",
    "type": "a class is no value of a kernel; dtypes are written pl.DT_...",
    "dict": "read single entries: `cfg['k']`",
}
"""Python objects that are no values, by class."""
OTHER_OBJECTS = "a kernel takes numbers, enum members, dtypes, lists, tuples; `cfg.x` and `cfg['k']` reach such parts"

OF_PYTHON = "functions of Python run while the kernel is read, on constants only; a helper is called by its bare name"
HELPER = "a helper is a function defined by `def`, called by its bare name"

_DEVICE_WORDS = {"ub": "Vec", "l1": "Mat", "l0a": "Left", "l0b": "Right", "l0c": "Acc", "bt": "Bias", "fb": "Scaling"}
_EXTENTS = frozenset({"size", "dim", "ndim", "numel", "len", "stride", "shape"})
_MUTABLE = frozenset({"append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "update"})
GROUP_METHODS = ("next", "current", "previous")


def of_foreign(owner: object) -> str:
    """Help for a call of something that belongs to a Python object."""
    is_registers = isinstance(owner, type) and owner.__name__ == "Vf"
    return OPERATIONS["Vf"] if is_registers else OF_PYTHON


def of_object(value: object) -> str:
    """Help for a Python object that is no value."""
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return "numpy's numbers are no constants; write int(...) or float(...) where it is made"
    return OBJECTS.get(type(value).__name__, OTHER_OBJECTS)


def of_member(owner: Value, name: str) -> str | None:
    """Help for a method or attribute that a value does not have."""
    if is_tensor(owner) and name in _EXTENTS:
        return "the extents of a tensor are `t.shape[k]`"
    if is_tile(owner) and name in _EXTENTS:
        return "the current valid extents of a tile are `t.valid_shape[k]`"
    if is_tensor(owner) or is_tile(owner):
        return "work on tiles with operations: pl.load, pl.add, pl.store, ...; `t[i, j]` is one element"
    if isinstance(owner, TupleValue) and name in _MUTABLE:
        return "lists and tuples cannot change in a kernel; use a pl.struct with an array field"
    if isinstance(owner, GroupValue):
        if name in GROUP_METHODS:
            return f"call it: `.{name}()`"
        return did_you_mean(name, GROUP_METHODS) or "a slot is taken by .next(), .current(), .previous() or [i]"
    if is_scalar(owner) and name == "item":
        return "a scalar is a number already"
    return None


def of_operator(side: Value) -> str | None:
    """Help for arithmetic or a comparison with something that is no scalar."""
    if is_register(side):
        return "registers have operations: vf.add(a, b, mask), vf.adds(a, scalar, mask), vf.lt(a, b, mask), ..."
    if is_tensor(side) or is_tile(side):
        return "`t[i, j]` is one element; tiles have operations: pl.add(out, a, b), pl.lt(out, a, b), ..."
    return None


def of_enum(kind: type, found: object) -> str | None:
    """Help for a text or a wrong name where a member of an enum class (not a dtype) is wanted."""
    members: dict[str, object] = dict(kind.__members__)  # type: ignore[attr-defined]
    if isinstance(found, str):
        word = _DEVICE_WORDS.get(found.casefold())
        tails = {name.rsplit("_", 1)[-1].casefold(): name for name in members}
        near = word if word in members else tails.get(found.casefold())
        near = near or next((name for name in members if name.casefold() == found.casefold()), None)
        if near is not None:
            return f"write `pl.{kind.__name__}.{near}`"
    return f"members are {', '.join(members)}" if len(members) <= 12 else None
