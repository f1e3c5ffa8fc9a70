"""The rewrite of a kernel of stages, from what the probe saw to a new syntax tree."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from typing import Any

from pypto_pro.diag.errors import PipelineKindError
from pypto_pro.frontend import inline
from pypto_pro.frontend.pipeline import accesses, buffers, contexts, emit_serial, events, graph, jumps, picks, structure
from pypto_pro.frontend.pipeline.bindings import Bindings
from pypto_pro.frontend.pipeline.config import PipelineConfig
from pypto_pro.frontend.pipeline.emit_full import FullPipeline
from pypto_pro.frontend.pipeline.probe import Probe
from pypto_pro.frontend.pipeline.prune import prune
from pypto_pro.frontend.pipeline.schedule import delays
from pypto_pro.frontend.pipeline.site import Site
from pypto_pro.frontend.source import Source


class Rewriter:
    """The transform of one kernel of one specialisation. `names`: everything visible from outside the function."""

    def __init__(self, kernel: str, source: Source, names: Mapping[str, Any], config: PipelineConfig) -> None:
        self.site = Site(kernel, source, names)
        self.config = config
        self.probe = Probe()
        self._check_config()
        structure.require_stages(self.site)

    def _check_config(self) -> None:
        preload = self.config.preload
        if type(preload) is not int:
            raise PipelineKindError(
                f"`preload` of the pipeline is an int, found {preload!r} ({type(preload).__name__})",
                self.site.span(self.site.source.tree), kernel=self.site.kernel,
            )  # fmt: skip

    def explain(self) -> None:
        """Raise the PipelineError behind a kernel that cannot even be read, if it breaks the rules of stages.

        Nothing is said where a branch that was not reached holds a stage: its condition may be a constant.
        """
        body = prune(inline.body_of(self.site.source), self.probe)
        if structure.has_loop(self.site, body) and not structure.has_open_branch(self.site, body):
            structure.find(self.site, body)

    def rewrite(self) -> Source:
        """The source with the transformed kernel. PipelineError where the rules of the pipeline are broken."""
        tree = self.site.source.tree
        found = structure.find(self.site, prune(inline.body_of(self.site.source), self.probe))
        for stage in found.stages:
            if id(stage.call) not in self.probe.calls:
                raise self.site.error(
                    f"stage `{stage.name}` is never reached, expected control to get to its call, found a jump before",
                    stage.statement,
                )  # fmt: skip
        jumps.check(self.site, found)
        lag = delays([stage.kind for stage in found.stages], self.config.preload)
        if self.config.sync_only:
            lag = (0,) * len(lag)
        plan = self._plan(found, lag)
        if self.config.sync_only:
            made = emit_serial.names(plan)
            self._check_names(made)
            body = emit_serial.body(found, plan)
        else:
            bindings = Bindings.of(found, [arg.arg for arg in tree.args.args])
            picked = picks.find(self.site, self.probe, found, bindings)
            context = contexts.build_contexts(self.site, self.probe, found, bindings, picked, lag)
            full = FullPipeline(self.site, found, lag, plan, context, bindings, picked)
            self._check_names(full.names())
            body = full.body()
        changed = copy.copy(tree)
        changed.body = body
        return Source(changed, self.site.source.file, self.site.source.line_offset, self.site.source.shift)

    def _plan(self, found: structure.Structure, lag: tuple[int, ...]) -> events.SyncPlan:
        stages, preload = found.stages, self.config.preload
        regions = buffers.regions(self.site, self.probe.groups)
        touched = accesses.of_stages(self.site, self.probe, stages, regions)
        graph.check_order(self.site, stages, touched, lag, regions, preload)
        edges = graph.edges_of(regions, stages, touched, lag)
        graph.check_cycles(self.site, stages, edges, lag, regions, preload)
        return events.plan(self.site, self.probe, stages, regions, edges)

    def _check_names(self, made: set[str]) -> None:
        """No name of the transformed kernel is the author's already."""
        for node in ast.walk(self.site.source.tree):
            name = node.id if isinstance(node, ast.Name) else node.arg if isinstance(node, ast.arg) else None
            if name in made:
                raise self.site.error(
                    f"`{name}` is a name that the pipeline makes itself, expected names without the prefix `_pl_`, "
                    f"found `{name}`", node,
                )  # fmt: skip


def text_of(source: Source) -> str:
    """The transformed kernel as Python text, for reading."""
    return ast.unparse(ast.fix_missing_locations(copy.deepcopy(source.tree))) + "\n"
