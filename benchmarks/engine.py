"""What a round costs beyond its gradients, and a tiny round against Flower's simulation.

The tiny model is a bilinear bigram model with 200 parameters on sequences of 64 tokens, batch 64.
Flower runs in the same process tree if it is installed; otherwise its rows are missing.
"""

import statistics
import time

import numpy as np
import torch
from environment import record

from fedscan.federated import engine
from fedscan.federated.algorithms import ALGORITHMS
from fedscan.measure.drift import drift
from fedscan.models.architecture import Architecture, layout
from fedscan.models.initialise import initialise
from fedscan.pipeline.machine import keep_freed_memory
from fedscan.problems.language_model import LanguageModelProblem, Schedule

TOKENS, RANK, CLIENTS, ROUNDS = 20, 5, 4, 30


class Bigram:
    """Logits tanh(U)[token] V: 20 x 5 + 5 x 20 parameters."""

    def __init__(self, local_steps):
        rng = np.random.default_rng(0)
        self.data = [torch.from_numpy(rng.integers(0, TOKENS, (4096, 64))) for _ in range(CLIENTS)]
        self.weights = [1 / CLIENTS] * CLIENTS
        self.local_steps, self.learning_rate = local_steps, 0.05
        self.clip_norm = self.loss_scale = None

    def initial_params(self):
        g = torch.Generator().manual_seed(0)
        return {
            "U": 0.1 * torch.randn(TOKENS, RANK, generator=g),
            "V": 0.1 * torch.randn(RANK, TOKENS, generator=g),
        }

    def batches(self, client, round_index):
        rng = np.random.default_rng([client, round_index])
        for _ in range(self.local_steps):
            yield self.data[client][torch.from_numpy(rng.integers(0, 4096, 64))]

    def gradient(self, params, batch, scale):
        leaves = {name: tensor.detach().requires_grad_() for name, tensor in params.items()}
        with torch.enable_grad():
            logits = (torch.tanh(leaves["U"]) @ leaves["V"])[batch[:, :-1].reshape(-1)]
            loss = torch.nn.functional.cross_entropy(logits, batch[:, 1:].reshape(-1))
        gradients = torch.autograd.grad(loss, list(leaves.values()))
        return loss.detach(), dict(zip(leaves, gradients, strict=True))

    def optimizer(self, tensors):
        return torch.optim.SGD(tensors, lr=self.learning_rate)

    def evaluate(self, params):
        return 0.0


def seconds_per_round(problem, rounds=ROUNDS):
    algorithm = ALGORITHMS["fedavg"]()
    state = engine.initial_state(problem, algorithm)
    times = []
    start = time.perf_counter()
    for _ in engine.run(problem, algorithm, rounds, state):
        times.append(time.perf_counter() - start)
        start = time.perf_counter()
    return statistics.median(times[1:])


def language_model_overhead():
    """CPU seconds of a round, of its gradients alone, and of its measurements."""
    model = initialise(Architecture(layout(4), 256, 128, 4, 2, 64, 1, 8, 50277, 8, 64), 0)
    rng = np.random.default_rng(0)
    train = [rng.integers(0, 50257, (40, 256)).astype(np.uint16)]
    schedule = Schedule(16, 8, 1e-3, (0.9, 0.999), 1e-8, 0.01, 1.0, 16)
    problem = LanguageModelProblem(model, train, train[0][:2], schedule, 0, "float32", "cpu")
    params = problem.initial_params()
    batch = next(iter(problem.batches(0, 1)))
    problem.gradient(params, batch, 1.0)
    start = time.process_time()
    for batch in problem.batches(0, 1):
        problem.gradient(params, batch, 1.0)
    gradients = time.process_time() - start
    start = time.process_time()
    problem.evaluate(params)
    evaluation = time.process_time() - start
    algorithm = ALGORITHMS["fedavg"]()
    state = engine.initial_state(problem, algorithm)
    start = time.process_time()
    result = next(engine.run(problem, algorithm, 1, state))
    whole = time.process_time() - start
    start = time.process_time()
    moved = (result.updates, problem.weights, result.mean_update, result.previous)
    drift(*moved, result.state.params)
    problem.stability(result.state.params)
    return whole - evaluation, gradients, time.process_time() - start


def flower_seconds_per_round():
    """Seconds per round of Flower's simulation on the tiny problem, start-up excluded."""
    import flwr
    from flwr.client import ClientApp, NumPyClient
    from flwr.common import Context, ndarrays_to_parameters
    from flwr.server import ServerApp, ServerAppComponents, ServerConfig
    from flwr.server.strategy import FedAvg
    from flwr.simulation import run_simulation

    del flwr
    problem, stamps = Bigram(1), []

    class Client(NumPyClient):
        def __init__(self, client):
            self.client = client

        def fit(self, parameters, config):
            params = dict(zip("UV", map(torch.from_numpy, parameters), strict=True))
            for batch in problem.batches(self.client, int(config["round"])):
                _, gradient = problem.gradient(params, batch, 1.0)
                params = {k: v - problem.learning_rate * gradient[k] for k, v in params.items()}
            return [v.numpy() for v in params.values()], 1, {}

    def client_fn(context: Context):
        return Client(int(context.node_config["partition-id"])).to_client()

    class Stamped(FedAvg):
        def aggregate_fit(self, server_round, results, failures):
            stamps.append(time.perf_counter())
            return super().aggregate_fit(server_round, results, failures)

    start = [tensor.numpy() for tensor in problem.initial_params().values()]
    strategy = Stamped(
        fraction_evaluate=0.0,
        min_fit_clients=CLIENTS,
        min_available_clients=CLIENTS,
        on_fit_config_fn=lambda r: {"round": r},
        initial_parameters=ndarrays_to_parameters(start),
    )
    config = ServerConfig(num_rounds=ROUNDS)
    app = ServerApp(server_fn=lambda context: ServerAppComponents(strategy=strategy, config=config))
    run_simulation(app, ClientApp(client_fn=client_fn), CLIENTS)
    return statistics.median(np.diff(stamps)[1:])


def main():
    torch.set_num_threads(1)
    keep_freed_memory()
    rows = []
    whole, gradients, measured = language_model_overhead()
    rows.append(("paper's depth-4 model, 8 x 256, E=16: one client's round", whole, "CPU s"))
    rows.append(("the same: gradients alone", gradients, "CPU s"))
    rows.append(("the same: cost beyond gradients", 100 * (whole / gradients - 1), "%"))
    rows.append(("the same: measurements of a round / round", 100 * measured / whole, "%"))
    ours = seconds_per_round(Bigram(1))
    rows.append(("tiny model, K=4, E=1: round", 1000 * ours, "ms"))
    try:
        theirs = flower_seconds_per_round()
    except ModuleNotFoundError:
        print("flwr is not installed: its row is missing")
    else:
        rows.append(("tiny model, K=4, E=1: Flower's round", 1000 * theirs, "ms"))
        rows.append(("tiny model: ours is faster by", theirs / ours, "x"))
    record("engine", rows, 1)


if __name__ == "__main__":
    main()
