"""The automatic inter-core pipeline: a kernel of stages rewritten, as syntax, into one whose cores overlap.

`parse.py` reads the kernel once as it stands (`probe` listens), `transform.rewrite` makes the new syntax tree, and that
one is read like any kernel. The steps: `prune` -> `structure` (loop and stages) -> `schedule` (delays) -> `buffers` and
`accesses` (who touches which channel on which pipe) -> `graph` (who waits for whom) -> `events` (ids) -> `contexts`
(what a delayed stage receives) -> `emit_full` or `emit_serial`.
"""
