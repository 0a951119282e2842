"""Settings and files of learners, evaluations and stacks. No torch: the Snakefile reads it."""

from collections.abc import Mapping
from typing import Any

from fedscan.experiments.teachers.grid import shape_path
from fedscan.experiments.teachers.plan import shapes
from fedscan.io.provenance import code_fingerprint, data_fingerprint
from fedscan.pipeline.experiment import Config
from fedscan.pipeline.keys import only, without

ROOM = "fedscan.experiments.bounds"


def learners(config: Config, d_input: int, d_state: int) -> dict[str, Any]:
    """Return the settings of stage ``learners``.

    Args:
        config: the whole configuration.
        d_input: D.
        d_state: N.

    Returns:
        What it uses.
    """
    synthetic = config["synthetic"]
    return {
        "d_input": d_input,
        "d_state": d_state,
        "sequence_length": synthetic["sequence_length"],
        "learners": without(synthetic["learners"], "bound_checkpoints"),
        "rerun_on_code_change": config["workflow"]["rerun_on_code_change"],
    }


def evaluation(config: Config, d_input: int, d_state: int) -> dict[str, Any]:
    """Return the settings of stage ``evaluation``.

    Args:
        config: the whole configuration.
        d_input: D.
        d_state: N.

    Returns:
        What it uses.
    """
    synthetic = config["synthetic"]
    return {
        "d_input": d_input,
        "d_state": d_state,
        "sequence_length": synthetic["sequence_length"],
        "learners": only(synthetic["learners"], "seeds", "updates", "bound_checkpoints"),
        "evaluation": synthetic["evaluation"],
    }


def stacks(config: Config) -> dict[str, Any]:
    """Return the settings of stage ``stacks``.

    Args:
        config: the whole configuration.

    Returns:
        What it uses.
    """
    synthetic = config["synthetic"]
    return {
        "sequence_length": synthetic["sequence_length"],
        "learners": only(synthetic["learners"], "seeds", "lr", "batch_size"),
        "evaluation": synthetic["evaluation"],
        "stacks": synthetic["stacks"],
    }


def bounds(config: Config) -> dict[str, Any]:
    """Return the settings of stage ``bounds``.

    Args:
        config: the whole configuration.

    Returns:
        What it uses.
    """
    return {"shapes": shapes(config), "published": data_fingerprint(f"{ROOM}.published")}


def files(config: Config) -> dict[str, dict[str, list[str]]]:
    """Return the files that say that jobs are done.

    Args:
        config: the whole configuration.

    Returns:
        Rule -> job -> files below results/.
    """
    paths = [shape_path(*shape) for shape in shapes(config)]
    measured = ("points", "gradients", "curvature", "trajectories", "violations")
    return {
        "learners": {f"learners/{p}": [f"learners/{p}/learners.parquet"] for p in paths},
        "evaluation": {
            f"evaluation/{p}": [f"evaluation/{p}/{name}.parquet" for name in measured]
            for p in paths
        },
        "stacks": {"stacks": ["stacks/stacks.parquet", "stacks/violations.parquet"]},
        "bounds": {"bounds": ["bounds/numbers.parquet"]},
    }


def units(config: Config) -> dict[str, int]:
    """Count what the configuration asks for.

    Args:
        config: the whole configuration.

    Returns:
        Number of learners.
    """
    synthetic = config["synthetic"]
    teachers = len(shapes(config)) * len(synthetic["rhos"])
    return {"learners": teachers * len(synthetic["learners"]["seeds"])}


def checked(config: Config) -> Mapping[str, Any]:
    """Return the settings of the checks of learners, evaluations and stacks.

    Args:
        config: the whole configuration.

    Returns:
        Sizes, seeds, checkpoints and the fingerprint of the learners' code.
    """
    synthetic = config["synthetic"]
    return {
        "shapes": shapes(config),
        "rhos": synthetic["rhos"],
        **only(synthetic["learners"], "seeds", "bound_checkpoints"),
        "learner_code": code_fingerprint(f"{ROOM}.learners"),
        "rerun_on_code_change": config["workflow"]["rerun_on_code_change"],
    }
