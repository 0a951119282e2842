"""The hyperparameters of the federated algorithms, as lists of values to run."""

from typing import Literal

from pydantic import Field

from fedscan.config.types import Count, Grid, Momentum, NonNegative, Positive, Section, Share


class FedAvg(Section):
    """Averaging; no hyperparameters."""


class FedProx(Section):
    """Proximal term."""

    mu: Grid[NonNegative] = Field(description="coefficient of mu/2 ||theta - theta_r||^2")


class Scaffold(Section):
    """Control variates."""

    refresh_every: Grid[Count] = Field(description="rounds between refreshes f_c")
    correction_scale: Grid[NonNegative] = Field(description="scale lambda_c of the correction")
    control_lr: Grid[Share] = Field(description="step eta_c from the old variate to the estimate")
    control_bound: Grid[Positive] = Field(description="largest norm tau_c of a control variate")
    estimate: Grid[Literal["mean_gradient", "displacement"]] = Field(
        description="'mean_gradient': mean raw local gradient; 'displacement': c_k - c +"
        " (theta_r - theta_k)/(E lr), a gradient only under plain SGD"
    )


class FedSam(Section):
    """Sharpness-aware local steps."""

    radius: Grid[NonNegative] = Field(description="norm of the weight perturbation")


class FedAdam(Section):
    """Adam at the server."""

    server_lr: Grid[Positive] = Field(description="server learning rate alpha_s")
    beta1: Grid[Momentum] = Field(description="first-moment coefficient")
    beta2: Grid[Momentum] = Field(description="second-moment coefficient")
    tau: Grid[Positive] = Field(description="offset tau_s added to sqrt(v)")


class FedAlign(Section):
    """State matching before averaging."""

    align_mamba2_heads: Grid[Literal[0, 1]] = Field(description="1: match heads too")


class FedDyn(Section):
    """Dynamic regularisation."""

    alpha: Grid[Positive] = Field(description="coefficient alpha of the dynamic regulariser")


class FedExp(Section):
    """Extrapolated server step."""

    epsilon: Grid[Positive] = Field(description="epsilon_g in the denominator of eta_g")


class DiLoCo(Section):
    """Outer Nesterov momentum."""

    outer_lr: Grid[Positive] = Field(description="outer learning rate alpha_o")
    outer_momentum: Grid[Momentum] = Field(description="outer momentum beta_o")


class Hyperparameters(Section):
    """Per algorithm, lists of values; the values run are the product of an algorithm's lists."""

    fedavg: FedAvg = FedAvg()
    fedprox: FedProx | None = None
    scaffold: Scaffold | None = None
    fedsam: FedSam | None = None
    fedadam: FedAdam | None = None
    fedalign: FedAlign | None = None
    feddyn: FedDyn | None = None
    fedexp: FedExp | None = None
    diloco: DiLoCo | None = None


AlgorithmName = Literal[
    "fedavg",
    "fedprox",
    "scaffold",
    "fedadam",
    "fedalign",
    "feddyn",
    "fedsam",
    "fedexp",
    "diloco",
]
