"""The A5 as data: memory spaces, pipes, cores, banks and the ranges of synchronisation ids."""

from pypto_pro.hw.a5 import A5, SPACES, Machine, Space

__all__ = ["A5", "SPACES", "Machine", "Space"]
