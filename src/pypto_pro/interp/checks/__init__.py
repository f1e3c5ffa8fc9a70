"""The checks: an observer that follows a launch and says what is wrong with it."""

from pypto_pro.interp.checks.observer import Checker

__all__ = ["Checker"]
