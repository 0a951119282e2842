"""Settings and files of the bank of teachers. No torch: the Snakefile reads it."""

import itertools
from collections.abc import Mapping
from typing import Any

from fedscan.experiments.teachers.grid import shape_path
from fedscan.pipeline.experiment import Config
from fedscan.pipeline.keys import only


def shapes(config: Config) -> list[tuple[int, int]]:
    """Return the sizes (D, N) of the teachers.

    Args:
        config: the whole configuration.

    Returns:
        In grid order.
    """
    synthetic = config["synthetic"]
    return list(itertools.product(synthetic["d_input"], synthetic["d_state"]))


def of_shapes(config: Config, pattern: str) -> list[str]:
    """Return the files of every size.

    Args:
        config: the whole configuration.
        pattern: path with ``{d_input}`` and ``{d_state}``.

    Returns:
        One path per size.
    """
    return [pattern.format(d_input=d_input, d_state=d_state) for d_input, d_state in shapes(config)]


def teachers(config: Config, d_input: int, d_state: int) -> dict[str, Any]:
    """Return the settings of stage ``teachers``.

    Args:
        config: the whole configuration.
        d_input: D.
        d_state: N.

    Returns:
        What it uses.
    """
    names = ("rhos", "sequence_length", "burn_in", "train_sequences", "test_sequences")
    return {"d_input": d_input, "d_state": d_state, **only(config["synthetic"], *names)}


def files(config: Config) -> dict[str, dict[str, list[str]]]:
    """Return the files that say that jobs are done.

    Args:
        config: the whole configuration.

    Returns:
        Rule -> job -> files below results/.
    """
    jobs = [f"teachers/{shape_path(*shape)}" for shape in shapes(config)]
    names = ("teachers", "teacher_sequences")
    return {"teachers": {job: [f"{job}/{name}.parquet" for name in names] for job in jobs}}


def units(config: Config) -> dict[str, int]:
    """Count what the configuration asks for.

    Args:
        config: the whole configuration.

    Returns:
        Number of teachers.
    """
    return {"teachers": len(shapes(config)) * len(config["synthetic"]["rhos"])}


def checked(config: Config) -> Mapping[str, Any]:
    """Return the settings of the teachers' checks.

    Args:
        config: the whole configuration.

    Returns:
        Sizes, stability limits and length.
    """
    return {"shapes": shapes(config), **only(config["synthetic"], "rhos", "sequence_length")}
