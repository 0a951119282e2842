"""Domain pools into client token sets: budgets, mixtures, disjoint ranges (paper, Appendix G.1).

A domain offers ``pool`` sequences, split into floor(train_share * pool) for training and the rest
for validation. A client's budget is that of the setting's smallest pool; with more clients than
domains, it is divided by the number of clients that share a primary domain.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

SPLITS = ("train", "validation")


class Holding(NamedTuple):
    """What one client holds of one domain in one split; columns of the partition table."""

    client: int
    primary_domain: str
    domain: str
    split: str
    share: float
    cap: int
    limiter: str
    requested: int
    first: int
    count: int


def exact(value: float) -> Fraction:
    """Return the fraction that a decimal in the configuration means (0.7 is 7/10, not a double).

    Args:
        value: number as the configuration gives it.

    Returns:
        The exact value of its shortest decimal spelling.
    """
    return Fraction(repr(value))


def domain_sizes(pool: int, train_share: Fraction) -> dict[str, int]:
    """Return a domain's training and validation sequences.

    Args:
        pool: sequences the domain offers.
        train_share: share used for training.

    Returns:
        Split -> sequences; the two add up to ``pool``.
    """
    train = int(train_share * pool)
    return {"train": train, "validation": pool - train}


def mixture(domains: Sequence[str], primary: str, beta: Fraction) -> dict[str, Fraction]:
    """Return a client's share of each domain.

    The primary domain has share beta, but never less than an equal share, and the others divide
    the rest. So beta = 0 is the equal mixture, 0.7 of four domains is 0.7 + 3 x 0.1, and 1 is the
    primary domain alone.

    Args:
        domains: domains of the setting.
        primary: the client's primary domain.
        beta: heterogeneity in [0, 1].

    Returns:
        Domain -> share, in the order of ``domains``; shares sum to one.
    """
    own = max(beta, Fraction(1, len(domains)))
    other = (1 - own) / (len(domains) - 1) if len(domains) > 1 else Fraction(0)
    return {domain: own if domain == primary else other for domain in domains}


def budgets(
    pools: Mapping[str, int], domains: Sequence[str], clients: int, train_share: Fraction
) -> tuple[dict[str, int], str]:
    """Return the sequences a client may hold, and the domain that limits them.

    Args:
        pools: domain -> sequences it offers.
        domains: domains of the setting.
        clients: number of clients K.
        train_share: share used for training.

    Returns:
        Split -> cap per client, and the domain with the smallest pool (the first, if several).
    """
    limiter = min(domains, key=lambda domain: pools[domain])
    sharing = -(-clients // len(domains))
    sizes = domain_sizes(pools[limiter], train_share)
    return {split: sizes[split] // sharing for split in SPLITS}, limiter


def partition(
    pools: Mapping[str, int],
    domains: Sequence[str],
    clients: int,
    beta: Fraction,
    train_share: Fraction,
) -> list[Holding]:
    """Assign disjoint ranges of each domain's sequences to the clients.

    A client asks for round(share * cap) sequences of a domain (halves to even) and gets at most
    what the domain has left. Ranges are contiguous in packing order, so that a document is held by
    one client, or by two where a boundary falls inside it.

    Args:
        pools: domain -> sequences it offers.
        domains: domains of the setting; client k's primary domain is the (k mod len)-th.
        clients: number of clients K.
        beta: heterogeneity in [0, 1].
        train_share: share used for training.

    Returns:
        One holding per client, split and domain with a positive share.

    Raises:
        ValueError: if a client would hold no training or no validation sequence.
    """
    caps, limiter = budgets(pools, domains, clients, train_share)
    left = {domain: domain_sizes(pools[domain], train_share) for domain in domains}
    first = {domain: dict.fromkeys(SPLITS, 0) for domain in domains}
    holdings: list[Holding] = []
    for client in range(clients):
        primary = domains[client % len(domains)]
        shares = {d: share for d, share in mixture(domains, primary, beta).items() if share}
        for split in SPLITS:
            cap, held = caps[split], 0
            for domain, share in shares.items():
                wanted, start = round(share * cap), first[domain][split]
                count = min(wanted, left[domain][split])
                facts = (client, primary, domain, split, float(share), cap, limiter)
                holdings.append(Holding(*facts, wanted, start, count))
                left[domain][split] -= count
                first[domain][split] += count
                held += count
            if not held:
                raise ValueError(
                    f"client {client} would hold no {split} sequence: domain {limiter!r} offers"
                    f" {pools[limiter]} sequences for {clients} clients, {float(train_share):g} of"
                    " them for training; give more text (partition.sequences_per_client caps it),"
                    " shorter sequences, fewer clients or another partition.train_val_split"
                )
    return holdings
