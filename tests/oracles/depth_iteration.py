"""One Mamba2 layer in its forms, token by token, in plain NumPy and float64, from named tensors.

Names are mamba_ssm's, below ``backbone.layers.k.``; nothing here is the package's.
"""

import numpy as np

EPS = 1e-5


def silu(x):
    return x / (1 + np.exp(-x))


def norm(x):
    return x / np.sqrt((x**2).mean() + EPS)


def layer(tokens, weights, sizes, gate=1.0, use_silu=True, conv=True):
    """(tokens, n) -> output (tokens, n), q_layer and q_token (tokens), step sizes (heads)."""
    heads, headdim, groups, m, taps = sizes
    inner, state = heads * headdim, groups * m
    w = {name: np.asarray(value, np.float64) for name, value in weights.items()}
    f = silu if use_silu else (lambda x: x)
    raws, us = [], []
    for x in np.asarray(tokens, np.float64):
        u = norm(x) * w["norm.weight"]
        us.append(u)
        raws.append(w["mixer.in_proj.weight"] @ u)
    outputs, q_layer, q_token, all_steps = [], [], [], []
    h = np.zeros((heads, headdim, m))
    for i, raw in enumerate(raws):
        z, dt = raw[:inner], raw[-heads:]
        mixed = raw[inner:-heads].copy()
        if conv:
            total = w["mixer.conv1d.bias"].copy()
            for back in range(taps):
                if i >= back:
                    earlier = raws[i - back][inner:-heads]
                    total += w["mixer.conv1d.weight"][:, 0, taps - 1 - back] * earlier
            mixed = total
        x = silu(mixed[:inner]).reshape(heads, headdim)
        B = f(mixed[inner : inner + state]).reshape(groups, m)
        C = f(mixed[inner + state :]).reshape(groups, m)
        step = np.log1p(np.exp(dt + w["mixer.dt_bias"]))
        all_steps.append(step)
        y = np.zeros((heads, headdim))
        for head in range(heads):
            group = head // (heads // groups)
            decay = np.exp(-np.exp(w["mixer.A_log"][head]) * step[head])
            h[head] = decay * h[head] + step[head] * np.outer(x[head], B[group])
            y[head] = h[head] @ C[group] + w["mixer.D"][head] * x[head]
        y = y.reshape(-1) * ((1 - gate) + gate * silu(z))
        y = np.concatenate([norm(part) for part in y.reshape(groups, -1)])
        outputs.append(w["mixer.out_proj.weight"] @ (y * w["mixer.norm.weight"]))
        q_layer.append((B * C).sum(-1).mean())
        b, c = (f(part).reshape(groups, m) for part in np.split(raw[2 * inner : -heads], 2))
        q_token.append((b * c).sum(-1).mean())
    return np.stack(outputs), np.array(q_layer), np.array(q_token), np.mean(all_steps, axis=0)
