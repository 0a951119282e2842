"""The theory page's closed forms, one parameter point at a time, in 40-digit arithmetic.

Norms arrive as {"delta", "B", "C", "A"}; `input_bound` is L_x, `loss_lipschitz` L_l and
`loss_smoothness` H_l.  `length` is the stored length S of a sequence, so S - 1 inputs are read.
`heterogeneity` is H_TV, the p-weighted sum of squared total variations.  A radius is added to
every norm; `common_*` takes norms that are envelopes already.  In `fedprox_bound` smoothness and
gradient are L_mu and G_mu; in `fedsam` the gradient is that of the ball widened by the SAM radius.
"""

from mpmath import mp, mpf

mp.dps = 40


def spectral_norms(layer):
    return {
        "delta": _spectral(layer["W_delta"]),
        "B": _spectral(layer["W_B"]),
        "C": _spectral(layer["W_C"]),
        "A": _euclidean(layer["A"]),
    }


def gradient_bound(norms, d, n, rho, input_bound, loss_lipschitz):
    c = _constants(norms, d, n, rho, input_bound)
    rho, lx, ll = mpf(rho), mpf(input_bound), mpf(loss_lipschitz)
    carried = c["transition"] * rho / (1 - rho)
    return {
        "k_delta": c["k_delta"],
        "k_b": c["k_b"],
        "k_w": c["k_w"],
        "state": c["state"],
        "jacobian": c["jacobian"],
        "bound": ll * lx * (c["state"] + c["C"] * c["jacobian"]),
        "recurrent": ll * lx * c["C"] * carried / (1 - rho),
    }


def tight_gradient_bound(layer, length, loss_lipschitz):
    n, d = layer["W_B"].shape
    gamma = min(-mpf(float(a)) for a in layer["A"])
    entries = [mpf(float(w)) for w in layer["W_delta"].ravel()]
    rho = mp.exp(-gamma * _softplus(min(entries)))
    history = mpf(0)
    for age in range(length - 1):
        history += rho**age

    k_delta = mpf(0)
    k_b = mpf(0)
    norm_c = mpf(0)
    for token in range(d):
        steps = [_softplus(mpf(float(w))) for w in layer["W_delta"][:, token]]
        k_delta = max(k_delta, _euclidean(steps))
        k_b = max(k_b, _euclidean(layer["W_B"][:, token]))
        norm_c = max(norm_c, _euclidean(layer["W_C"][:, token]))
    norm_a = _euclidean(layer["A"])

    state = k_b * k_delta * mp.sqrt(n * d) * history
    k_w = n * d * k_b * k_delta * (k_delta + mp.sqrt(d) * norm_a) * rho * history
    k_w += mp.sqrt(n) * k_delta
    k_w += mp.sqrt(d) * k_b
    return mpf(loss_lipschitz) * (state + norm_c * k_w * history)


def smoothness_bound(norms, radius, d, n, rho, input_bound, loss_lipschitz, loss_smoothness):
    c = _constants(_envelopes(norms, radius), d, n, rho, input_bound)
    rho, lx = mpf(rho), mpf(input_bound)
    first = c["k_delta"] + c["A"] * lx
    k_a1 = rho * first
    k_a2 = rho * (first**2 + 2 * lx + c["A"] * lx**2 / 4)
    k_b2 = 2 * lx**3 + c["B"] * lx**4 / 4
    k_h2 = (k_a2 * c["state"] + 2 * k_a1 * c["jacobian"] + k_b2) / (1 - rho)
    output_first = lx * (c["state"] + c["C"] * c["jacobian"])
    output_second = lx * (c["C"] * k_h2 + 2 * c["jacobian"])
    bound = mpf(loss_smoothness) * output_first**2 + mpf(loss_lipschitz) * output_second
    return {"k_a1": k_a1, "k_a2": k_a2, "k_b2": k_b2, "k_h2": k_h2, "bound": bound}


def bound_variation(norms, radius, d, n, rho, input_bound, loss_lipschitz):
    c = _constants(_envelopes(norms, radius), d, n, rho, input_bound)
    rho, lx = mpf(rho), mpf(input_bound)
    p1 = c["k_b"] * c["k_delta"]
    l_p1 = c["k_b"] * lx + c["k_delta"] * lx**2
    p2 = c["k_delta"] + mp.sqrt(d) * c["A"] * lx
    l_p2 = lx + mp.sqrt(d) * lx
    l_p3 = p1 * l_p2 + p2 * l_p1
    l_kw = n * d * rho / (1 - rho) * l_p3 + lx**3 * mp.sqrt(n) + lx**3 * mp.sqrt(d)
    l_p4 = c["C"] * l_kw + c["k_w"]
    l_state = mp.sqrt(n * d) / (1 - rho) * l_p1
    return mpf(loss_lipschitz) * lx * (l_state + l_p4 / (1 - rho))


