"""Compile-time vocabulary, queries and synchronisation: names, docs and pipes. The front end and the IR hold the rest.

Facts of synchronisation statements that depend on their arguments (the pipe of a flag) are given as None here.
"""

from __future__ import annotations

from pypto_pro.enums import PipeType
from pypto_pro.ops.entry import Section, construct

P = PipeType
BOTH, VECTOR, CUBE = Section.BOTH, Section.VECTOR, Section.CUBE

# --- tiles, tensors, pointers ----------------------------------------------------------------------------------------

construct("pl.make_tile", family="resource", node="TileDecl",
          doc="A tile of a TileType at a fixed address: make_tile(tile_type, *, addr, size=None).")
construct("pl.make_tile_group", family="resource", node="GroupDecl",
          doc="N tiles behind a rotating cursor: make_tile_group(*, type, addrs, mutex_ids=None, depth=None, "
              "fwd_ids=None, bwd_ids=None); .next(), .current(), .previous(), [i].")
construct("pl.set_validshape", family="tile.meta", node="SetValid", pipe=P.S,
          doc="What of a tile (or of every slot of a group) is computed and moved: set_validshape(tile, [rows, cols]).")
construct("pl.make_tensor", family="ptr", node="TensorDecl", pipe=P.S,
          doc="A view of global memory: make_tensor(ptr_or_tensor, shape, stride=None, dtype=None).")
construct("pl.set_stride", family="tensor.meta", node="SetStride", pipe=P.S,
          doc="Transfer strides of a tensor variable in elements: set_stride(tensor, [tile_row, tile_column]).")
construct("pl.make_ptr", family="ptr", node="PtrOf", pipe=P.S,
          doc="The address of a tensor or pointer with another pointee: make_ptr(ptr_or_tensor, dtype=None).")
construct("pl.addptr", family="ptr", node="PtrPlus", pipe=P.S,
          doc="A pointer moved by elements: addptr(ptr, offset), also written ptr + offset.")

# --- scalars and aggregates ------------------------------------------------------------------------------------------

construct("pl.const", family="util.scalar", node="Const", doc="A typed constant: const(literal, dtype).")
construct("pl.min", family="util.scalar", node="Binary", pipe=P.S, doc="The smaller of two scalars: min(a, b).")
construct("pl.max", family="util.scalar", node="Binary", pipe=P.S, doc="The larger of two scalars: max(a, b).")
construct("pl.constexpr", family="util.scalar",
          doc="Asserts that the condition of an `if` or a ternary is known at compile time: constexpr(cond).")
construct("pl.make_tuple", family="util.tuple",
          doc="A compile-time named tuple: make_tuple(field=value, ...).")
construct("pl.struct", family="util.struct", node="StructDecl", pipe=P.S,
          doc='A mutable record of scalars: struct("Name", field=init, ...).')
construct("pl.struct_array", family="util.struct", node="StructDecl", pipe=P.S,
          doc='N independent records: struct_array(N, "Name", field=init, ...).')

# --- control flow ----------------------------------------------------------------------------------------------------

construct("pl.range", family="control", node="For", doc="The only iterator of `for`: range([start,] stop[, step]).")
construct("pl.section_cube", family="control", section=CUBE, doc="`with pl.section_cube():` code of the cube core.")
construct("pl.section_vector", family="control", section=VECTOR,
          doc="`with pl.section_vector():` code of the vector core.")

# --- queries ---------------------------------------------------------------------------------------------------------

for _name, _doc in {
    "get_block_idx": "This core's index in the launch, INT32; in mixed kernels block * 2 + sub-block on vector cores.",
    "get_block_num": "The number of blocks of the launch, INT32.",
    "get_subblock_idx": "Which vector core of the block this is (0 or 1), INT32; 0 on the cube core.",
    "get_subblock_num": "Vector cores of a block, INT32: 2 in vector code of mixed kernels, else 1.",
}.items():
    construct(f"pl.{_name}", family="util.query", node="Query", kind="query", pipe=P.S, doc=_doc)
construct("pl.get_spr", family="util.query", node="Query", kind="query", pipe=P.S, section=VECTOR,
          doc="The AR register, INT64: bytes kept by the last squeeze(STORE_REG).")

