"""Parts of ``gpu.py`` that measure time: the machine's peaks, a local step, a paper run."""

import subprocess
import tempfile
import time
from pathlib import Path

import gpu_bench as gb
import torch

from fedscan.experiments.comparison.rows import Record
from fedscan.federated import engine
from fedscan.io import checkpoints
from fedscan.models.chunked_loss import chunked_loss

QUERY = "name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.limit,temperature.gpu"
GOAL_MINUTES, PAPER_MINUTES, PAPER_ROUNDS = 3.0, 30.0, 50


def environment(bench):
    """Clocks, matrix-product rates and copy bandwidth of the machine."""
    if bench.device == "cuda":
        command = ["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        bench.add(f"nvidia-smi {QUERY}", done.stdout.strip() or done.stderr.strip(), "")
    bench.add("torch", torch.__version__, "")
    side = 64 if bench.tiny else 8192
    for name, dtype, tf32 in (
        ("float16", torch.float16, False),
        ("bfloat16", torch.bfloat16, False),
        ("float32", torch.float32, False),
        ("float32 with TF32", torch.float32, True),
    ):
        rate = _product_rate(bench.device, (side, side, side), dtype, tf32)
        bench.add(f"{name} matrix product, {side}^3", rate, "TFLOP/s")
    rows, vocabulary = (64, 128) if bench.tiny else (4096, 50280)
    rate = _product_rate(bench.device, (rows, 256, vocabulary), torch.float16, False)
    bench.add(f"float16 matrix product of the head, {rows} x 256 x {vocabulary}", rate, "TFLOP/s")
    source = torch.randn(1 << (12 if bench.tiny else 30), device=bench.device)
    target = torch.empty_like(source)
    spent = gb.seconds(lambda: target.copy_(source), bench.device)
    moved = 2 * source.numel() * source.element_size()
    bench.add("copy on the device, read + written", moved / spent / 1e12, "TB/s")


def _product_rate(device, sides, dtype, tf32):
    torch.backends.cuda.matmul.allow_tf32 = tf32
    m, k, n = sides
    a, b = (torch.randn(s, device=device).to(dtype) for s in ((m, k), (k, n)))
    out = torch.empty(m, n, dtype=dtype, device=device)
    spent = gb.seconds(lambda: torch.mm(a, b, out=out), device, 0.5)
    torch.backends.cuda.matmul.allow_tf32 = False
    return 2 * m * k * n / spent / 1e12


def step(bench):
    """Time and memory of a local step, eager and recorded, and of its pieces."""
    gb.exact_products()
    side = 64 if bench.tiny else 8192
    peak = _product_rate(bench.device, (side, side, side), torch.float16, False)
    bench.add("float16 matrix product, peak for utilisation", peak, "TFLOP/s")
    wanted = [("float16", "eager"), ("float16", "cuda_graph")]
    if bench.kernels == "torch":
        wanted += [("float32", "eager"), ("float32", "cuda_graph"), ("bfloat16", "cuda_graph")]
    if bench.device == "cpu":
        wanted = [("float32", "eager"), ("bfloat16", "cuda_graph")]
    for depth in (4, 16):
        for precision, mode in wanted:
            label = f"depth {depth}, {bench.kernels}, {precision}, {mode}"
            bench.attempt(label, _step, bench, label, depth, precision, mode, peak)
    bench.attempt("head", _head, bench)
    bench.attempt("evaluation", _evaluation, bench)


def _step(bench, label, depth, precision, mode, peak):
    size = gb.paper(depth, 64, bench.tiny)._replace(validation=4)
    problem = gb.problem(size, precision, bench.device, bench.kernels)
    algorithm = gb.algorithm("fedavg", size.shape)
    phase, start = gb.phase(mode, problem, algorithm, bench.device), gb.context(problem, algorithm)
    if bench.device == "cuda":
        torch.cuda.reset_peak_memory_stats()

    def run():
        return phase(problem, algorithm, start, 0)

    begun = time.perf_counter()
    outcome = run()
    bench.add(f"{label}: first phase, compilation included", time.perf_counter() - begun, "s")
    bench.add(f"{label}: loss after {size.local_steps} steps", outcome.losses[-1], "nats")
    spent = gb.seconds(run, bench.device, 1.5, 2) / size.local_steps
    bench.add(f"{label}: local step", 1000 * spent, "ms")
    bench.add(f"{label}: rate", size.batch * size.length / spent, "tokens/s")
    work = gb.operations(size) / spent / 1e12
    bench.add(f"{label}: rate of the model's operations", work, "TFLOP/s")
    bench.add(f"{label}: utilisation of the float16 peak", 100 * work / peak, "%")
    bench.add(f"{label}: steps skipped by loss scaling", outcome.skipped_steps, "steps")
    if bench.device == "cuda":
        bench.add(f"{label}: peak memory", torch.cuda.max_memory_allocated() / 2**30, "GiB")


def _head(bench):
    """The head's loss with both gradients, by rows of logits that exist at one time."""
    size, narrow = gb.paper(4, 1, bench.tiny), torch.float16
    narrow = torch.bfloat16 if bench.device == "cpu" else narrow
    count = size.batch * (size.length - 1)
    ids = gb.tokens(size.shape, 1, count, "head")[0].astype("int64")
    targets = torch.from_numpy(ids).to(bench.device)
    hidden = torch.randn(count, size.shape.d_model, device=bench.device, requires_grad=True)
    weight = torch.randn(size.shape.padded_vocab_size, size.shape.d_model, device=bench.device)
    weight = (0.02 * weight).requires_grad_()
    for rows in (512, 1024, 2048, 4096):

        def backward(rows=rows):
            with torch.autocast(bench.device, dtype=narrow):
                loss = chunked_loss(hidden, weight, targets, rows)
            torch.autograd.grad(loss, [hidden, weight])

        spent = gb.seconds(backward, bench.device, 0.3)
        bench.add(f"head, loss and gradients, {rows} rows at a time", 1000 * spent, "ms")

    def whole():
        with torch.autocast(bench.device, dtype=narrow):
            logits = torch.nn.functional.linear(hidden, weight)
            loss = torch.nn.functional.cross_entropy(logits, targets)
        torch.autograd.grad(loss, [hidden, weight])

    bench.add("head, torch with all logits", 1000 * gb.seconds(whole, bench.device, 0.3), "ms")


def _evaluation(bench):
    precision = "float32" if bench.device == "cpu" else "float16"
    for depth in (4, 16):
        for batch in (64, 16):
            size = gb.paper(depth, 1, bench.tiny)
            count = size.validation if bench.tiny else 1024
            size = size._replace(validation=count, eval_batch=batch)
            problem = gb.problem(size, precision, bench.device, bench.kernels)
            params = problem.initial_params()
            spent = gb.seconds(lambda p=problem, x=params: p.evaluate(x), bench.device, 1.0, 2)
            label = f"depth {depth}, {bench.kernels}, evaluation, {batch} sequences at a time"
            bench.add(label, count * size.length / spent, "tokens/s")


def run(bench, rounds, budget):
    """A paper run, depth 4, E = 64, K = 4, with everything a job measures and stores."""
    size = gb.paper(4, 64, bench.tiny)
    precision = "float32" if bench.device == "cpu" else "float16"
    begun = time.perf_counter()
    problem = gb.problem(size, precision, bench.device, bench.kernels, sequences=7428)
    algorithm = gb.algorithm("fedavg", size.shape)
    phase = gb.phase("cuda_graph", problem, algorithm, bench.device)
    clock, record = _Clock(bench.device), Record()
    problem.evaluate = clock.around("evaluation", problem.evaluate)
    phase = clock.around("local phases", phase)
    store = clock.around("checkpoint", _store)
    add = clock.around("measurements", record.add)
    state, times = engine.initial_state(problem, algorithm), []
    with tempfile.TemporaryDirectory() as folder:
        for result in engine.run(problem, algorithm, rounds, state, phase):
            add(result, problem, "-")
            store(Path(folder, "state.safetensors"), result.state)
            gb.wait(bench.device)
            times.append(time.perf_counter() - begun - sum(times))
            if time.perf_counter() - begun > budget:
                break
    done, total = len(times), sum(times)
    later = sorted(times[1:])[len(times[1:]) // 2] if done > 1 else times[0]
    bench.add("first round, start-up and compilation included", times[0], "s")
    bench.add("a later round, median", later, "s")
    for part, spent in clock.spent.items():
        bench.add(f"share of {part}, all rounds", 100 * spent / total, "%")
    bench.add(f"{done} rounds as measured", total / 60, "min")
    projected = (times[0] + later * (PAPER_ROUNDS - 1)) / 60
    bench.add(f"{PAPER_ROUNDS} rounds, projected from the median", projected, "min")
    bench.add("the paper's time on an H100 / ours", PAPER_MINUTES / projected, "x")
    bench.add(f"goal of {GOAL_MINUTES:g} minutes is met", float(projected < GOAL_MINUTES), "")
    bench.add("validation loss, first and last round", f"{_losses(record)}", "nats")


def _losses(record):
    return f"{record.rounds[0]['val_loss']:.4f} {record.rounds[-1]['val_loss']:.4f}"


def _store(path, state):
    arrays = {name: tensor.cpu().numpy() for name, tensor in state.params.items()}
    checkpoints.save(path, arrays, {"round": state.round_index})


class _Clock:
    """Adds up the time of some functions; waits for the device before and after."""

    def __init__(self, device):
        self.device, self.spent = device, {}

    def around(self, part, function):
        def timed(*arguments):
            gb.wait(self.device)
            start = time.perf_counter()
            found = function(*arguments)
            gb.wait(self.device)
            self.spent[part] = self.spent.get(part, 0.0) + time.perf_counter() - start
            return found

        return timed


def profile(bench):
    """Where a recorded step's time goes on the device: its longest kernels."""
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiler

    size = gb.paper(4, 16, bench.tiny)
    precision = "float32" if bench.device == "cpu" else "float16"
    problem = gb.problem(size, precision, bench.device, bench.kernels)
    algorithm = gb.algorithm("fedavg", size.shape)
    phase = gb.phase("cuda_graph", problem, algorithm, bench.device)
    start = gb.context(problem, algorithm)
    phase(problem, algorithm, start, 0)
    kinds = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (bench.device == "cuda")
    with profiler(activities=kinds) as found:
        phase(problem, algorithm, start, 0)
        gb.wait(bench.device)
    on_device = bench.device == "cuda"
    # Operations on the CPU carry their kernels' time too: it would count twice.
    kind = DeviceType.CUDA if on_device else DeviceType.CPU
    events = [event for event in found.key_averages() if event.device_type == kind]
    times = [(e.self_device_time_total if on_device else e.self_cpu_time_total, e) for e in events]
    times.sort(key=lambda pair: -pair[0])
    total = sum(spent for spent, _ in times)
    bench.add("device time of a step, all kernels", total / 1000 / size.local_steps, "ms")
    launches = sum(e.count for spent, e in times if spent > 0) / size.local_steps
    bench.add("kernels of a step", launches, "")
    for spent, event in times[:40]:
        calls = f"{event.count / size.local_steps:.1f} calls"
        bench.add(f"{event.key[:90]}, {calls}", spent / size.local_steps, "us a step")
