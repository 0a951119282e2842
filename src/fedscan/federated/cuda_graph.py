"""Recording a step as a CUDA graph: the one place of the federated core that knows a device."""

from collections.abc import Callable

import torch

# Kernels are compiled and libraries set up before recording, which can do neither.
REHEARSALS = 3


def capture(step: Callable[[], None]) -> Callable[[], None]:
    """Record a step's launches.

    Args:
        step: runs on the current CUDA device, reads and writes fixed addresses, never waits for
            the device; may be run any number of times.

    Returns:
        A function that launches the whole step at once.

    Raises:
        ValueError: without a CUDA device.
    """
    if not torch.cuda.is_available():
        raise ValueError("a step is recorded as a CUDA graph on a CUDA device only; use 'eager'")
    side: torch.cuda.Stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(REHEARSALS):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    # A stream of its own: recordings on one stream share the matrix products' workspace.
    with torch.cuda.graph(graph, stream=side):
        step()
    replay: Callable[[], None] = graph.replay
    return replay
