"""Consensus at a glance, as aligned text."""

from collections.abc import Iterator

import numpy as np

from fedscan.analysis.aligned_text import Row, aligned, plus_minus, short_number
from fedscan.experiments.consensus.numbers import Found, ends, failed_draws, largest_t_star
from fedscan.experiments.consensus.paper import is_the_papers

HEAD = ("variant", "lambda1", "participation", "mean cosine", "largest T*", "without T*", "failed")


def consensus_text(found: Found) -> str:
    """Return one block per model: where its tokens end, variant by variant.

    Args:
        found: what was measured.

    Returns:
        Text; mean ± deviation over draws.
    """
    head = (
        "Consensus over depth: lambda1 is 1 where all tokens have one direction. Means over the"
        " last tenth of the depth, ± over draws"
    )
    blocks = []
    for name, model in found.models.items():
        facts = model.facts
        word = "the paper's checkpoint" if is_the_papers(facts) else "not the paper's checkpoint"
        title = (
            f"{name} ({facts['source']}, {word}): {facts['layers']} layers, depth {facts['depth']},"
            f" {facts['tokens']} tokens, {facts['draws']} draws"
        )
        rows: list[Row] = [HEAD, *_rows(found, name)]
        blocks.append(f"{title}\n{aligned(rows, right=range(1, len(HEAD)))}")
    return "\n\n".join([head, *blocks]) + "\n"


def _rows(found: Found, name: str) -> Iterator[Row]:
    model = found.models[name]
    for variant in found.variants:
        values = ends(model, variant)
        cells = []
        for measure in ("lambda1", "participation", "mean_cosine"):
            of_draws = values[measure].to_numpy(float)
            mean = float(of_draws.mean()) if len(of_draws) else np.nan
            deviation = float(of_draws.std(ddof=1)) if len(of_draws) > 1 else np.nan
            cells.append(plus_minus(mean, deviation, 3))
        largest, without, count = largest_t_star(model, variant, "q_token")
        last = (f"{without} of {count}", str(failed_draws(model, variant)))
        yield (variant, *cells, short_number(largest) or "none", *last)
