"""The target: a byte-level decoder-only transformer, and its training.

python training/target.py --minutes 38 --out build/training
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import corpus

VOCABULARY, WIDTH, LAYERS, HEADS, HEAD, INNER, CONTEXT = 256, 192, 6, 3, 64, 768, 384
FEATURE_LAYER = 3
"""The drafter sees the residual stream after this layer, and after the last."""


def norm(x: Tensor) -> Tensor:
    return F.rms_norm(x, (x.shape[-1],), eps=1e-6)


def rotary(positions: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin, [..., HEAD / 2], for halves rotated against each other."""
    frequencies = 10000.0 ** (-torch.arange(HEAD // 2, dtype=torch.float32) / (HEAD // 2))
    angles = positions.to(torch.float32)[..., None] * frequencies
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Parameter(torch.empty(WIDTH, (HEADS + 2) * HEAD).normal_(0, WIDTH**-0.5))
        self.out = nn.Parameter(torch.zeros(HEADS * HEAD, WIDTH))
        self.up = nn.Parameter(torch.empty(WIDTH, INNER).normal_(0, WIDTH**-0.5))
        self.down = nn.Parameter(torch.zeros(INNER, WIDTH))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, _ = x.shape
        qkv = (norm(x) @ self.qkv).view(batch, length, HEADS + 2, HEAD).transpose(1, 2)
        q, k, v = qkv.split((HEADS, 1, 1), dim=1)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = k.expand(-1, HEADS, -1, -1), v.expand(-1, HEADS, -1, -1)
        seen = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, is_causal=True)
        x = x + seen.transpose(1, 2).reshape(batch, length, HEADS * HEAD) @ self.out
        return x + F.relu(norm(x) @ self.up).square() @ self.down


class Target(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.empty(VOCABULARY, WIDTH).normal_())
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Parameter(torch.zeros(WIDTH, VOCABULARY))

    def features(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The normalised residual stream after FEATURE_LAYER and after the last layer: [batch, length, WIDTH] each."""
        cos, sin = rotary(torch.arange(tokens.shape[1]))
        x = norm(F.embedding(tokens, self.embedding))
        middle = x
        for index, block in enumerate(self.blocks):
            x = block(x, cos, sin)
            if index == FEATURE_LAYER:
                middle = norm(x)
        return middle, norm(x)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.features(tokens)[1] @ self.head

    def loss(self, tokens: Tensor) -> Tensor:
        logits = self(tokens[:, :-1])
        return F.cross_entropy(logits.reshape(-1, VOCABULARY).float(), tokens[:, 1:].reshape(-1))


class Muon:
    """Momentum whose update is made orthogonal; matrices of one shape are updated as one stack."""

    def __init__(self, matrices: list[nn.Parameter], rate: float) -> None:
        self.rate = rate
        shapes: dict[torch.Size, list[nn.Parameter]] = {}
        for matrix in matrices:
            shapes.setdefault(matrix.shape, []).append(matrix)
        self.stacks = [(same, torch.zeros(len(same), *shape)) for shape, same in shapes.items()]

    @torch.no_grad()
    def step(self, factor: float) -> None:
        for same, momentum in self.stacks:
            gradient = torch.stack([matrix.grad for matrix in same])
            momentum.lerp_(gradient, 0.05)
            update = _orthogonal(gradient.lerp(momentum, 0.95))
            scale = max(1.0, update.shape[1] / update.shape[2]) ** 0.5
            for matrix, change in zip(same, update, strict=True):
                matrix.mul_(1 - 0.01 * self.rate * factor).add_(change, alpha=-self.rate * factor * scale)


def _orthogonal(x: Tensor) -> Tensor:
    wide = x.shape[1] > x.shape[2]
    x = (x.mT if wide else x).bfloat16()
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return (x.mT if wide else x).float()


def batch(data: np.ndarray, size: int, generator: np.random.Generator) -> Tensor:
    starts = generator.integers(0, len(data) - CONTEXT - 1, size)
    return torch.from_numpy(np.stack([data[start : start + CONTEXT + 1] for start in starts]).astype(np.int64))


@torch.no_grad()
def bits(loss_of: Callable[[Tensor], Tensor], data: np.ndarray, size: int, batches: int) -> float:
    """Bits a byte over evenly spaced windows, `size` a batch."""
    starts = np.linspace(0, len(data) - CONTEXT - 1, size * batches).astype(int)
    tokens = torch.from_numpy(np.stack([data[start : start + CONTEXT + 1] for start in starts]).astype(np.int64))
    with torch.autocast("cpu", torch.bfloat16):
        return sum(float(loss_of(part)) for part in tokens.split(size)) / batches / math.log(2)


def save(model: nn.Module, path: Path) -> None:
    partial = path.with_suffix(".partial")
    torch.save(model.state_dict(), partial)
    partial.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=65)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("build/training"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    generator = np.random.default_rng(arguments.seed)
    training, held_out = corpus.load(held_out=False), corpus.load(held_out=True)
    model = Target()
    print(f"{len(training)} bytes, {len(held_out)} held out, {sum(p.numel() for p in model.parameters())} weights")
    muon = Muon(list(model.blocks.parameters()), rate=0.02)
    adam = torch.optim.AdamW(
        [{"params": [model.embedding], "lr": 0.02}, {"params": [model.head], "lr": 0.004}],
        betas=(0.9, 0.95),
        weight_decay=0.0,
    )
    base = [group["lr"] for group in adam.param_groups]
    loss_of = torch.compile(model.loss)
    with torch.autocast("cpu", torch.bfloat16):  # compiles, which is not training time
        loss_of(batch(training, arguments.batch, np.random.default_rng(0))).backward()
        model.zero_grad(set_to_none=True)
        bits(loss_of, held_out, arguments.batch, 1)
    started = saved = time.monotonic()
    step, mean = 0, 0.0
    while (spent := (time.monotonic() - started) / 60 / arguments.minutes) < 1:
        factor = min(1, (step + 1) / 50, (1 - spent) / 0.5 + 0.02)
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_of(batch(training, arguments.batch, generator))
        loss.backward()
        muon.step(factor)
        for group, rate in zip(adam.param_groups, base, strict=True):
            group["lr"] = rate * factor
        adam.step()
        model.zero_grad(set_to_none=True)
        step += 1
        mean += (float(loss.detach()) - mean) / min(step, 50)
        if step % 25 == 0:
            minutes = (time.monotonic() - started) / 60
            print(f"{step} steps {minutes:.1f} min {mean / math.log(2):.3f} bits, rate {factor:.2f}", flush=True)
        if time.monotonic() - saved > 180:
            saved = time.monotonic()
            save(model, arguments.out / "target.pt")
            print(f"held out {bits(loss_of, held_out, arguments.batch, 5):.3f} bits", flush=True)
    save(model, arguments.out / "target.pt")
    facts = {
        "minutes": arguments.minutes,
        "seed": arguments.seed,
        "steps": step,
        "tokens": step * arguments.batch * CONTEXT,
        "training_bytes": len(training),
        "held_out_bytes": len(held_out),
        "training_bits": mean / math.log(2),
        "held_out_bits": bits(loss_of, held_out, arguments.batch, 40),
    }
    (arguments.out / "target.json").write_text(json.dumps(facts, indent=1))
    print(facts)


if __name__ == "__main__":
    main()
