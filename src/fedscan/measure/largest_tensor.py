"""How large tensors get: what an operation needs of memory, counted and not timed."""

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class LargestTensor(TorchDispatchMode):
    """Counts the numbers of the largest tensor that any operation makes.

    Attributes:
        numbers: of it, so far.
    """

    def __init__(self) -> None:
        """Count from zero."""
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        """Run an operation and look at what it made."""
        made = func(*given, **(named or {}))
        parts = made if isinstance(made, tuple | list) else (made,)
        sizes = (part.numel() for part in parts if isinstance(part, Tensor))
        self.numbers = max(self.numbers, *sizes, 0)
        return made
