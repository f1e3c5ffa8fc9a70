"""Plain functions over IR, operands or traces: they return data, print nothing, raise nothing."""
