"""Parts of ``gpu.py`` that compare numbers: the analysed layer, the model, whole rounds."""

import time

import gpu_bench as gb
import numpy as np
import torch

from fedscan.federated import engine
from fedscan.models.architecture import layout
from fedscan.models.initialise import initialise
from fedscan.models.kernels import KERNELS
from fedscan.models.selective_ssm import cpu, reference
from fedscan.models.selective_ssm.layout import BLOCKS, Shape
from fedscan.params.algebra import norm
from fedscan.problems.language_model import INITIAL_LOSS_SCALE
from fedscan.seeds import generator


def selective(bench):
    """The analysed layer's GPU kernel against autograd over the recurrence, values and time."""
    for d in (4,) if bench.tiny else (4, 8, 16):
        bench.attempt(f"D=N={d}", _layer, bench, Shape(d, d))


def _layer(bench, shape):
    rng, label = generator(0, "benchmark layer", *shape), f"D=N={shape.d_input}"
    params = rng.normal(0, 0.3, shape.parameters)
    params[-shape.d_state :] = -1 - np.abs(params[-shape.d_state :])
    for count in (3,) if bench.tiny else (64, 4096):
        data = rng.integers(0, shape.d_input, (count, 64)).astype(np.uint8)
        if count <= 64:
            exact = _autograd(params, data, shape, bench.device)
            for dtype, limit in ((np.float64, 1e-11), (np.float32, 1e-4)):
                found = _kernel(bench)(params.astype(dtype), data, shape)
                name = f"{label}, {np.dtype(dtype).name}: relative error of"
                for what, ours, wanted in zip(("losses", "gradients"), found, exact, strict=True):
                    error = np.linalg.norm(ours - wanted) / np.linalg.norm(wanted)
                    bench.require(f"{name} {what} per sequence", error, limit)
        _layer_times(bench, f"{label}, {count} sequences", params.astype(np.float32), data, shape)


def _kernel(bench):
    if bench.device == "cpu":
        return cpu.sequence_gradients
    from fedscan.models.selective_ssm import gpu

    return gpu.sequence_gradients


def _layer_times(bench, label, params, data, shape):
    kernel = _kernel(bench)
    ours = gb.seconds(lambda: kernel(params, data, shape), bench.device)
    bench.add(f"{label}: kernel with copies, per-sequence gradients", 1000 * ours, "ms")
    vector = torch.tensor(params, device=bench.device)
    ids = torch.tensor(data, device=bench.device)
    if bench.device == "cuda":
        from fedscan.models.selective_ssm import gpu

        ours = gb.seconds(lambda: gpu._on_device(vector, ids, shape), bench.device)
        bench.add(f"{label}: kernel on the device", 1000 * ours, "ms")

    def backward():
        leaf = vector.clone().requires_grad_()
        reference.sequence_losses([_blocks(leaf, shape)], ids).mean().backward()

    theirs = gb.seconds(backward, bench.device)
    bench.add(f"{label}: autograd, batch gradient", 1000 * theirs, "ms")
    bench.add(f"{label}: kernel is faster by", theirs / ours, "x")
    one = gb.seconds(lambda: cpu.sequence_gradients(params, data, shape), "cpu", 0.3)
    bench.add(f"{label}: compiled CPU kernel, one thread", 1000 * one, "ms")


def _blocks(vector, shape):
    d, n = shape
    sizes = ((d, d), (n, d), (n, d), (n,))
    parts = torch.split(vector, shape.sizes)
    return {b: p.view(s) for b, p, s in zip(BLOCKS, parts, sizes, strict=True)}


def _autograd(params, data, shape, device):
    """Losses and gradients per sequence, float64, by automatic differentiation."""
    vector, ids = torch.tensor(params, device=device), torch.tensor(data, device=device)

    def loss(vector, word):
        found = reference.sequence_losses([_blocks(vector, shape)], word[None])[0]
        return found, found

    both = torch.func.vmap(torch.func.grad(loss, has_aux=True), in_dims=(None, 0))
    gradients, losses = both(vector, ids)
    return losses.cpu().numpy(), gradients.cpu().numpy()


def model(bench):
    """The language model's logits, loss and gradients against float64 on the CPU."""
    gb.exact_products()
    shape = gb.TINY if bench.tiny else gb.PAPER
    for label, layers in (("mamba2", ()), ("hybrid", (1,) if bench.tiny else (1, 3))):
        found = shape._replace(mixers=layout(2 if bench.tiny else 4, layers))
        exact = _model_numbers(found, "torch", "cpu", double=True)
        # mamba_ssm's kernels round the factors of float32 products to TF32.
        for kernels, limit in (("torch", 1e-4), ("mamba_ssm", 1e-2)):
            if kernels == "torch" or bench.device == "cuda":
                name = f"{label}, {kernels}"
                bench.attempt(name, _compare, bench, name, found, kernels, exact, limit)


def _compare(bench, label, shape, kernels, exact, limit):
    for precision in ("float32", "bfloat16" if bench.device == "cpu" else "float16"):
        narrow = precision != "float32"
        found = _model_numbers(shape, kernels, bench.device, precision)
        for what, ours, wanted in zip(("logits", "loss", "gradient"), found, exact, strict=True):
            error = gb.worst_gap(ours, wanted)
            name = f"{label}, {precision}: relative error of {what}"
            if what == "gradient":
                name += ", worst tensor"
            loose = 0.5 if what == "gradient" else 0.1
            bench.require(name, error, loose if narrow else limit)


