"""The federated run that peers.py measures, in each peer. The peers differ in what is listed here.

All start from the same weights and train on the same batches with a fresh AdamW per client and
round, gradients clipped to norm 1, float32, one thread. fedscan evaluates after every round, on
two tokens here, checks every loss and norm, and keeps freed memory as its training jobs do; its
AdamW is torch's fused kernel, the other peers' torch.optim.AdamW as it comes. transformers computes
the logits of the last position too. Flower sends tied weights once, and its two actors keep their
model between rounds and work side by side. pfl evaluates in the first round, which is not timed,
and does not print its metrics. In float64 transformers still computes parts in float32, and pfl
the mean of the updates.
"""

import functools
from typing import NamedTuple

import numpy as np
import torch

from fedscan.data.sampling import batch_indices
from fedscan.models.architecture import Architecture, layout
from fedscan.models.initialise import initialise

SEED, CLIENTS, SEQUENCES, BATCH = 0, 4, 64, 8
RATE, BETAS, EPS, DECAY, CLIP = 1e-3, (0.9, 0.999), 1e-8, 0.01, 1.0
ADAMW = functools.partial(torch.optim.AdamW, betas=BETAS, eps=EPS, weight_decay=DECAY)
WARM = 2  # rounds before those that are timed: imports and caches of every worker


class Case(NamedTuple):
    """A model and its rounds."""

    shape: Architecture
    length: int
    local_steps: int
    timed: int  # rounds
    dtype: torch.dtype = torch.float32


TINY = Architecture(layout(1), 32, 16, 4, 2, 16, 1, 8, 512, 8, 64)
SMALL = Architecture(layout(2), 64, 32, 4, 2, 32, 1, 8, 4096, 8, 64)
CASES = {
    "tiny-1": Case(TINY, 64, 1, 40),
    "tiny-4": Case(TINY, 64, 4, 20),
    "small-4": Case(SMALL, 128, 4, 5),
}


@functools.cache
def data(case):
    """Random tokens, (sequences, length) per client."""
    rng = np.random.default_rng(SEED)
    size = (SEQUENCES, case.length)
    return [rng.integers(0, case.shape.vocab_size, size).astype(np.uint16) for _ in range(CLIENTS)]


def start(case):
    """The model with the weights that all peers start from."""
    return initialise(case.shape, SEED).to(case.dtype)


def batches(case, client, round_index):
    """The batches that fedscan's problem draws."""
    drawn = (SEED, client, round_index, SEQUENCES, case.local_steps, BATCH)
    for rows in batch_indices(*drawn):
        yield torch.from_numpy(data(case)[client][rows].astype(np.int64))


def arrays(model):
    """Parameters by name; tied weights appear once."""
    return {name: tensor.detach().numpy() for name, tensor in model.named_parameters()}


def run_fedscan(case, round_done):
    from fedscan.federated import engine
    from fedscan.federated.algorithms import ALGORITHMS
    from fedscan.pipeline.machine import keep_freed_memory
    from fedscan.problems.language_model import LanguageModelProblem, Schedule

    keep_freed_memory()
    schedule = Schedule(case.local_steps, BATCH, RATE, BETAS, EPS, DECAY, CLIP, 1)
    validation = data(case)[0][:1, :2]
    bound = (start(case), data(case), validation, schedule, SEED)
    problem, algorithm = LanguageModelProblem(*bound, "float32", "cpu"), ALGORITHMS["fedavg"]()
    state = engine.initial_state(problem, algorithm)
    for result in engine.run(problem, algorithm, WARM + case.timed, state):
        state = result.state
        round_done()
    return {name: tensor.numpy() for name, tensor in state.params.items()}


def train(model, loss, client_batches):
    """A client's local steps as a user would write them."""
    optimizer = ADAMW(model.parameters(), lr=RATE)
    for ids in client_batches:
        optimizer.zero_grad()
        loss(ids).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()


def plain_loop(case, round_done, model, loss):
    def copy():
        return {name: tensor.clone() for name, tensor in model.state_dict().items()}

    weights = copy()
    for round_index in range(1, WARM + case.timed + 1):
        local = []
        for client in range(CLIENTS):
            model.load_state_dict(weights)
            train(model, loss, batches(case, client, round_index))
            local.append(copy())
        weights = {name: sum(w[name] for w in local) / CLIENTS for name in weights}
        round_done()
    model.load_state_dict(weights)
    return arrays(model)


def run_plain(case, round_done):
    model = start(case)
    return plain_loop(case, round_done, model, model.loss)


