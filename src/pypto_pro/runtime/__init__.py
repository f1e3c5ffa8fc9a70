"""From a decorated function and its arguments to a run: jit, binding, specialisation, tiling, options, launch."""
