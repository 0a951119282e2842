"""How jobs are run."""

from typing import Annotated

from annotated_types import Ge, Len
from pydantic import Field

from fedscan.config.types import Count, Section


class Workflow(Section):
    """How jobs behave; changes no number."""

    rerun_on_code_change: bool = Field(
        description="true: retrain when the code of a training changes; false: keep and flag it"
    )
    keep_final_model: bool = Field(description="keep each run's last global model beside its table")
    gpus: Annotated[list[Annotated[int, Ge(0)]], Len(min_length=1)] | None = Field(
        description="indices of the GPUs that training jobs may use; null: all of this machine"
    )
    jobs_per_gpu: Count = Field(description="training jobs that share one GPU")
