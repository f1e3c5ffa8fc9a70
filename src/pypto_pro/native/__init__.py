"""The fast executor: LLVM code for core programs and ops, run by worker threads.

`compile(kernel).run(launch)`. Importing this package loads llvmlite, so callers import it when a launch needs it.
"""

from pypto_pro.native.kernel import CompiledKernel, compile

__all__ = ["CompiledKernel", "compile"]
