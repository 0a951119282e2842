"""Types of configuration values: ranges, grids, sections."""

from typing import Annotated, Any, TypeVar

from annotated_types import Ge, Le, Len, Lt
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from fedscan.ranges import Count, Momentum, NonNegative, OpenShare, Positive, Share

__all__ = [
    "Count", "Grid", "Momentum", "Name", "NonNegative", "OpenShare", "Positive", "Problem",
    "Section", "Seed", "SettingName", "Share", "Threads", "distinct",
]  # fmt: skip

T = TypeVar("T")
# (location, value, message): what is wrong between keys.
Problem = tuple[tuple[str | int, ...], Any, str]


def distinct(values: list[T]) -> list[T]:
    """Refuse a value that appears twice.

    Args:
        values: entries of a list of the configuration.

    Returns:
        The same list.

    Raises:
        ValueError: names the value.
    """
    for index, value in enumerate(values):
        if value in values[:index]:
            raise ValueError(f"the value {value!r} appears twice; each may appear once")
    return values


Grid = Annotated[list[T], Len(min_length=1), AfterValidator(distinct)]
# More would end the process without a word.
Threads = Annotated[int, Ge(1), Le(1024)]
Seed = Annotated[int, Ge(0), Lt(2**31)]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=40)]
SettingName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$", max_length=40)]


class Section(BaseModel):
    """A part of the configuration: no extra keys, no coercion, no NaN or infinity."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
