"""The vocabulary authors import: names, host behaviour, import paths, import time."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import pypto_pro.language as pl
from pypto_pro.language import Vf as vf  # noqa: N813

EXPORTED = """
jit kernel function program parse loads parse_program loads_program KernelDef vector_function inline range constexpr
section_vector section_cube struct struct_array make_tuple TileType Tensor Ptr Tile Scalar MemRef DYNAMIC STATIC ND DN
NZ ZN NN ZZ system mutex simt pipeline parser Vf DataType FunctionType MemorySpace TensorLayout TilePad CompactMode
FillPadMode CacheLine DcciDst PipeType CrossCoreSyncMode SyncCoreType SyncAllMode ReluPreMode AtomicType AccToVecMode
STPhase AccPhase RoundMode VFRoundMode SaturateMode QuantMode CompareMode ReduceMode MaskPattern MergeMode
DuplicatePos CastLayout LoadDist StoreDist DataCopyMode PackPart SqueezeMode HistType BinType IndexOrder MaskWidth
MemBarMode DT_BOOL DT_INT4 DT_INT8 DT_INT16 DT_INT32 DT_INT64 DT_UINT4 DT_UINT8 DT_UINT16 DT_UINT32 DT_UINT64 DT_FP4
DT_FP4E2M1 DT_FP4E1M2 DT_FP8E4M3FN DT_FP8E5M2 DT_FP8E8M0 DT_FP16 DT_BF16 DT_FP32 DT_HF4 DT_HF8
""".split()


def test_every_name_is_there_and_listed() -> None:
    assert [name for name in EXPORTED if not hasattr(pl, name)] == []
    assert set(EXPORTED) == set(pl.__all__)
    assert {"add", "load", "system"} <= set(dir(pl))


@pytest.mark.parametrize("name", ["DynVar", "Var", "DYN", "CoreKind", "DT_INDEX", "no_such_op"])
def test_names_the_language_does_not_have(name: str) -> None:
    with pytest.raises(AttributeError):
        getattr(pl, name)


def test_a_typo_is_offered_the_nearest_name() -> None:
    with pytest.raises(AttributeError, match="did you mean `load_tile`"):
        pl.lode_tile


def test_ops_have_their_signature_and_run_in_kernels_only() -> None:
    assert list(inspect.signature(pl.load).parameters) == ["dst_tile", "src_tensor", "offsets", "order"]
    assert pl.load.__doc__
    with pytest.raises(RuntimeError, match="inside a kernel only"):
        pl.load(1, 2, [0, 0])
    with pytest.raises(TypeError, match="ordr"):
        pl.load(1, 2, [0, 0], ordr=1)
    with pytest.raises(RuntimeError, match=r"vf\.add"):
        vf.add(1, 2, 3)


def test_namespaces() -> None:
    assert pl.pipeline.PipelineConfig() == pl.pipeline.PipelineConfig(preload=2, sync_only=False)

    @pl.pipeline.stage
    def stage() -> None: ...

    @pl.simt.function(max_threads=64)
    def thread() -> None: ...

    assert callable(stage)
    assert callable(thread)
    with pytest.raises(AttributeError, match=r"pl\.mutex has"):
        pl.mutex.lock


def test_python_runs_the_vocabulary_outside_kernels() -> None:
    assert list(pl.range(2, 8, 3)) == [2, 5]
    s = pl.struct("S", a=1, b=[2])
    s.a += 1
    assert (s.a, s.b) == (2, [2])
    cells = pl.struct_array(3, "S", a=0)
    cells[1].a = 4
    assert [c.a for c in cells] == [0, 4, 0]
    assert pl.make_tuple(x=1).x == 1
    with pl.section_vector(), pl.section_cube():
        pass
    with pytest.warns(DeprecationWarning, match="does nothing"):
        assert pl.inline(len) is len


def test_parser_errors_at_their_import_paths() -> None:
    from pypto_pro.diag.errors import ParserSyntaxError
    from pypto_pro.language.parser import diagnostics

    assert issubclass(ParserSyntaxError, pl.parser.ParserError)
    assert diagnostics.ParserSyntaxError is ParserSyntaxError


def test_importing_is_light() -> None:
    """What it takes in time, `bench/compile.py` measures."""
    code = (
        "import sys; import pypto_pro.language; print(sum(m.startswith('pypto_pro') for m in sys.modules), "
        "[m for m in ('torch', 'llvmlite', 'scipy', 'rich', 'pypto_pro.ops.table') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    count, heavy = run.stdout.split(maxsplit=1)
    assert heavy.strip() == "[]"
    assert int(count) <= 60
