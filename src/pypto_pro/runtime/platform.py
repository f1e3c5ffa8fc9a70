"""`get_platform_info`: what a host program asks about the device; without one, the A5 this package models."""

from __future__ import annotations

import os
from dataclasses import dataclass

from pypto_pro.hw.a5 import A5

ARCH_OF_SOC = {"DAV_3510": "a5", "DAV_2201": "a3", "DAV_1001": "a3"}
ARCH_VARIABLES = ("PYPTOPRO_JIT_ARCH", "PYPTOPRO_NPU_ARCH")
"""Environment variables of the device tool chain: the product asked for, and the one a compile chose."""


@dataclass
class PlatformInfo:
    """Core counts of the machine. `core_num` limits the blocks of cube and mixed kernels, `vector_core_num` others."""

    soc_version: str = ""
    core_num: int = 0
    cube_core_num: int = 0
    vector_core_num: int = 0

    @property
    def arch(self) -> str:
        """`a5` for DAV_3510, `a3` for everything else that has a name, empty without a platform."""
        return ARCH_OF_SOC.get(self.soc_version, "a3") if self.soc_version else ""


_info: PlatformInfo | None = None


def get_platform_info(force_refresh: bool = False) -> PlatformInfo:
    """The platform, read once; `force_refresh` makes a new record. Never raises."""
    global _info
    if _info is None or force_refresh:
        _info = PlatformInfo(A5.soc_version, A5.aic_count, A5.aic_count, A5.aiv_count)
    return _info


def resolve_arch(option: str | None) -> str:
    """The product to compile for: the jit option, else the environment, else `a5`. Case and blanks do not count.

    Writes the choice back to the environment, as the device tool chain does. ValueError for names that are no product
    and for products other than A5, which this package does not model.
    """
    asked = "auto" if option is None else option.strip().lower()
    if asked == "auto":
        asked = os.environ.get(ARCH_VARIABLES[0], "").strip().lower() or A5.arch
    if asked in ("a2", "a3"):
        raise ValueError(f"arch `{asked}` is not supported here: this package models the Ascend 950, arch `a5`")
    if asked != A5.arch:
        raise ValueError(f"unknown arch `{option or asked}`; valid are `auto`, `a5` (and on other products `a2`, `a3`)")
    if os.environ.get(ARCH_VARIABLES[0]) != asked:
        os.environ.update(dict(zip(ARCH_VARIABLES, (asked, "dav-c310"), strict=True)))
    return asked
