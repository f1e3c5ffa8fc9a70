"""The A5 as data: memory spaces, pipes, cores, banks."""