def run_transformers(case, round_done):
    from transformers import Mamba2Config, Mamba2ForCausalLM

    shape, ours, theirs = case.shape, "backbone.embedding.", "backbone.embeddings."
    config = Mamba2Config(
        num_heads=shape.expand * shape.d_model // shape.headdim, head_dim=shape.headdim,
        vocab_size=shape.padded_vocab_size, hidden_size=shape.d_model, state_size=shape.d_state,
        num_hidden_layers=shape.depth, layer_norm_epsilon=1e-5, expand=shape.expand,
        conv_kernel=shape.d_conv, n_groups=1, use_bias=False, use_conv_bias=True,
        residual_in_fp32=True, chunk_size=shape.chunk_size, tie_word_embeddings=True,
        time_step_limit=(0.0, float("inf")), pad_token_id=0, bos_token_id=0, eos_token_id=0,
        use_cache=False,
    )  # fmt: skip
    model = Mamba2ForCausalLM(config).to(case.dtype)
    renamed = {name.replace(ours, theirs): v for name, v in start(case).state_dict().items()}
    model.load_state_dict(renamed)
    model.train()
    final = plain_loop(case, round_done, model, lambda ids: model(ids, labels=ids).loss)
    return {name.replace(theirs, ours): value for name, value in final.items()}


@functools.cache
def kept_model(case):
    """The model of a worker of Flower's, made once in each."""
    torch.set_num_threads(1)
    return start(case)


def fit(case, client, round_index, received):
    """A client's round on arrays in the order of the model's parameters."""
    model = kept_model(case)
    with torch.no_grad():
        for tensor, value in zip(model.parameters(), received, strict=True):
            tensor.copy_(torch.from_numpy(value))
    train(model, model.loss, batches(case, client, round_index))
    return list(arrays(model).values())


def run_flower(case, round_done):
    from flwr.client import ClientApp, NumPyClient
    from flwr.common import Context, ndarrays_to_parameters, parameters_to_ndarrays
    from flwr.server import ServerApp, ServerAppComponents, ServerConfig
    from flwr.server.strategy import FedAvg
    from flwr.simulation import run_simulation

    first, final = arrays(start(case)), []

    class Client(NumPyClient):
        def __init__(self, client):
            self.client = client

        def fit(self, parameters, config):
            return fit(case, self.client, int(config["round"]), parameters), 1, {}

    def client_fn(context: Context):
        return Client(int(context.node_config["partition-id"])).to_client()

    class Stamped(FedAvg):
        def aggregate_fit(self, server_round, results, failures):
            assert not failures, failures
            mean, metrics = super().aggregate_fit(server_round, results, failures)
            final[:] = parameters_to_ndarrays(mean)
            round_done()
            return mean, metrics

    strategy = Stamped(
        fraction_evaluate=0.0,
        min_fit_clients=CLIENTS,
        min_available_clients=CLIENTS,
        on_fit_config_fn=lambda r: {"round": r},
        initial_parameters=ndarrays_to_parameters(list(first.values())),
    )
    config = ServerConfig(num_rounds=WARM + case.timed)
    app = ServerApp(server_fn=lambda context: ServerAppComponents(strategy=strategy, config=config))
    two_actors = {"init_args": {"num_cpus": 2}, "client_resources": {"num_cpus": 1}}
    run_simulation(app, ClientApp(client_fn=client_fn), CLIENTS, backend_config=two_actors)
    return dict(zip(first, final, strict=True))


def run_pfl(case, round_done):
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel

    class Stamped(TrainingProcessCallback):
        def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
            round_done()
            return False, Metrics()

    rounds = WARM + case.timed
    model = start(case)
    model.metrics = lambda ids: {}  # pfl asks for it
    # A user of a round has that round's sequences, in order: an epoch is the round's local steps.
    users = iter([(client, r) for r in range(1, rounds + 1) for client in range(CLIENTS)])
    federated = FederatedDataset(
        lambda user: PyTorchTensorDataset((torch.cat(list(batches(case, *user))),), str(user)),
        users.__next__,
    )
    FederatedAveraging().run(
        NNAlgorithmParams(rounds, rounds, CLIENTS, None),
        SimulatedBackend(training_data=federated, val_data=federated),
        PyTorchModel(model, ADAMW, torch.optim.SGD(model.parameters(), lr=1.0)),
        NNTrainHyperParams(BATCH, 1, RATE, CLIP),
        NNEvalHyperParams(BATCH),
        [Stamped()],
        send_metrics_to_platform=False,
    )
    return arrays(model)


RUNS = {
    "fedscan": run_fedscan,
    "plain": run_plain,
    "transformers": run_transformers,
    "flower": run_flower,
    "pfl": run_pfl,
}
