"""The paper's numbers on the bounds, keyed like ours: (table, row, quantity) -> number."""

from collections.abc import Iterator, Mapping

import pandas as pd

from fedscan.analysis.numbers import Key

# Figure 2(b): slopes in log(1 - rho) at the end of training.
EXPONENTS = {"G": -1.8, "L": -3.6, "gradient": -0.5, "hessian": -1.0}
# Appendix G.1: how the 72 teachers were found.
BANK = {
    "accepted": 72,
    "first attempt": 18,
    "seed 0": 63,
    "seed 1": 5,
    "seed 2": 4,
    "gain 1": 30,
    "gain 0.5": 9,
    "gain 0.25": 15,
    "gain 0.15": 8,
    "gain 0.1": 2,
    "gain 0.05": 6,
    "gain 0.03": 2,
    "temperature 0.7": 39,
    "temperature 1": 33,
}
LONGEST_SEARCH = 32


def paper_numbers(tables: Mapping[str, pd.DataFrame]) -> dict[Key, float]:
    """Return the published numbers of Tables 1, 17-22, Figure 2(b) and the bank.

    Args:
        tables: 'table17' -> its CSV, and so on.

    Returns:
        (table, row, quantity) -> number. Table 17's rho = 0.3 is its row of eight cells.
    """
    found = dict(_plain(tables))
    found |= {("figure2b", name, "exponent_in_1-rho"): value for name, value in EXPONENTS.items()}
    found |= {("bank", name, "teachers"): float(count) for name, count in BANK.items()}
    found["bank", "longest search", "candidates"] = float(LONGEST_SEARCH)
    return found


def _plain(tables: Mapping[str, pd.DataFrame]) -> Iterator[tuple[Key, float]]:
    for row in tables["table1"].to_dict("records"):
        check = str(row["check"])
        yield ("table1", check, "evaluations"), row["evaluations"]
        yield ("table1", check, "violations"), row["violations"]
        yield ("table1", check, "max_utilization"), row["max_utilization_configured"]
        if not pd.isna(row["max_utilization_tight"]):
            tight = f"{check}_tight"
            yield ("table1", tight, "evaluations"), row["evaluations"]
            yield ("table1", tight, "violations"), row["violations"]
            yield ("table1", tight, "max_utilization"), row["max_utilization_tight"]
    yield from _rows(tables["table17"][tables["table17"]["rho"] != "0.3*"], "table17", ["rho"])
    yield from _rows(tables["table18"], "table18", ["checkpoint"])
    yield from _rows(tables["table19"], "table19", ["checkpoint", "rho"])
    for row in tables["table20"].to_dict("records"):
        key = f"{row['rho']:g} {row['quantity']} {row['in']}"
        yield ("table20", key, "exponent"), row["exponent"]
    training = tables["table21"].drop(columns=["ci_low", "ci_high"])
    yield from _rows(training, "table21", ["rho"])
    yield from _rows(tables["table22"], "table22", ["factor"])


def _rows(table: pd.DataFrame, name: str, keys: list[str]) -> Iterator[tuple[Key, float]]:
    for row in table.to_dict("records"):
        label = " ".join(_word(row.pop(key)) for key in keys)
        for quantity, value in row.items():
            if not pd.isna(value):
                yield (name, label, str(quantity)), float(value)


def _word(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
