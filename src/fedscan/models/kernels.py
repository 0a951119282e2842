"""Who computes the training loss: this package's PyTorch code or mamba_ssm's Triton kernels.

The choice is configuration and recorded in every result. A path that does not work is an error
that says what to install, never a silent change to the other.
"""

from collections.abc import Callable

from torch import Tensor, nn

from fedscan.models import mamba_ssm_kernels
from fedscan.models.language_model import LanguageModel


class Loss(nn.Module):
    """``model.loss`` as a forward pass, so that ``model.*`` parameters can be substituted."""

    def __init__(self, model: LanguageModel) -> None:
        """Wrap ``model``."""
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> Tensor:
        """Return the mean cross-entropy in nats per token.

        Args:
            ids: token ids, (batch, length) int64.

        Returns:
            Scalar.
        """
        return self.model.loss(ids)


KERNELS: dict[str, Callable[[LanguageModel], nn.Module]] = {
    "torch": Loss,
    "mamba_ssm": mamba_ssm_kernels.loss,
}
