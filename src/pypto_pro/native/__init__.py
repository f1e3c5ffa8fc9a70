"""The fast executor: LLVM code for core programs and ops, run by worker threads.

`kernel.compile(kernel).run(launch)` generates code, `image.load(data, ...)` loads what was generated before. Importing
this package loads nothing; `kernel` loads LLVM and the code generator, `image` only LLVM.
"""
