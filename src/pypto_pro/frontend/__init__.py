"""Front end: a kernel's source text -> typed IR, one program per core kind."""
