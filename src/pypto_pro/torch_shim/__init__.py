"""The stand-in for the NPU in torch: importing this package gives torch a device "npu" whose memory is the host's.

`import torch_npu`, `device="npu:0"`, `x.npu()` and `torch.npu.*` then work in this process, unedited; kernels get the
real addresses of the tensors. `pypto-pro run` and `pytest --pypto-npu` import it for the author. Nothing of it is
loaded otherwise. See docs/device-scripts.md.

How: torch keeps a dispatch key for devices that live outside of it (PrivateUse1). Tensors of the stand-in carry that
key and a storage in host memory (`tensors`); an operator on them runs torch's CPU kernel on the same bytes
(`operators`). So they are plain `torch.Tensor`s that know their device: moving them copies, mixing them with CPU
tensors or calling `.numpy()` fails as on the device, autograd and `torch.library` treat them as any other.
"""

from pypto_pro.torch_shim.activation import activate

__all__ = ["activate"]

activate()