def fedavg_bound(
    initial_gap, rounds, local_steps, step, batch, weights, smoothness, gradient, heterogeneity
):
    step, smoothness, gradient = mpf(step), mpf(smoothness), mpf(gradient)
    noise = gradient**2 / mpf(batch)
    disagreement = 4 * gradient**2 * mpf(heterogeneity)
    concentration = sum((mpf(p) ** 2 for p in weights), mpf(0))
    drift = step**2 * smoothness**2 * (local_steps - 1)
    terms = [
        4 * mpf(initial_gap) / (step * local_steps * rounds),
        4 * step * smoothness * noise * concentration,
        6 * drift * noise,
        12 * drift * local_steps * disagreement,
    ]
    conditions = [
        bool(step * local_steps * smoothness <= mpf(1) / 2),
        bool(12 * drift * local_steps <= 1),
    ]
    return {"terms": terms, "bound": sum(terms, mpf(0)), "conditions": conditions}


def fedprox_radius(radius, gradient, mu, step, local_steps):
    return min(mpf(radius), _damped_displacement(mpf(gradient), mu, step, local_steps))


def fedprox_bound(
    initial_gap, rounds, local_steps, step, batch, weights, smoothness, gradient, heterogeneity, mu
):
    step, smoothness, gradient = mpf(step), mpf(smoothness), mpf(gradient)
    noise = gradient**2 / mpf(batch)
    disagreement = 4 * gradient**2 * mpf(heterogeneity)
    concentration = sum((mpf(p) ** 2 for p in weights), mpf(0))
    drift = step**2 * (smoothness + mpf(mu)) ** 2 * (local_steps - 1)
    terms = [
        3 * mpf(initial_gap) / (step * local_steps * rounds),
        3 * step * smoothness * noise * concentration,
        3 * drift * noise,
        6 * drift * local_steps * disagreement,
    ]
    conditions = [
        bool(step * local_steps * smoothness <= mpf(1) / 2),
        bool(12 * drift * local_steps <= 1),
    ]
    return {"terms": terms, "bound": sum(terms, mpf(0)), "conditions": conditions}


def stacked_gradient_bound(layers, d, n, loss_lipschitz):
    kappa = []
    own = []
    for layer in layers:
        c = _constants(layer["norms"], d, n, layer["rho"], layer["input_bound"])
        kappa.append(c["kappa"])
        own.append(mpf(layer["input_bound"]) * (c["state"] + c["C"] * c["jacobian"]))
    total = mpf(0)
    for q in range(len(layers)):
        share = own[q] ** 2
        for later in range(q + 1, len(layers)):
            share *= kappa[later] ** 2
        total += share
    return {"kappa": kappa, "bound": mpf(loss_lipschitz) * mp.sqrt(total)}


def stacked_smoothness_bound(layers, d, n, loss_lipschitz, loss_smoothness):
    thetas = []
    omegas = []
    theta = mpf(0)
    omega = mpf(0)
    for layer in layers:
        envelopes = _envelopes(layer["norms"], layer["radius"])
        c = _constants(envelopes, d, n, layer["rho"], layer["input_bound"])
        rho, lx = mpf(layer["rho"]), mpf(layer["input_bound"])
        # First and second derivatives of this layer's pre-activation, step, decay, read-in, state.
        pre = lx + c["delta"] * theta
        step_second = pre**2 / 4 + 2 * theta
        decay = c["k_delta"] + c["A"] * pre
        decay_second = decay**2 + 2 * pre + c["A"] * step_second
        state_first = c["jacobian"] + c["lambda"] * theta / (1 - rho)
        read = c["B"] * lx
        read_first = lx + c["B"] * theta
        read_second = 2 * theta
        step_times_input_first = lx * pre + c["k_delta"] * theta
        step_times_input_second = lx * step_second + 2 * pre * theta

        forcing = rho * decay_second * c["state"]
        forcing += 2 * rho * decay * state_first
        forcing += read_second * c["k_delta"] * lx
        forcing += 2 * read_first * step_times_input_first
        forcing += read * step_times_input_second

        new_omega = c["C"] * lx * forcing / (1 - rho)
        new_omega += 2 * (lx + c["C"] * theta) * state_first
        new_omega += 2 * c["state"] * theta
        new_omega += c["kappa"] * omega
        own = lx * (c["state"] + c["C"] * c["jacobian"])
        theta = mp.sqrt(own**2 + c["kappa"] ** 2 * theta**2)
        omega = new_omega
        thetas.append(theta)
        omegas.append(omega)
    return {
        "theta": thetas,
        "omega": omegas,
        "smoothness": mpf(loss_smoothness) * theta**2 + mpf(loss_lipschitz) * omega,
        "gradient": mpf(loss_lipschitz) * theta,
    }


