"""A task's training sequences on clients that hold its sources unequally."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from fedscan.data.partition import exact, mixture


class Holding(NamedTuple):
    """What one client holds."""

    client: int
    source: str
    rows: tuple[int, ...]


def holdings(sources: Sequence[str], clients: int, beta: float) -> list[Holding]:
    """Assign sequences to clients, disjointly.

    A client's own source is the (client mod sources)-th. It asks for its shares of an equal part
    of all sequences, and gets at most what a source has left.

    Args:
        sources: of every sequence, in the data's order.
        clients: number of clients K.
        beta: heterogeneity: 0 every source equally, 1 the own source alone.

    Returns:
        One entry per client and source that it holds some of.

    Raises:
        ValueError: if a client would hold nothing.
    """
    names = sorted(set(sources))
    left = {name: [i for i, s in enumerate(sources) if s == name] for name in names}
    # Clients that share a source share its sequences.
    smallest = min(len(rows) for rows in left.values())
    budget = min(len(sources) // clients, smallest // -(-clients // len(names)))
    found = []
    for client in range(clients):
        shares = mixture(names, names[client % len(names)], exact(float(beta)))
        held = 0
        for name, share in shares.items():
            count = min(round(share * budget), len(left[name]))
            if count:
                found.append(Holding(client, name, tuple(left[name][:count])))
                del left[name][:count]
                held += count
        if not held:
            raise ValueError(
                f"client {client} would hold no sequence: {len(sources)} of {len(names)} sources"
                f" for {clients} clients; give more sequences or fewer clients"
            )
    return found


def rows_of(held: Sequence[Holding], client: int) -> list[int]:
    """Return the sequences of one client.

    Args:
        held: result of ``holdings``.
        client: its index.

    Returns:
        Indices in the data's order.
    """
    return sorted(row for one in held if one.client == client for row in one.rows)


def holding_rows(held: Sequence[Holding], unit: dict[str, Any]) -> list[dict[str, Any]]:
    """Return rows of table ``sessa_federated_clients``.

    Args:
        held: result of ``holdings``.
        unit: key columns.
    """
    return [
        {**unit, "client": one.client, "source": one.source, "sequences": len(one.rows)}
        for one in held
    ]
