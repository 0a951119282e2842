"""Sources of labelled records: name -> function of (task, split, own configuration keys)."""

from collections.abc import Callable

from fedscan.data.tasks import huggingface, local, synthetic
from fedscan.data.tasks.definition import Pool

TASK_SOURCES: dict[str, Callable[..., Pool]] = {
    "synthetic": synthetic.pool,
    "local": local.pool,
    "huggingface": huggingface.pool,
}
