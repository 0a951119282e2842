"""Closed forms for clients f_k(w) = (w - b_k)^T A_k (w - b_k) / 2 under E exact gradient steps.

Written with NumPy and matrix powers, from the definitions; nothing of fedscan is imported.
"""

import numpy as np


def local_map(A, b, lr, steps, w):
    """E gradient steps: b + (I - lr A)^E (w - b)."""
    contraction = np.linalg.matrix_power(np.eye(len(b)) - lr * A, steps)
    return b + contraction @ (w - b)


def optimum(As, bs):
    """Minimiser of the mean objective."""
    return np.linalg.solve(sum(As), sum(A @ b for A, b in zip(As, bs, strict=True)))


def averaging_fixed_point(As, bs, lr, steps, mu=0.0):
    """Fixed point of FedAvg (mu = 0) or FedProx: sum_k R_k (b_k - w) = 0.

    With a proximal term the local map is w + R_k (b_k - w),
    R_k = (I - (I - lr (A_k + mu))^E) (A_k + mu)^{-1} A_k.
    """
    eye = np.eye(len(bs[0]))
    Rs = []
    for A in As:
        H = A + mu * eye
        contraction = np.linalg.matrix_power(eye - lr * H, steps)
        Rs.append((eye - contraction) @ np.linalg.solve(H, A))
    return np.linalg.solve(sum(Rs), sum(R @ b for R, b in zip(Rs, bs, strict=True)))


def scaffold_trajectory(As, bs, lr, steps, rounds):
    """SCAFFOLD, option II, all clients, undamped: global parameters after each round."""
    clients = len(bs)
    w = np.zeros(len(bs[0]))
    c = np.zeros_like(w)
    ck = [np.zeros_like(w) for _ in range(clients)]
    found = []
    for _ in range(rounds):
        locals_ = []
        for k in range(clients):
            y = w.copy()
            for _ in range(steps):
                y = y - lr * (As[k] @ (y - bs[k]) - ck[k] + c)
            locals_.append(y)
        ck = [ck[k] - c + (w - locals_[k]) / (steps * lr) for k in range(clients)]
        w = w + sum(y - w for y in locals_) / clients
        c = sum(ck) / clients
        found.append(w)
    return found
