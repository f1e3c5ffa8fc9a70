"""`pypto-pro doctor`: what this installation consists of, and whether its settings make sense."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from pypto_pro import __version__, diskcache
from pypto_pro.cli.tables import print_table
from pypto_pro.diag.names import nearest
from pypto_pro.runtime import options

NEEDED = ("numpy", "ml_dtypes", "llvmlite", "rich", "click")
OPTIONAL = {"torch": "tensors and device scripts", "ortools": "exact layout plans"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """Show versions, CPU features, the cache and all settings of this installation.

    Exit status 1 when something would stop or slow down a launch: a missing package, a setting that is not valid, a
    cache that cannot be written.
    """
    facts = collect()
    if as_json:
        click.echo(json.dumps(facts, indent=1))
    else:
        _print(facts)
    sys.exit(1 if facts["problems"] else 0)


def collect() -> dict[str, Any]:
    """All facts as plain data; `problems` is empty on a sound installation."""
    facts: dict[str, Any] = {
        "version": __version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()}, {platform.machine()})",
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in NEEDED},
        "optional": {name: _version(name) for name in OPTIONAL},
        "settings": [_setting(setting) for setting in options.TABLE],
    }
    facts["problems"] = [f"{name} is not installed" for name, found in facts["packages"].items() if found is None]
    if not facts["problems"]:
        facts |= {"cpu": _cpu(), "blas": _blas(), "cache": _cache()}
        if not facts["cache"]["writable"]:
            facts["problems"].append(f"{facts['cache']['path']} cannot be written: every process compiles anew")
    facts["problems"] += [text for entry in facts["settings"] if (text := entry["problem"])]
    facts["problems"] += _unknown_variables()
    return facts


def _version(name: str) -> str | None:
    """The installed version, without importing the package."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu() -> dict[str, Any]:
    import llvmlite.binding as llvm

    from pypto_pro.native.engine import host

    seen = host()
    features = sorted(name for name, on in llvm.get_host_cpu_features().items() if on)
    return {
        "name": seen.name,
        "arch": seen.arch,
        "processors": os.cpu_count(),
        "fp32_lanes": seen.fp32_lanes,
        "half_conversion": seen.has_half_conversion,
        "fma": seen.has_fma,
        "features": features,
        "llvm": ".".join(str(part) for part in llvm.llvm_version_info),
    }


def _blas() -> dict[str, str]:
    """The BLAS numpy was built with: matrix products of the simulator call it (native code brings its own)."""
    import numpy as np

    built = dict(np.show_config(mode="dicts")["Build Dependencies"]["blas"])
    return {key: str(built.get(key, "unknown")) for key in ("name", "version", "openblas configuration")}


def _cache() -> dict[str, Any]:
    path, found = diskcache.directory(), [*diskcache.entries()]
    size = sum(entry.size_bytes for entry in found)
    return {"path": str(path), "writable": _writable(path), "entries": len(found), "bytes": size}


def _writable(path: Path) -> bool:
    """Whether a file can be made in the directory, or in the nearest one above that exists."""
    while not path.exists():
        path = path.parent
    try:
        with tempfile.TemporaryFile(dir=path):
            return True
    except OSError:
        return False


def _setting(setting: options.Setting) -> dict[str, Any]:
    text = os.environ.get(setting.variable)
    problem = None
    if text:
        try:
            setting.read(text)
        except (ValueError, TypeError):
            problem = f"{setting.variable} is {text!r}; valid are {setting.valid}"
    return {
        "variable": setting.variable,
        "value": text,
        "valid": setting.valid,
        "what it does": setting.doc,
        "problem": problem,
    }


def _unknown_variables() -> list[str]:
    """Variables that look like settings and are none: most likely a typo."""
    known = [setting.variable for setting in options.TABLE]
    unknown = [name for name in os.environ if name.startswith("PYPTO_PRO_") and name not in known]
    return [f"{name} is no setting" + (f"; did you mean {near}?" if (near := nearest(name, known)) else "")
            for name in sorted(unknown)]  # fmt: skip


def _print(facts: dict[str, Any]) -> None:
    rows = [("pypto-pro", facts["version"]), ("python", facts["python"]), ("platform", facts["platform"])]
    rows += [(name, found or "not installed") for name, found in facts["packages"].items()]
    rows += [(name, found or f"not installed; only for {OPTIONAL[name]}") for name, found in facts["optional"].items()]
    if "cpu" in facts:
        cpu, blas, cache = facts["cpu"], facts["blas"], facts["cache"]
        rows += [
            ("llvm", cpu["llvm"]),
            ("cpu", f"{cpu['name']} ({cpu['arch']}), {cpu['processors']} processors, {cpu['fp32_lanes']} FP32 lanes"),
            ("half conversion", "in hardware" if cpu["half_conversion"] else "by integer code"),
            ("cpu features", " ".join(cpu["features"])),
            ("blas", f"{blas['name']} {blas['version']}"),
            ("cache", f"{cache['path']} (entries: {cache['entries']}, {cache['bytes'] / diskcache.MEGABYTE:.1f} MB)"),
        ]
    print_table(("installation", ""), rows, wrap=True)
    click.echo()
    print_table(
        ("setting", "value", "valid", "what it does"),
        [(s["variable"], s["value"] or "", s["valid"], s["what it does"]) for s in facts["settings"]],
        wrap=True,
    )
    click.echo()
    for problem in facts["problems"]:
        click.echo(f"problem: {problem}")
    if not facts["problems"]:
        click.echo("no problems found")
