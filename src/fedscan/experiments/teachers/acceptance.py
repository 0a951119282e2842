"""The fixed criteria that a teacher's dataset must meet (paper, Table 4); never relaxed."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fedscan.experiments.teachers.candidates import Teacher
from fedscan.models.selective_ssm import cpu
from fedscan.models.selective_ssm.layout import blocks
from fedscan.models.selective_ssm.stability import certify


class Diagnostics(NamedTuple):
    """What is measured on a dataset; on train and test together unless said."""

    largest_marginal: float  # share of the most frequent token
    marginal_entropy: float  # nats
    majority_share_95: float  # 95th percentile over test sequences of their top token's share
    covered_tokens: int  # tokens that occur both in train and in test
    constant_share: float  # share of sequences of one token
    distinct_share: float  # distinct sequences / sequences
    nll: float  # nats per position, teacher-forced at the temperature, from h_0 = 0
    mutual_information: float  # nats, between consecutive tokens
    finite: bool  # logits, steps, transitions, states and all of the above
    rho_hat: float  # realised stability limit
    stable: bool  # certificate over all inputs


# Name of the criterion -> (diagnostics, D) -> whether it is met.
CRITERIA: dict[str, Callable[[Diagnostics, int], bool]] = {
    "token_balance": lambda x, d: x.largest_marginal <= 1 / d + 0.10,
    "marginal_entropy": lambda x, d: x.marginal_entropy >= 0.90 * np.log(d),
    "sequence_majority": lambda x, d: x.majority_share_95 <= 1 / d + 0.20,
    "class_coverage": lambda x, d: x.covered_tokens == d,
    "constant_sequences": lambda x, d: x.constant_share <= 0.01,
    "diversity": lambda x, d: x.distinct_share >= 0.95,
    "informativeness": lambda x, d: np.log(d) - x.nll >= 0.02,
    "no_collapse": lambda x, d: np.exp(x.nll) >= 1.20,
    "mutual_information": lambda x, d: x.mutual_information >= 0.005,
    "finiteness": lambda x, d: x.finite,
    "stability": lambda x, d: x.stable,
}


def diagnose(teacher: Teacher, train: np.ndarray, test: np.ndarray) -> Diagnostics:
    """Measure a dataset.

    Args:
        teacher: what wrote it.
        train: (sequences, length) uint8.
        test: (sequences, length) uint8.

    Returns:
        The diagnostics.
    """
    d = teacher.shape.d_input
    both = np.concatenate([train, test])
    counts = [np.bincount(part.ravel(), minlength=d) for part in (train, test)]
    marginal = sum(counts) / both.size
    per_sequence = _token_counts(test, d)
    predicted = cpu.predict(teacher.params, both, teacher.shape, teacher.temperature)
    certificate = certify(blocks(teacher.params, teacher.shape), teacher.margins)
    nll = float(predicted.losses.mean())
    information = mutual_information(both, d)
    numbers = (nll, information, *predicted.peaks, certificate.rho_hat, *teacher.params)
    return Diagnostics(
        float(marginal.max()),
        _entropy(marginal),
        float(np.percentile(per_sequence.max(axis=1) / test.shape[1], 95)),
        int(np.sum((counts[0] > 0) & (counts[1] > 0))),
        float(np.mean((both == both[:, :1]).all(axis=1))),
        len(np.unique(both, axis=0)) / len(both),
        nll,
        information,
        bool(np.isfinite(numbers).all()),
        certificate.rho_hat,
        certificate.stable,
    )


def refusals(found: Diagnostics, d_input: int) -> list[str]:
    """Name the criteria that are not met.

    Args:
        found: diagnostics of a dataset.
        d_input: number of tokens D.

    Returns:
        Names in the order of ``CRITERIA``; none means accepted. NaN meets no criterion.
    """
    return [name for name, met in CRITERIA.items() if not met(found, d_input)]


def mutual_information(tokens: np.ndarray, d_input: int) -> float:
    """Return the mutual information of consecutive tokens, from empirical frequencies.

    Args:
        tokens: (sequences, length) below ``d_input``.
        d_input: number of tokens D.

    Returns:
        Nats.
    """
    pairs = tokens[:, :-1].astype(np.int64) * d_input + tokens[:, 1:]
    joint = np.bincount(pairs.ravel(), minlength=d_input**2) / pairs.size
    table = joint.reshape(d_input, d_input)
    return _entropy(table.sum(axis=0)) + _entropy(table.sum(axis=1)) - _entropy(joint)


def _entropy(probabilities: np.ndarray) -> float:
    present = probabilities[probabilities > 0]
    return float(-np.sum(present * np.log(present)))


def _token_counts(tokens: np.ndarray, d_input: int) -> np.ndarray:
    """Return (sequences, D) occurrences."""
    index = np.arange(len(tokens))[:, None] * d_input + tokens
    flat = np.bincount(index.ravel(), minlength=len(tokens) * d_input)
    return flat.reshape(len(tokens), d_input)