# --- debug -----------------------------------------------------------------------------------------------------------

construct("pl.printf", family="util.debug", node="Debug", pipe=P.S,
          doc="Prints from the device: printf(format, *args, loc=False); conversions d i u x f p.")
construct("pl.pto_assert", family="util.debug", node="Debug", pipe=P.S,
          doc="Prints when the condition is false and goes on: pto_assert(cond, format=None, *args, loc=False).")
construct("pl.trap", family="util.debug", node="Debug", pipe=P.S, doc="This core issues nothing further: trap().")
construct("pl.dump_data", family="util.debug", node="Debug", pipe=P.V,
          doc="Prints a tensor or tile: dump_data(data, offsets=None, shapes=None, *, workspace=None, loc=False, "
              "flag=None).")

# --- synchronisation -------------------------------------------------------------------------------------------------

construct("pl.system.sync_src", family="sync.flag", node="SetFlag",
          doc="Sets a flag when everything before it on set_pipe is done: sync_src(*, set_pipe, wait_pipe, event_id).")
construct("pl.system.sync_dst", family="sync.flag", node="WaitFlag",
          doc="wait_pipe waits for the flag and clears it: sync_dst(*, set_pipe, wait_pipe, event_id).")
for _name, _pipe, _section in (
    ("m", P.M, CUBE), ("mte1", P.MTE1, CUBE), ("mte2", P.MTE2, BOTH), ("mte3", P.MTE3, BOTH), ("fix", P.FIX, CUBE),
):  # fmt: skip
    construct(f"pl.system.bar_{_name}", family="sync.barrier", node="Barrier", pipe=_pipe, section=_section,
              doc=f"What follows on {_pipe.name} starts when everything before it on {_pipe.name} is done.")
construct("pl.system.bar_all", family="sync.barrier", node="Barrier", pipe=P.ALL,
          doc="What follows on this core starts when everything before it on any pipe is done.")
construct("pl.system.mutex_lock", family="sync.mutex", node="Lock", aliases=("pl.mutex.mutex_lock",),
          doc="Takes a mutex, in issue order: mutex_lock(*, pipe, mutex_id, mode=0, max_mutex_id=2, mutex_ids=None).")
construct("pl.system.mutex_unlock", family="sync.mutex", node="Unlock", aliases=("pl.mutex.mutex_unlock",),
          doc="Gives a mutex back on the pipe that took it; arguments as mutex_lock.")
construct("pl.system.set_cross_core", family="sync.cross", node="SetCross",
          doc="Signals other cores when everything before it on the pipe is done: set_cross_core(*, pipe, event_id, "
              "sync_mode=INTRA_BLOCK).")
construct("pl.system.wait_cross_core", family="sync.cross", node="WaitCross",
          doc="The pipe waits for a signal of other cores: wait_cross_core(*, pipe, event_id, sync_mode=INTRA_BLOCK).")
construct("pl.system.sync_all", family="sync.cross", node="SyncAll", pipe=P.S,
          doc="A rendezvous of all cores of the launch: sync_all(workspaces=None, *, core_type=MIX, mode=HARD).")

# --- threads ---------------------------------------------------------------------------------------------------------

construct("pl.simt.launch", family="simt.launch", node="SimtLaunch", pipe=P.V, section=VECTOR,
          doc="Runs a SIMT function once a thread: simt.launch(entry, *, threads, args).")
for _name, _doc in {
    "thread_idx": "Coordinates (x, y, z) of this thread in its block.",
    "block_dim": "Extents (x, y, z) of the thread block.",
    "block_idx": "Coordinates of this core in the launch; x equals pl.get_block_idx().",
    "grid_dim": "Extents of the launch in cores.",
    "linear_thread_idx": "x + y * block_dim.x + z * block_dim.x * block_dim.y of this thread.",
    "warp_size": "Threads of a warp: 32.",
}.items():
    construct(f"pl.simt.{_name}", family="simt.query", node="Query", kind="query", pipe=P.S, section=VECTOR,
              doc=f"{_doc} UINT32, inside SIMT functions.")
