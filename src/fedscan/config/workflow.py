"""How jobs are run."""

import re
from typing import Annotated

from annotated_types import Ge, Len
from pydantic import AfterValidator, Field

from fedscan.config.types import Count, Section, distinct


def _gpu(name: int | str) -> int | str:
    if name < 0 if isinstance(name, int) else not re.fullmatch(r"(GPU|MIG)-[\w/-]+", name):
        raise ValueError("expected an index, or a UUID that begins with GPU- or MIG-")
    return name


Gpu = Annotated[int | str, AfterValidator(_gpu)]


class Workflow(Section):
    """How jobs behave; changes no number."""

    rerun_on_code_change: bool = Field(
        description="true: retrain when the code of a training changes; false: keep and flag it"
    )
    keep_final_model: bool = Field(description="keep each run's last global model beside its table")
    keep_model_rounds: Annotated[list[Annotated[int, Ge(0)]], AfterValidator(distinct)] = Field(
        description="rounds after which each run's global model is kept as well; 0: the initial one"
    )
    gpus: Annotated[list[Gpu], Len(min_length=1)] | None = Field(
        description="GPUs that jobs may use, by nvidia-smi's index or UUID (GPU-… or MIG-…);"
        " null: all of this machine"
    )
    jobs_per_gpu: Count = Field(description="jobs that share one GPU")
