"""Checks of the teachers: their datasets are whole."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedscan.experiments.teachers.datasets import read_datasets
from fedscan.experiments.teachers.grid import shape_path
from fedscan.models.selective_ssm.layout import Shape
from fedscan.pipeline.checks import Check


def checks(settings: Mapping[str, Any], results: Path) -> Iterator[Check]:
    """Check every teacher's dataset against its digests.

    Args:
        settings: ``shapes`` (list of D, N), ``rhos``, ``sequence_length``.
        results: folder of all results.

    Yields:
        One check per (D, N).
    """
    for shape in settings["shapes"]:
        path = shape_path(*shape)
        yield _teachers(Shape(*shape), path, settings, results)


def _teachers(shape: Shape, path: str, settings: Mapping[str, Any], results: Path) -> Check:
    name, folder = "teachers' datasets are whole", results / "teachers" / path
    try:
        found = read_datasets(folder, shape, settings["sequence_length"])
    except ValueError as error:
        return Check(name, path, False, str(error))
    same = sorted(found) == sorted(settings["rhos"])
    return Check(name, path, same, f"{len(found)} of {len(settings['rhos'])}, digests verified")
