"""The claims in numbers: how near each comes to its bound."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from fedscan.analysis.numbers import Number
from fedscan.theory.retrieval import profile_exponent


def numbers(claims: pd.DataFrame, retrieval: pd.DataFrame) -> Iterator[Number]:
    """Yield the numbers of tables 'claims' and 'retrieval'.

    Args:
        claims: table ``sessa_claims``.
        retrieval: table ``sessa_retrieval``.

    Yields:
        Per claim its instances, largest ratio and violations; per construction its exponent
        beside nu, its smallest margins, and by what factor the constant varies with the horizon.
    """
    for (name, source), own in claims.groupby(["claim", "source"], sort=False):
        applied = own[own["applicable"]]
        note = f"{source}; {len(applied)} of {len(own)} instances apply"
        yield Number("claims", str(name), "instances", len(own), note=note)
        largest = float(applied["ratio"].max()) if len(applied) else np.nan
        yield Number("claims", str(name), "largest_ratio", largest, note=note)
        yield Number("claims", str(name), "violations", int(own["violated"].sum()), note=note)
    pairs = dict.fromkeys(zip(retrieval["beta"], retrieval["layers"], strict=True))
    for beta, layers in pairs:
        own = retrieval[(retrieval["beta"] == beta) & (retrieval["layers"] == layers)]
        row = f"beta {beta:g}, {layers} macro-layer(s)"
        nu = profile_exponent(beta, layers)
        kernel = own[own["level"] == "kernel"]
        far = kernel[kernel["horizon"] == kernel["horizon"].max()]
        late = far[far["lag"] >= far["horizon"] / 10]
        slope = float(np.polyfit(np.log1p(late["lag"]), np.log(late["score"]), 1)[0])
        yield Number("retrieval", row, "exponent", slope, note=f"theory {nu:g}; fitted to scores")
        yield Number("retrieval", row, "nu", nu, note="k (1 - beta) - 1, Theorem 12")
        constants = (kernel["margin"] / (1 + kernel["lag"]) ** nu).groupby(kernel["horizon"]).min()
        spread = float(constants.max() / constants.min()) if constants.min() > 0 else np.inf
        note = (
            f"smallest margin / (1 + lag)^nu, over horizons {', '.join(map(str, constants.index))}"
        )
        yield Number("retrieval", row, "spread_over_horizons", spread, note=note)
        for level, part in own.groupby("level", sort=False):
            note = f"smallest of {len(part)} lags, horizons up to {part['horizon'].max()}"
            value = float(part["margin"].min())
            yield Number("retrieval", row, f"smallest_margin_{level}", value, note=note)
