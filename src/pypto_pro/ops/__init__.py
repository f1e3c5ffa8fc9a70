"""The op table: one entry an op, one file a family. `entry.py` is the form; `table.py` collects the families."""
