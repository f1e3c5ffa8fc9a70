"""`torch_npu`: the functions of the device library that the stand-in has. Any other name is an error naming it."""

from __future__ import annotations

import torch

from pypto_pro.torch_shim import npu, profiler
from pypto_pro.torch_shim.formats import Format, get_npu_format, npu_format_cast
from pypto_pro.torch_shim.missing import missing_names
from pypto_pro.torch_shim.quant_param import npu_trans_quant_param

__version__ = f"{torch.__version__.partition('+')[0]}+pypto.pro"
__all__ = ["Format", "get_npu_format", "npu", "npu_format_cast", "npu_trans_quant_param", "profiler"]
__getattr__ = missing_names("torch_npu", __all__)
