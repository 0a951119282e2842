"""FedAlign (after Keçeci et al. 2025): match state coordinates before averaging."""

from collections.abc import Mapping, Sequence
from typing import Literal

import torch

from fedscan.federated.algorithm import (
    Algorithm,
    LocalContext,
    LocalResult,
    Message,
    ServerStep,
    State,
)
from fedscan.federated.algorithms.fedavg import add_mean_update, fedavg
from fedscan.params.algebra import Params, subtract
from fedscan.params.permutation import PermutationGroup, features, permute

ABOUT = {
    "label": "FedAlign",
    "look": {"color": "#999999", "linestyle": "--", "linewidth": 1.5},
    "expectation": (0, 0),
    "local_bound": "plain_steps",
    "server_bound": None,
}


def fedalign(
    *,
    align_mamba2_heads: Literal[0, 1],
    permutation_groups: Mapping[str, Sequence[PermutationGroup]],
) -> Algorithm:
    """Return FedAlign: average after reordering features to match the broadcast model (G.4).

    In every group the client's features are assigned to the broadcast model's by the Hungarian
    method, maximising the sum of inner products over all coupled tensors, and reordered in all of
    them; the reordered client computes the same function. Without groups it is FedAvg.

    Args:
        align_mamba2_heads: 1: match heads too; 0: only the state features of B and C.
        permutation_groups: of the model, by kind (``state``, ``heads``).

    Returns:
        The algorithm; it logs the mean number of features moved per client.
    """
    kinds = ("state", "heads") if align_mamba2_heads else ("state",)
    groups = [group for kind in kinds for group in permutation_groups[kind]]

    def client_message(result: LocalResult, context: LocalContext) -> tuple[Message, State]:
        aligned, moved = dict(result.params), 0
        for group in groups:
            order = _match(features(context.global_params, group), features(aligned, group))
            if order != list(range(group.size)):
                aligned = permute(aligned, group, order)
                moved += sum(new != old for new, old in enumerate(order))
        count = {"count": torch.tensor(float(moved), dtype=torch.float64)}
        update = subtract(aligned, context.global_params) if moved else result.update
        return {"update": update, "moved_features": count}, context.client_state

    def server_update(params: Params, state: State, message: Message) -> ServerStep:
        moved = float(message["moved_features"]["count"])
        step = add_mean_update(params, state, message)
        return step._replace(internals={"moved_features": moved})

    return fedavg()._replace(
        name="fedalign", client_message=client_message, server_update=server_update
    )


def _match(reference: torch.Tensor, client: torch.Tensor) -> list[int]:
    """Return which client feature takes each reference feature's place."""
    # Imported here: it takes most of a second, and the other algorithms do not need it.
    from scipy.optimize import linear_sum_assignment

    _, order = linear_sum_assignment((reference @ client.T).cpu().numpy(), maximize=True)
    return [int(column) for column in order]
