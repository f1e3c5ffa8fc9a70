"""The definition executor: a discrete-event simulator of the machine, and what the checks watch."""

from pypto_pro.interp.observer import Observer
from pypto_pro.interp.result import Blocked, RunResult, Spinning
from pypto_pro.interp.run import SCHEDULES, run

__all__ = ["SCHEDULES", "Blocked", "Observer", "RunResult", "Spinning", "run"]
