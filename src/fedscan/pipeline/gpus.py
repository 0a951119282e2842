"""The GPUs of this machine, without opening CUDA.

``nvidia-smi -L`` names them by UUID. The numbers of the device files do not say how CUDA counts: a
container that is given /dev/nvidia3 alone calls it 0, and a card split by MIG is one file.
"""

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

COMMAND = ("nvidia-smi", "-L")
# A driver that hangs is no reason to wait for ever.
LIMIT_SECONDS = 60
LINE = re.compile(r"^(?P<indent>\s*)(GPU (?P<index>\d+)|MIG) ?.*\(UUID: (?P<uuid>[^)\s]+)\)\s*$")


class Card(NamedTuple):
    """A physical GPU."""

    index: int  # type: ignore[assignment]  # as nvidia-smi counts; hides tuple.index
    name: str  # its UUID; without nvidia-smi, its index
    devices: tuple[str, ...]  # what CUDA can be given: its MIG devices, or itself


def cards() -> list[Card]:
    """List the GPUs that this process can reach.

    Returns:
        In nvidia-smi's order; without nvidia-smi, one for every device file.

    Raises:
        ValueError: if ``nvidia-smi`` is there and fails, or does not answer.
    """
    try:
        done = subprocess.run(COMMAND, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    except FileNotFoundError:
        files = list(Path("/dev").glob("nvidia[0-9]*"))
        return [Card(index, str(index), (str(index),)) for index in range(len(files))]
    except subprocess.TimeoutExpired:
        raise ValueError(f"'nvidia-smi -L' did not answer within {LIMIT_SECONDS} s") from None
    except OSError as error:
        raise ValueError(f"'nvidia-smi -L' cannot be run: {error}") from None
    if done.returncode:
        said = " ".join((done.stdout + done.stderr).split())
        raise ValueError(f"'nvidia-smi -L' failed: {said or f'exit code {done.returncode}'}")
    return listed(done.stdout)


def listed(text: str) -> list[Card]:
    """Read what ``nvidia-smi -L`` prints.

    Args:
        text: a line per GPU, and below it an indented one per MIG device.

    Returns:
        The GPUs in order.
    """
    found: list[Card] = []
    for match in filter(None, map(LINE.match, text.splitlines())):
        if match["index"] is not None:
            found.append(Card(int(match["index"]), match["uuid"], ()))
        elif found:
            card = found[-1]
            found[-1] = card._replace(devices=(*card.devices, match["uuid"]))
    return [card if card.devices else card._replace(devices=(card.name,)) for card in found]
