"""Checks of the claims: all there, none violated, all numbers."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedscan.experiments.sessa.theory_tables import CLAIMS, RETRIEVAL
from fedscan.io import parquet
from fedscan.pipeline.checks import Check, present_code

PATH = "sessa/theory"
# What each group is to hold: a claim that is not computed is not seen to be violated either.
GROUPS = {
    "fixed routing": {
        "nilpotency", "neumann_series", "paths", "row_sums", "solution", "kernel_norm",
        "kernel_norm_attained", "kernel_norm_uniform", "block", "softmax_upper", "softmax_lower",
        "decay", "decay_realised", "decay_without_gain", "uniform_kernel", "uniform_first_lag",
        "uniform_upper", "uniform_lower", "uniform_constant_falls", "uniform_response",
        "uniform_response_rises", "uniform_response_rate", "gautschi_upper", "gautschi_lower",
        "uniform_exponent", "uniform_local_exponent", "attention_values", "attention_upper",
        "attention_lower", "attention_slope", "recurrence", "failed_freeze", "invariant_rate",
        "zoh_state",
    },
    "end to end": {
        "softmax_slope", "softmax_slope_of_one", "jacobian_identity", "causality", "convolution",
        "loop_jacobian", "block_jacobian", "attention_jacobian",
    },
    "depth": {
        "zoh_jacobian", "mamba2_decay", "residual_calculus", "harmonic_kernel", "attention_stack",
        "attention_stack_order", "recurrence_stack", "loop_stack", "loop_envelope_vanishes",
        "exponential_paths", "power_convolution",
    },
    "positions": {
        "positional_writer", "signal_passes", "position_is_read", "rotary_selection",
        "mixture_error", "gelu_ramp", "gelu_pair", "gelu_small", "scaffold_norm", "lag_copies",
        "readout",
    },
    "retrieval": {
        "macro_diagonal", "macro_lower", "macro_upper", "margins_positive", "profile_exponent",
        "profile_constant", "competitors", "first_margin", "weights_are_kernels",
        "weights_margins_positive", "margin_below_norm", "attention_envelope_falls",
        "recurrence_envelope_falls",
    },
}  # fmt: skip


def theory_checks(settings: Mapping[str, Any], results: Path) -> Iterator[Check]:
    """Check the tables of claims.

    Args:
        settings: ``retrieval`` (pairs of beta and k), ``codes`` and ``rerun_on_code_change``.
        results: folder of all results.

    Yields:
        A check per subject.
    """
    rows = parquet.read_frame(results / PATH / "sessa_claims.parquet", CLAIMS)
    wanted_claims = {(group, claim) for group, claims in GROUPS.items() for claim in claims}
    there = set(zip(rows["group"], rows["claim"], strict=True))
    missing = sorted(claim for _, claim in wanted_claims - there)
    detail = f"{rows['claim'].nunique()} claims, missing: {', '.join(missing) or 'none'}"
    yield Check("every claim", PATH, not missing, detail)
    broken = rows[rows["violated"]]
    named = ", ".join(sorted(set(broken["claim"]))) or f"{len(rows)} instances"
    yield Check("no claim is violated", PATH, broken.empty, named)
    applied = rows[rows["applicable"]]
    finite = np.isfinite(applied[["measured", "bound"]].to_numpy(float)).all()
    detail = f"{len(applied)} of {len(rows)} instances apply"
    yield Check("claims are of finite numbers", PATH, bool(finite), detail)
    retrieved = parquet.read_frame(results / PATH / "sessa_retrieval.parquet", RETRIEVAL)
    found = set(zip(retrieved["beta"], retrieved["layers"], strict=True))
    wanted = {(float(beta), int(layers)) for beta, layers in settings["retrieval"]}
    positive = bool((retrieved["margin"] > 0).all()) and found == wanted
    detail = f"{len(found)} of {len(wanted)} constructions, {len(retrieved)} lags"
    yield Check("margins of retrieval are positive", PATH, positive, detail)
    old = int((rows["code_hash"] != settings["codes"]["theory"]).sum())
    name, detail = "sessa results of the present code", f"{old} rows of other code"
    yield present_code(PATH, old, detail, settings["rerun_on_code_change"], name)
