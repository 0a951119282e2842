"""Tables 5, 9 and 10: budgets of the clients and sizes of the models, beside the paper's."""

from collections.abc import Iterator, Mapping

import pandas as pd

from fedscan.analysis.numbers import Key, Number

# Paper, Tables 9 and 10, and the text below Table 10.
PAPER_PARAMETERS = {
    ("table9", "depth=4", "total"): 14_733_664,
    ("table9", "depth=4", "mixers"): 1_860_704,
    ("table9", "depth=4", "embedding"): 12_871_680,
    ("table9", "depth=16", "total"): 20_318_848,
    ("table9", "depth=16", "mixers"): 7_442_816,
    ("table9", "depth=16", "embedding"): 12_871_680,
    ("table10", "mamba2", "total"): 14_733_664,
    ("table10", "hybrid75", "total"): 14_531_656,
    ("table10", "hybrid50", "total"): 14_329_648,
    ("table10", "hybrid50alt", "total"): 14_329_648,
    ("table10", "hybrid25", "total"): 14_127_640,
    ("table10", "attn0", "total"): 13_925_632,
}


def budgets(partitions: pd.DataFrame) -> Iterator[Number]:
    """Yield Table 5: client budgets and the size of the server's validation set.

    Args:
        partitions: rows of table ``partition`` with columns setting, beta and clients.

    Yields:
        Numbers in sequences; client counts that the paper does not list have them in their row.
    """
    for (setting, beta, clients), part in partitions.groupby(["setting", "beta", "clients"]):
        row = f"setting={setting} beta={beta:g}" + ("" if clients == 4 else f" clients={clients}")
        note = f"limited by {part['limiter'].iloc[0]}"
        for split, name in (("train", "train_cap"), ("validation", "val_cap")):
            cap = int(part.loc[part["split"] == split, "cap"].iloc[0])
            yield Number("table5", row, name, cap, note=note)
        held = int(part.loc[part["split"] == "validation", "count"].sum())
        yield Number("table5", row, "server_val", held)


def model_sizes(sizes: Mapping[tuple[str, int], Mapping[str, int]]) -> Iterator[Number]:
    """Yield Tables 9 and 10: parameters by depth, and by backbone.

    Args:
        sizes: (backbone, depth) -> total, mixers, embedding, attention_layers, in parameters
            and layers.

    Yields:
        Numbers; Table 10 is the paper's for depth 4.
    """
    for (backbone, depth), counts in sizes.items():
        if backbone == "mamba2":
            for name in ("total", "mixers", "embedding"):
                yield Number("table9", f"depth={depth}", name, counts[name])
        if depth == 4:
            yield Number("table10", backbone, "total", counts["total"])
            yield Number("table10", backbone, "attention_layers", counts["attention_layers"])


def paper_sizes(table5: pd.DataFrame) -> dict[Key, float]:
    """Return the paper's numbers, keyed like ours.

    Args:
        table5: the published Table 5.

    Returns:
        (table, row, quantity) -> number.
    """
    found: dict[Key, float] = {key: float(count) for key, count in PAPER_PARAMETERS.items()}
    for row in table5.to_dict("records"):
        label = f"setting={row['setting']} beta={row['beta']:g}"
        for name in ("train_cap", "val_cap", "server_val"):
            found["table5", label, name] = float(row[name])
    return found
