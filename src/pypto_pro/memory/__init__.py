"""On-chip layout: the address table, its rules and proofs, and a planner whose answers a validator checks."""
