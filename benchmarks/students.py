"""One base run of the synthetic study: ours, a plain PyTorch loop, Flower's simulation.

K=4 clients, E=16 steps of batch 64, T=60 rounds, D=N=8, 64 tokens. The plain loop and Flower's
clients train by autograd over the recurrence, as a user without the kernel would; Flower also with
our kernel, to separate its own cost. Few rounds of the slow ones are timed and scaled to T.
"""

import statistics
import time

import numpy as np
import torch
from environment import record

from fedscan.experiments.teachers.candidates import draw, write
from fedscan.federated import engine
from fedscan.federated.algorithms import ALGORITHMS
from fedscan.models.selective_ssm import reference
from fedscan.models.selective_ssm.layout import BLOCKS, Shape
from fedscan.models.selective_ssm.stability import limits
from fedscan.pipeline.machine import keep_freed_memory
from fedscan.pipeline.runner import keep_compiled_kernels
from fedscan.problems.teacher_student import TeacherStudentProblem, phase_of, projected, shards

SHAPE, CLIENTS, STEPS, ROUNDS, RATE = Shape(8, 8), 4, 16, 60, 0.05
SLOW_ROUNDS = 2


def problem():
    teacher = draw(SHAPE, 0.95, 0, 0.5, 1.0)
    train = write(teacher, "train", 4096, 16, 64)
    test = write(teacher, "test", 64, 16, 64)
    parts = shards(train, CLIENTS, "iid", 0)
    return TeacherStudentProblem(SHAPE, teacher.margins, parts, test, STEPS, 64, RATE, 0)


def shared_problem():
    """Keep a worker's problem on an imported module: Ray sends this file's functions anew."""
    if not hasattr(engine, "benchmark_problem"):
        engine.benchmark_problem = problem()
    return engine.benchmark_problem


def ours(bench):
    algorithm = projected(ALGORITHMS["fedavg"](), bench.margins)
    phase = phase_of(algorithm)
    state = engine.initial_state(bench, algorithm)
    list(engine.run(bench, algorithm, 1, state, phase))  # compiles
    start = time.perf_counter()
    list(engine.run(bench, algorithm, ROUNDS, state, phase))
    return time.perf_counter() - start


def local_autograd(bench, params, client, round_index):
    """E projected SGD steps by autograd."""
    largest, smallest = map(float, limits(bench.margins, np.float32))
    leaves = {name: torch.tensor(value, requires_grad=True) for name, value in params.items()}
    for batch in bench.batches(client, round_index):
        loss = reference.sequence_losses([leaves], torch.from_numpy(batch)).mean()
        gradients = torch.autograd.grad(loss, list(leaves.values()))
        with torch.no_grad():
            for tensor, gradient in zip(leaves.values(), gradients, strict=True):
                tensor -= RATE * gradient
            leaves["A"].clamp_(max=largest)
            leaves["W_delta"].clamp_(min=smallest)
    return {name: tensor.detach().numpy() for name, tensor in leaves.items()}


def start_params(bench):
    return {name: tensor.numpy() for name, tensor in bench.initial_params().items()}


def plain_loop(bench):
    """Seconds of T rounds, from a few."""
    params = start_params(bench)
    start = time.perf_counter()
    for round_index in range(1, SLOW_ROUNDS + 1):
        local = [local_autograd(bench, params, k, round_index) for k in range(CLIENTS)]
        params = {n: np.mean([p[n] for p in local], axis=0, dtype=np.float32) for n in BLOCKS}
    return (time.perf_counter() - start) / SLOW_ROUNDS * ROUNDS


def flower(bench, compiled, rounds):
    """Seconds of T rounds of Flower's simulation, start-up excluded."""
    from flwr.client import ClientApp, NumPyClient
    from flwr.common import Context, ndarrays_to_parameters
    from flwr.server import ServerApp, ServerAppComponents, ServerConfig
    from flwr.server.strategy import FedAvg
    from flwr.simulation import run_simulation

    from fedscan.models.selective_ssm import cpu
    from fedscan.models.selective_ssm.layout import Blocks, blocks, flat

    stamps = []

    class Client(NumPyClient):
        def __init__(self, client):
            self.client = client

        def fit(self, parameters, config):
            torch.set_num_threads(1)
            mine, round_index = shared_problem(), int(config["round"])
            if compiled:
                phase = cpu.local_steps(
                    flat(Blocks(*parameters)), mine.client_tokens[self.client],
                    mine.indices(self.client, round_index), SHAPE, mine.margins, RATE,
                )  # fmt: skip
                return [np.array(b) for b in blocks(phase.params, SHAPE)], 1, {}
            params = dict(zip(BLOCKS, parameters, strict=True))
            return list(local_autograd(mine, params, self.client, round_index).values()), 1, {}

    def client_fn(context: Context):
        return Client(int(context.node_config["partition-id"])).to_client()

    class Stamped(FedAvg):
        def aggregate_fit(self, server_round, results, failures):
            assert not failures, failures
            stamps.append(time.perf_counter())
            return super().aggregate_fit(server_round, results, failures)

    strategy = Stamped(
        fraction_evaluate=0.0,
        min_fit_clients=CLIENTS,
        min_available_clients=CLIENTS,
        on_fit_config_fn=lambda r: {"round": r},
        initial_parameters=ndarrays_to_parameters(list(start_params(bench).values())),
    )
    config = ServerConfig(num_rounds=rounds)
    app = ServerApp(server_fn=lambda context: ServerAppComponents(strategy=strategy, config=config))
    run_simulation(app, ClientApp(client_fn=client_fn), CLIENTS)
    return statistics.median(np.diff(stamps)) * ROUNDS


def main():
    torch.set_num_threads(1)
    keep_compiled_kernels()
    keep_freed_memory()
    bench = problem()
    mine = ours(bench)
    plain = plain_loop(bench)
    rows = [
        ("base run, ours", mine, "s"),
        ("base run, plain PyTorch loop (from 2 rounds)", plain, "s"),
        ("ours is faster than the plain loop by", plain / mine, "x"),
    ]
    try:
        theirs = flower(bench, compiled=False, rounds=4)
    except ModuleNotFoundError:
        print("flwr is not installed: its rows are missing")
    else:
        kernel = flower(bench, compiled=True, rounds=12)
        rows += [
            ("base run, Flower's simulation, autograd (from 3 rounds)", theirs, "s"),
            ("ours is faster than Flower by", theirs / mine, "x"),
            ("base run, Flower's simulation with our kernel", kernel, "s"),
            ("with our kernel in both, ours is faster by", kernel / mine, "x"),
        ]
    record("students", rows, 1)


if __name__ == "__main__":
    main()
