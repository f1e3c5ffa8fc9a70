"""`pl.pipeline`: stages of the automatic cross-core pipeline and its configuration."""

from pypto_pro.frontend.markers import stage
from pypto_pro.frontend.pipeline.config import PipelineConfig

__all__ = ["PipelineConfig", "stage"]
