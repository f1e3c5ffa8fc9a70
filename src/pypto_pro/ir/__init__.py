"""The typed, structured IR both executors and all analyses share. `nodes.py` is the whole of it."""
