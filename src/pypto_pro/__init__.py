"""PyPTO-Pro: run and prove Ascend 950 tile kernels on any CPU."""

__version__ = "0.1.0"
