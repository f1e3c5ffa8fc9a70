"""The recurrent cells that torch fuses on every device but the CPU, which therefore has no kernel for them.

They are made of operators that have gradients, so that none has to be written here.
"""

from __future__ import annotations

from typing import Any

import torch


def register() -> tuple[Any, ...]:
    """Register the cells. The returned libraries must be kept: their end is the end of the registration."""
    some = torch.library.Library("aten", "IMPL")
    for key in ("AutogradPrivateUse1", "PrivateUse1"):
        some.impl("_thnn_fused_lstm_cell", _lstm_cell, key)
        some.impl("_thnn_fused_gru_cell", _gru_cell, key)
    return (some,)


def _lstm_cell(from_input: Any, from_hidden: Any, cell: Any, *biases: Any) -> tuple[Any, Any, Any]:
    """Gates [n, 4 * h] and the cell [n, h] give the hidden state, the cell, and a work space nobody reads."""
    gates = sum((b for b in biases if b is not None), from_input + from_hidden)
    enter, forget, candidate, leave = gates.chunk(4, 1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(candidate)
    return torch.sigmoid(leave) * torch.tanh(cell), cell, torch.empty_like(gates)


def _gru_cell(
    from_input: Any, from_hidden: Any, hidden: Any, input_bias: Any = None, hidden_bias: Any = None
) -> tuple[Any, Any]:
    """Gates [n, 3 * h] and the hidden state [n, h] give the next one, and a work space nobody reads."""
    reset, update, candidate = _with(from_input, input_bias).chunk(3, 1)
    more_reset, more_update, recalled = _with(from_hidden, hidden_bias).chunk(3, 1)
    candidate = torch.tanh(candidate + torch.sigmoid(reset + more_reset) * recalled)
    kept = torch.sigmoid(update + more_update)
    return candidate + kept * (hidden - candidate), torch.empty_like(from_input)


def _with(gates: Any, bias: Any) -> Any:
    return gates if bias is None else gates + bias
