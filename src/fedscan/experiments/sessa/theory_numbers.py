"""The claims in numbers: how near each comes to its bound."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from fedscan.analysis.numbers import Number


def numbers(claims: pd.DataFrame, retrieval: pd.DataFrame) -> Iterator[Number]:
    """Yield the numbers of tables 'claims' and 'retrieval'.

    Args:
        claims: table ``sessa_claims``.
        retrieval: table ``sessa_retrieval``.

    Yields:
        Per claim its largest ratio and violations; per construction its exponent and margin.
    """
    for (name, source), own in claims.groupby(["claim", "source"], sort=False):
        applied = own[own["applicable"]]
        note = f"{source}; {len(applied)} of {len(own)} instances apply"
        largest = float(applied["ratio"].max()) if len(applied) else np.nan
        yield Number("claims", str(name), "largest_ratio", largest, note=note)
        yield Number("claims", str(name), "violations", int(own["violated"].sum()), note=note)
    for (beta, layers), own in retrieval.groupby(["beta", "layers"], sort=False):
        row = f"beta {beta:g}, {layers} macro-layer(s)"
        nu = layers * (1 - beta) - 1
        kernel = own[own["level"] == "kernel"]
        far = kernel[kernel["horizon"] == kernel["horizon"].max()]
        late = far[far["lag"] >= far["horizon"] / 10]
        slope = float(np.polyfit(np.log1p(late["lag"]), np.log(late["score"]), 1)[0])
        yield Number("retrieval", row, "exponent", slope, note=f"theory {nu:g}; fitted to scores")
        for level, part in own.groupby("level", sort=False):
            note = f"smallest of {len(part)} lags, horizons up to {part['horizon'].max()}"
            value = float(part["margin"].min())
            yield Number("retrieval", row, f"smallest_margin_{level}", value, note=note)