def _model_numbers(shape, kernels, device, precision="float32", double=False):
    """Logits of one ragged batch, loss and gradients of it, each as named tensors."""
    built = initialise(shape, 3)
    built = (built.double() if double else built).to(device)
    length = 24 if shape.vocab_size < 1000 else 100
    ids = torch.from_numpy(gb.tokens(shape, 3, length, "parity").astype(np.int64)).to(device)
    loss = KERNELS[kernels](built)
    dtype = {"float32": None, "float16": torch.float16, "bfloat16": torch.bfloat16}[precision]
    with torch.autocast(device, dtype=dtype or torch.bfloat16, enabled=dtype is not None):
        logits = loss.model(ids)
        logits = getattr(logits, "logits", logits)
        value = loss(ids)
    names, tensors = zip(*loss.named_parameters(), strict=True)
    # Unscaled, gradients inside a float16 backward pass would vanish.
    scale = INITIAL_LOSS_SCALE if dtype == torch.float16 else 1.0
    gradients = [g / scale for g in torch.autograd.grad(value * scale, tensors)]
    named = {name.removeprefix("model."): g for name, g in zip(names, gradients, strict=True)}
    return {"logits": logits}, {"loss": value}, named


def rounds(bench):
    """Whole rounds: CPU against GPU, plain against recorded, twice the same, all algorithms."""
    gb.exact_products()
    shape = gb.TINY if bench.tiny else gb.SMALL
    size = gb.Size(shape, 4, 24 if bench.tiny else 96, 4, 8, 21)
    wanted = _two_rounds(size, "cpu", "eager", double=True)
    for step in ("eager", "cuda_graph"):
        found = bench.attempt(f"float64, {step}", _two_rounds, size, bench.device, step, True)
        _agree(bench, f"float64, {step} against CPU", found, wanted, 1e-7)
    plain = _two_rounds(size, "cpu", "eager")
    for kernels in ("torch",) if bench.device == "cpu" else ("torch", "mamba_ssm"):
        bench.attempt(f"rounds, {kernels}", _kernels, bench, size, kernels, plain)
    for name in gb.ORDINARY:
        bench.attempt(name, _algorithm, bench, size, name)


def _kernels(bench, size, kernels, plain):
    narrow = "bfloat16" if bench.device == "cpu" else "float16"
    for precision in ("float32", narrow):
        # Adam divides by the gradient's size: entries near zero change sign with rounding, which
        # is TF32's in mamba_ssm's float32 products.
        limit = 0.05 if (kernels, precision) == ("torch", "float32") else 0.5
        twice = []
        for step in ("eager", "cuda_graph", "cuda_graph"):
            found = _two_rounds(size, bench.device, step, precision=precision, kernels=kernels)
            label = f"{kernels}, {precision}, {step} against CPU float32"
            _agree(bench, label, found, plain, limit)
            twice.append(found)
        same = all(
            torch.equal(one.state.params[name], tensor)
            for one, other in zip(twice[1], twice[2], strict=True)
            for name, tensor in other.state.params.items()
        )
        bench.add(f"{kernels}, {precision}: recorded rounds repeat bit for bit", float(same), "")
        label = f"{kernels}, {precision}: recorded against eager"
        _agree(bench, label, twice[1], twice[0], limit)


def _algorithm(bench, size, name):
    precision = "float32" if bench.device == "cpu" else "float16"
    plain, recorded = (
        _two_rounds(size, bench.device, step, precision=precision, name=name)
        for step in ("eager", "cuda_graph")
    )
    _agree(bench, f"{name}, {precision}: recorded against eager", recorded, plain, 0.5)


def _two_rounds(
    size, device, step, double=False, precision="float32", kernels="torch", name="fedavg"
):
    problem = gb.problem(size, precision, device, kernels, double, sequences=32)
    algorithm = gb.algorithm(name, size.shape)
    phase = gb.phase(step, problem, algorithm, device)
    state = engine.initial_state(problem, algorithm)
    return list(engine.run(problem, algorithm, 2, state, phase))


def _agree(bench, label, found, wanted, limit):
    """The mean update of the first round and the second round's validation loss."""
    if found is None:
        return
    ours, theirs = found[0].mean_update, wanted[0].mean_update
    difference = {
        name: ours[name].double().cpu() - tensor.double().cpu() for name, tensor in theirs.items()
    }
    size = norm({name: tensor.double().cpu() for name, tensor in theirs.items()})
    bench.require(f"{label}: error of the mean update", norm(difference) / size, limit)
    first = [abs(a.losses[0] / b.losses[0] - 1) for a, b in _pairs(found, wanted)]
    bench.require(f"{label}: error of the first losses", max(first), min(limit, 1e-2))
    error = abs(found[1].val_loss / wanted[1].val_loss - 1)
    bench.require(f"{label}: error of the validation loss", error, min(limit, 2e-2))


def _pairs(found, wanted):
    return list(zip(found[0].outcomes, wanted[0].outcomes, strict=True))


def timed_part(bench, part):
    """Run a part and keep how long it took."""
    start = time.perf_counter()
    part(bench)
    bench.add("seconds of this part", time.perf_counter() - start, "s")
