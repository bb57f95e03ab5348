"""Dense references: the paper's formulas with their n×n matrix, written without the library."""
import torch


def rows_of(weight, batched=False):
    """A weight as a stack (B, p, n) with p ≤ n, as the library reads it."""
    matrices = weight.reshape(-1, *weight.shape[-2:]) if batched else weight.reshape(1, weight.shape[0], -1)
    return matrices.transpose(1, 2) if matrices.shape[1] > matrices.shape[2] else matrices


def weight_of(rows, like, batched=False):
    """The inverse of rows_of."""
    tall = like.shape[-2] > like.shape[-1] if batched else like.shape[0] ** 2 > like.numel()
    return (rows.transpose(1, 2) if tall else rows).reshape(like.shape)


def polar(y):
    u, _, vh = torch.linalg.svd(y, full_matrices=False)
    return u @ vh


def generator(x, m):
    """W = Ŵ − Ŵᴴ, Ŵ = MXᴴ − ½X(XᴴMXᴴ) for X, M n×p."""
    half = m @ x.mH - 0.5 * x @ (x.mH @ m @ x.mH)
    return half - half.mH


def cayley(x, w, alpha, iterations=2, exact=False):
    """The paper's Y(α) of X n×p, then its polar factor."""
    if exact:
        identity = torch.eye(len(w), dtype=w.dtype)
        return torch.linalg.solve(identity - alpha / 2 * w, (identity + alpha / 2 * w) @ x)
    y = x + alpha * w @ x
    for _ in range(iterations):
        y = x + alpha / 2 * w @ (x + y)
    return polar(y)


def capped(rate, norm, q=0.5, eps=1e-8):
    return min(rate, 2 * q / (norm + eps))


class Sgd:
    """Cayley SGD of one matrix, rows p×n."""

    def __init__(self, x, momentum, **options):
        self.x, self.m, self.momentum, self.options = x.mH, torch.zeros_like(x).mH, momentum, options

    def step(self, g, rate):
        m = self.momentum * self.m + g.mH
        w = generator(self.x, m)
        alpha = rate if self.options.get("exact") else capped(rate, w.norm().item())
        self.m = w @ self.x
        self.x = cayley(self.x, w, -alpha, **self.options)


class Adam:
    """Cayley ADAM of one matrix, rows p×n."""

    def __init__(self, x, betas=(0.9, 0.99), eps=1e-8):
        self.x, self.m, self.v, self.k, self.betas, self.eps = (
            x.mH,
            torch.zeros_like(x).mH,
            0.0,
            0,
            betas,
            eps,
        )

    def step(self, g, rate):
        beta1, beta2 = self.betas
        m = beta1 * self.m + (1 - beta1) * g.mH
        self.v = beta2 * self.v + (1 - beta2) * g.norm().item() ** 2
        self.k += 1
        r = (1 - beta1**self.k) * (self.v / (1 - beta2**self.k) + self.eps) ** 0.5
        w = generator(self.x, m) / r
        alpha = capped(rate, w.norm().item())
        self.m = w @ self.x * r
        self.x = cayley(self.x, w, -alpha)


class Muon:
    """Cayley Muon of one matrix with the exact root, rows p×n."""

    def __init__(self, x, momentum, nesterov=False):
        self.x, self.m, self.momentum, self.nesterov = x.mH, torch.zeros_like(x).mH, momentum, nesterov

    def tangent(self, z):
        s = self.x.mH @ z
        return z - self.x @ (0.5 * (s + s.mH))

    def step(self, g, rate):
        self.m = self.tangent(self.momentum * self.m + g.mH)
        direction = self.tangent(g.mH + self.momentum * self.m) if self.nesterov else self.m
        u, s, vh = torch.linalg.svd(direction, full_matrices=False)
        d = self.tangent((u * (s > 1e-7 * s[0])) @ vh)
        self.x = cayley(self.x, generator(self.x, d), -rate)


class Retraction:
    """SGD by a retraction of one matrix, rows p×n."""

    def __init__(self, x, momentum, retract):
        self.x, self.m, self.momentum, self.retract = x.mH, torch.zeros_like(x).mH, momentum, retract

    def step(self, g, rate):
        d = self.momentum * self.m + g.mH
        s = self.x.mH @ d
        self.m = d - self.x @ (0.5 * (s + s.mH))
        self.x = self.retract(self.x, -rate * self.m)


def by_polar(x, xi):
    return polar(x + xi)


def by_qr(x, xi):
    q, r = torch.linalg.qr(x + xi)
    diagonal = r.diagonal()
    return q * (diagonal / diagonal.abs())


def by_cayley(x, xi):
    return cayley(x, generator(x, xi), 1.0, exact=True)