def common_gradient_bound(norms, depth, d, n, rho, input_bound, loss_lipschitz):
    c = _constants(norms, d, n, rho, input_bound)
    own = mpf(input_bound) * (c["state"] + c["C"] * c["jacobian"])
    squares = sum((c["kappa"] ** (2 * q) for q in range(depth)), mpf(0))
    return mpf(loss_lipschitz) * own * mp.sqrt(squares)


def common_smoothness_bound(norms, depth, d, n, rho, input_bound, loss_lipschitz, loss_smoothness):
    k = _constants(norms, d, n, rho, input_bound)
    rho, lx = mpf(rho), mpf(input_bound)
    kappa = k["kappa"]
    dd = lx + k["delta"]
    b = dd**2 / 4 + 2
    c = k["k_delta"] + k["A"] * dd
    j = k["jacobian"] + k["lambda"] / (1 - rho)
    forcing = rho * k["state"] * (c**2 + 2 * dd + k["A"] * b)
    forcing += 2 * rho * c * j
    forcing += 2 * k["k_delta"] * lx
    forcing += 2 * (lx + k["B"]) * (lx * dd + k["k_delta"])
    forcing += k["B"] * lx * (lx * b + 2 * dd)
    b_star = k["C"] * lx * forcing / (1 - rho) + 2 * (lx + k["C"]) * j + 2 * k["state"]

    own_squared = (lx * (k["state"] + k["C"] * k["jacobian"])) ** 2
    squares = mpf(0)
    powers = mpf(0)
    for q in range(depth):
        squares += kappa ** (2 * q)
        powers += kappa**q
    nested = mpf(0)
    for q in range(1, depth + 1):
        for i in range(q):
            nested += kappa ** (depth - q) * kappa ** (2 * i)
    first = mpf(loss_smoothness) * own_squared * squares
    second = mpf(loss_lipschitz) * b_star * (powers + own_squared * nested)
    return first + second


def certified_input_bounds(norms_list, rhos, d, n, first):
    bounds = [mpf(first)]
    for norms, rho in zip(norms_list[:-1], rhos[:-1], strict=True):
        c = _constants(norms, d, n, rho, bounds[-1])
        bounds.append(c["C"] * bounds[-1] * c["state"])
    return bounds


def fedexp(server_lr, step, local_steps, gradient):
    return mpf(server_lr) * mpf(step) * local_steps * mpf(gradient)


def diloco(server_lr, momentum, step, local_steps, gradient):
    return mpf(server_lr) / (1 - mpf(momentum)) * mpf(step) * local_steps * mpf(gradient)


def fedadam(server_lr, tau, moment_norm):
    return mpf(server_lr) / mpf(tau) * mpf(moment_norm)


def feddyn_radius(radius, gradient, shift, alpha, step, local_steps):
    pull = mpf(gradient) + mpf(shift)
    return min(mpf(radius), _damped_displacement(pull, alpha, step, local_steps))


def fedsam(step, local_steps, gradient):
    return mpf(step) * local_steps * mpf(gradient)


def scaffold(step, local_steps, gradient, correction_scale, correction):
    return mpf(step) * local_steps * (mpf(gradient) + mpf(correction_scale) * mpf(correction))


def _constants(norms, d, n, rho, input_bound):
    delta, b, c, a = (mpf(norms[key]) for key in ("delta", "B", "C", "A"))
    rho, lx = mpf(rho), mpf(input_bound)
    k_delta = delta * lx + mp.sqrt(d) * mp.log(2)
    k_b = b * lx**2
    transition = n * d * k_b * k_delta * (k_delta + mp.sqrt(d) * a * lx)
    k_w = transition * rho / (1 - rho)
    k_w += lx**2 * mp.sqrt(n) * k_delta
    k_w += lx * mp.sqrt(d) * k_b
    state = k_b * k_delta * mp.sqrt(n * d) / (1 - rho)
    lam = rho * a * delta * state + b * lx * (2 * k_delta + lx * delta)
    return {
        "delta": delta,
        "B": b,
        "C": c,
        "A": a,
        "k_delta": k_delta,
        "k_b": k_b,
        "k_w": k_w,
        "transition": transition,
        "state": state,
        "jacobian": k_w / (1 - rho),
        "lambda": lam,
        "kappa": c * (state + lx * lam / (1 - rho)),
    }


def _envelopes(norms, radius):
    return {key: mpf(value) + mpf(radius) for key, value in norms.items()}


def _damped_displacement(pull, damping, step, local_steps):
    distance = mpf(0)
    for _ in range(local_steps):
        distance = (1 - mpf(step) * mpf(damping)) * distance + mpf(step) * pull
    return distance


def _spectral(matrix):
    singular = mp.svd_r(mp.matrix(matrix.tolist()), compute_uv=False)
    return max(singular)


def _euclidean(vector):
    return mp.sqrt(sum((mpf(x if isinstance(x, mpf) else float(x)) ** 2 for x in vector), mpf(0)))


def _softplus(x):
    return mp.log1p(mp.exp(x))
