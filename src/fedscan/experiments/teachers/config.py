"""The bank of teachers; sections of what is done with them join this one."""

from typing import Annotated

from annotated_types import Ge, Le
from pydantic import Field

from fedscan.config.types import Grid, OpenShare, Section


class Synthetic(Section):
    """Teachers, their datasets, and the bounds checked on them (paper, Section 5 part i)."""

    d_input: Grid[Annotated[int, Ge(2), Le(64)]] = Field(description="input sizes D, tokens")
    d_state: Grid[Annotated[int, Ge(1), Le(256)]] = Field(description="state sizes N")
    rhos: Grid[OpenShare] = Field(description="stability limits rho")
    sequence_length: Annotated[int, Ge(2)] = Field(description="stored tokens per sequence S")
    burn_in: Annotated[int, Ge(0)] = Field(description="tokens discarded before the stored ones")
    train_sequences: Annotated[int, Ge(2)] = Field(description="training sequences per teacher")
    test_sequences: Annotated[int, Ge(2)] = Field(description="test sequences per teacher")
