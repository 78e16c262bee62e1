"""The drafter: text that the target itself wrote, the training on it, and the calibration of its confidence.

    python training/drafter.py generate  --out build/training --minutes 10
    python training/drafter.py train     --out build/training --minutes 15
    python training/drafter.py calibrate --out build/training

The target samples with the noise that the engine serves with, so a drafted token is right exactly if it equals the
target's own choice under the same noise.
"""

import argparse
import json
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import corpus
from target import (
    CONTEXT,
    HEAD,
    HEADS,
    INNER,
    VOCABULARY,
    WIDTH,
    Muon,
    Target,
    norm,
    rotary,
    rotate,
    save,
)
from warmcurve.embedded import noise

POSITIONS, RANK, TEMPERATURE = 7, 32, 0.3
PROMPT, REPLY = 128, 128
NOISE = torch.from_numpy(noise.table())


def noise_rows(seeds: np.ndarray, positions: np.ndarray) -> Tensor:
    """Rows of the noise table that choose the tokens at these positions, of the shape of both broadcast."""
    return torch.from_numpy(noise.rows(seeds, positions))


class Drafter(nn.Module):
    """Sees the target's features up to the token before the anchor, and the anchor itself."""

    def __init__(self) -> None:
        super().__init__()

        def matrix(rows: int, columns: int, scale: float = 1.0) -> nn.Parameter:
            return nn.Parameter(torch.empty(rows, columns).normal_(0, scale * rows**-0.5))

        self.anchor = nn.Parameter(torch.empty(VOCABULARY, WIDTH).normal_(0, 0.5))
        self.place = nn.Parameter(torch.empty(POSITIONS, WIDTH).normal_(0, 0.5))
        self.fuse = matrix(2 * WIDTH, WIDTH)
        self.trunk_up, self.trunk_down = matrix(WIDTH, INNER), matrix(INNER, WIDTH, 0.1)
        self.kv = matrix(2 * WIDTH, 2 * HEAD)
        self.query, self.out = matrix(WIDTH, HEADS * HEAD), matrix(HEADS * HEAD, WIDTH, 0.1)
        self.up, self.down = matrix(WIDTH, INNER), matrix(INNER, WIDTH, 0.1)
        self.markov_in = nn.Parameter(torch.empty(VOCABULARY, RANK).normal_(0, 0.5))
        self.markov_out = nn.Parameter(torch.zeros(RANK, VOCABULARY))
        self.confidence = nn.Parameter(torch.zeros(WIDTH + RANK + 2))
        self.confidence_bias = nn.Parameter(torch.ones(POSITIONS))
        self.calibration = nn.Parameter(torch.stack((torch.ones(POSITIONS), torch.zeros(POSITIONS))))
        self.calibration.requires_grad = False

    def block(self, features: Tensor, anchors: Tensor, at: Tensor) -> Tensor:
        """[batch, n, POSITIONS, WIDTH] for anchors [batch, n] at positions `at`; features [batch, length, 2 WIDTH]."""
        batch, length, _ = features.shape
        count = at.shape[1]
        index = (at - 1)[..., None].expand(-1, -1, 2 * WIDTH)
        z = features.gather(1, index) @ self.fuse + F.embedding(anchors, self.anchor)
        z = z + F.relu(norm(z) @ self.trunk_up).square() @ self.trunk_down
        y = z[:, :, None, :] + self.place
        k, v = (features @ self.kv).split(HEAD, dim=-1)
        k = rotate(k, *rotary(torch.arange(length)))
        places = at[..., None] + torch.arange(POSITIONS)
        cos, sin = rotary(places)
        q = (norm(y) @ self.query).view(batch, count, POSITIONS, HEADS, HEAD)
        q = rotate(q, cos[..., None, :], sin[..., None, :]).reshape(batch, count, POSITIONS * HEADS, HEAD)
        mask = torch.arange(length) < at[:, :, None, None]
        scores = torch.einsum("bnqd,btd->bnqt", q.float(), k.float()) * HEAD**-0.5
        weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
        seen = torch.einsum("bnqt,btd->bnqd", weights.to(v.dtype), v).reshape(batch, count, POSITIONS, HEADS * HEAD)
        y = y + seen @ self.out
        return norm(y + F.relu(norm(y) @ self.up).square() @ self.down)

    def bias(self, previous: Tensor) -> tuple[Tensor, Tensor]:
        """The Markov head: what the token before says, as a vector of RANK and as logits."""
        markov = F.embedding(previous, self.markov_in)
        return markov, markov @ self.markov_out

    def doubt(self, hidden: Tensor, markov: Tensor, noised: Tensor) -> Tensor:
        """The confidence as a log-odds; `noised` are the logits with the noise that chooses."""
        two = noised.detach().float().topk(2, dim=-1).values
        margin = two[..., 0] - two[..., 1]
        facts = torch.stack(((margin + 0.01).log(), margin.tanh()), dim=-1)
        vector = torch.cat((hidden.detach().float(), markov.detach().float(), facts), dim=-1)
        return vector @ self.confidence + self.confidence_bias


def generate(target: Target, out: Path, minutes: float, seed: int) -> None:
    """Replies of the target to prompts from the corpus, 256 at a time: tokens [n, PROMPT + REPLY], and their seeds."""
    random = np.random.default_rng(seed)
    for name, data, share in (
        ("held_out", corpus.load(held_out=True), 0.1),
        ("training", corpus.load(held_out=False), 0.9),
    ):
        texts, seeds, started = [], [], time.monotonic()
        while time.monotonic() - started < 60 * minutes * share:
            starts = random.integers(0, len(data) - PROMPT, 256)
            prompts = np.stack([data[start : start + PROMPT] for start in starts]).astype(np.int64)
            batch_seeds = random.integers(0, 2**31, 256)
            texts.append(_replies(target, torch.from_numpy(prompts), batch_seeds).numpy().astype(np.uint8))
            seeds.append(batch_seeds)
            np.savez(out / f"{name}.npz", tokens=np.concatenate(texts), seeds=np.concatenate(seeds))
        print(f"{name}: {256 * len(texts)} replies in {(time.monotonic() - started) / 60:.1f} min", flush=True)


@torch.no_grad()
def _replies(target: Target, tokens: Tensor, seeds: np.ndarray) -> Tensor:
    batch = len(tokens)
    cos, sin = rotary(torch.arange(CONTEXT))
    keys = [torch.empty(batch, PROMPT + REPLY, HEAD, dtype=torch.bfloat16) for _ in target.blocks]
    values = [torch.empty_like(k) for k in keys]

    def forward(new: Tensor, start: int) -> Tensor:
        end = start + new.shape[1]
        x = norm(F.embedding(new, target.embedding))
        for layer, block in enumerate(target.blocks):
            qkv = (norm(x) @ block.qkv).view(batch, end - start, HEADS + 2, HEAD)
            q, k, v = qkv.split((HEADS, 1, 1), dim=2)
            at = cos[start:end, None], sin[start:end, None]
            q, keys[layer][:, start:end] = rotate(q, *at), rotate(k, *at)[:, :, 0].bfloat16()
            values[layer][:, start:end] = v[:, :, 0].bfloat16()
            k, v = (cached[layer][:, None, :end].expand(-1, HEADS, -1, -1) for cached in (keys, values))
            seen = F.scaled_dot_product_attention(q.transpose(1, 2).bfloat16(), k, v, is_causal=start == 0)
            x = x + seen.transpose(1, 2).reshape(batch, end - start, HEADS * HEAD).to(x.dtype) @ block.out
            x = x + F.relu(norm(x) @ block.up).square() @ block.down
        return (norm(x[:, -1]) @ target.head).float()

    logits = forward(tokens, 0)
    while True:
        rows = noise_rows(seeds, np.full(1, tokens.shape[1]))
        chosen = (logits + TEMPERATURE * NOISE[rows]).argmax(-1)
        tokens = torch.cat((tokens, chosen[:, None]), dim=1)
        if tokens.shape[1] == PROMPT + REPLY:
            return tokens
        logits = forward(tokens[:, -1:], tokens.shape[1] - 1)


class Sequences:
    """Texts with what training needs of the frozen target, a batch at a time."""

    def __init__(self, target: Target, path: Path) -> None:
        archive = np.load(path)
        self.target, self.tokens, self.seeds = target, archive["tokens"], archive["seeds"]

    @torch.no_grad()
    def batch(self, chosen: np.ndarray, at: np.ndarray) -> tuple[Tensor, ...]:
        """Features, anchors, positions, next tokens [batch, n, POSITIONS], the target's logits and noise for those."""
        tokens = torch.from_numpy(self.tokens[chosen].astype(np.int64))
        middle, last = self.target.features(tokens)
        features = torch.cat((middle, last), dim=-1)
        places = torch.from_numpy(at)
        following = places[..., None] + torch.arange(1, POSITIONS + 1)
        flat = following.reshape(len(tokens), -1)
        truth = tokens.gather(1, flat).view(following.shape)
        logits = (last.gather(1, (flat - 1)[..., None].expand(-1, -1, WIDTH)) @ self.target.head).float()
        rows = noise_rows(self.seeds[chosen][:, None, None], following.numpy())
        return features, tokens.gather(1, places), places, truth, logits.view(*following.shape, -1), rows

    def positions(self, random: np.random.Generator, size: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        return (
            random.integers(0, len(self.tokens), size),
            random.integers(PROMPT, PROMPT + REPLY - POSITIONS, (size, count)),
        )


def train(target: Target, out: Path, minutes: float, seed: int) -> dict[str, float]:
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    sequences = Sequences(target, out / "training.npz")
    drafter = Drafter()
    matrices = [
        drafter.fuse,
        drafter.trunk_up,
        drafter.trunk_down,
        drafter.query,
        drafter.out,
        drafter.up,
        drafter.down,
        drafter.kv,
    ]
    confidence = [drafter.confidence, drafter.confidence_bias]
    taken = {id(parameter) for parameter in (*matrices, *confidence)}
    others = [p for p in drafter.parameters() if p.requires_grad and id(p) not in taken]
    muon = Muon(matrices, rate=0.02)
    adam = torch.optim.AdamW(
        [{"params": others, "lr": 0.01}, {"params": confidence, "lr": 0.01}], betas=(0.9, 0.95), weight_decay=0.0
    )
    weights = torch.exp(-torch.arange(POSITIONS) / POSITIONS)
    weights /= weights.sum()

    def losses(features: Tensor, anchors: Tensor, at: Tensor, truth: Tensor, logits: Tensor, rows: Tensor) -> Tensor:
        hidden = drafter.block(features, anchors, at)
        markov, bias = drafter.bias(torch.cat((anchors[..., None], truth[..., :-1]), dim=-1))
        drafted = (hidden @ target.head + bias).float()
        log_q = (drafted / TEMPERATURE).log_softmax(-1)
        p = (logits / TEMPERATURE).softmax(-1)
        entropy = -(p * log_q).sum(-1)
        variation = 0.5 * (p - log_q.exp()).abs().sum(-1)
        noised = drafted + TEMPERATURE * F.embedding(rows, NOISE)
        hit = (noised.argmax(-1) == truth).float()
        doubt = drafter.doubt(hidden, markov, noised)
        binary = F.binary_cross_entropy_with_logits(doubt, hit, reduction="none")
        # Every position has weight, but the confidence is asked about a position only while all before it survived.
        alive = torch.cat((torch.ones_like(hit[..., :1]), hit[..., :-1].cumprod(-1)), dim=-1)
        loss = ((0.12 * entropy + 0.9 * variation) * weights).sum(-1).mean()
        loss = loss + (binary * alive).sum() / alive.sum()
        return torch.stack((loss, hit.cumprod(-1).sum(-1).mean().detach()))

    compiled = torch.compile(losses)
    target_features = torch.compile(target.features)
    sequences.target = target
    target.features = target_features  # type: ignore[method-assign]
    size, count = 16, 32
    with torch.autocast("cpu", torch.bfloat16):
        compiled(*sequences.batch(*sequences.positions(np.random.default_rng(0), size, count)))[0].backward()
        drafter.zero_grad(set_to_none=True)
    base = [group["lr"] for group in adam.param_groups]
    started = saved = time.monotonic()
    step, mean = 0, torch.zeros(2)
    while (spent := (time.monotonic() - started) / 60 / minutes) < 1:
        factor = min(1, (step + 1) / 30, (1 - spent) / 0.6 + 0.02)
        with torch.autocast("cpu", torch.bfloat16):
            both = compiled(*sequences.batch(*sequences.positions(random, size, count)))
        both[0].backward()
        muon.step(factor)
        for group, rate in zip(adam.param_groups, base, strict=True):
            group["lr"] = rate * factor
        adam.step()
        drafter.zero_grad(set_to_none=True)
        step += 1
        mean += (both.detach() - mean) / min(step, 50)
        if step % 50 == 0:
            print(
                f"{step} steps {(time.monotonic() - started) / 60:.1f} min loss {mean[0]:.3f} accepted {mean[1]:.2f}",
                flush=True,
            )
        if time.monotonic() - saved > 120:
            saved = time.monotonic()
            save(drafter, out / "drafter.pt")
    save(drafter, out / "drafter.pt")
    return {
        "minutes": minutes,
        "steps": step,
        "blocks": step * size * count,
        "loss": float(mean[0]),
        "accepted": float(mean[1]),
    }


class Observed(NamedTuple):
    """Blocks as they are served: log-odds and hits, [n, POSITIONS], of the anchors that serving comes by."""

    doubts: np.ndarray
    hits: np.ndarray
    everywhere: float
    """Accepted drafts a block where blocks start at every position; serving passes over easy text in few blocks."""


@torch.no_grad()
def observe(drafter: Drafter, sequences: Sequences, chosen: range) -> Observed:
    places = np.arange(PROMPT, PROMPT + REPLY - POSITIONS)
    doubts, hits, everywhere = [], [], []
    for first in range(chosen.start, chosen.stop, 4):
        index = np.arange(first, min(first + 4, chosen.stop))
        at = np.tile(places, (len(index), 1))
        features, anchors, at_tensor, truth, _, rows = sequences.batch(index, at)
        hidden = drafter.block(features, anchors, at_tensor)
        previous, doubt, hit = anchors, [], []
        for position in range(POSITIONS):
            markov, bias = drafter.bias(previous)
            here = hidden[:, :, position]
            noised = here @ sequences.target.head + bias + TEMPERATURE * F.embedding(rows[:, :, position], NOISE)
            previous = noised.argmax(-1)
            doubt.append(drafter.doubt(here[:, :, None], markov[:, :, None], noised[:, :, None])[..., position])
            hit.append(previous == truth[:, :, position])
        all_doubts, all_hits = torch.stack(doubt, -1).numpy(), torch.stack(hit, -1).numpy()
        accepted = np.cumprod(all_hits, axis=-1).sum(-1)
        everywhere.append(accepted.mean())
        for sequence, counts in enumerate(accepted):
            place = 0
            while place < len(places):
                doubts.append(all_doubts[sequence, place])
                hits.append(all_hits[sequence, place])
                place += int(counts[place]) + 1
    return Observed(np.array(doubts), np.array(hits), float(np.mean(everywhere)))


def calibrate(target: Target, drafter: Drafter, out: Path) -> dict[str, object]:
    """A factor and an offset for each position's log-odds, fitted left to right on half of the held-out text."""
    sequences = Sequences(target, out / "held_out.npz")
    count = min(len(sequences.tokens), 512)
    fitted, judged = (
        observe(drafter, sequences, range(count // 2)),
        observe(drafter, sequences, range(count // 2, count)),
    )
    doubts, hits = fitted.doubts, fitted.hits
    alive = np.concatenate((np.ones((len(hits), 1), bool), np.cumprod(hits, 1).astype(bool)[:, :-1]), 1)
    for position in range(POSITIONS):
        kept = alive[:, position]
        x, y = torch.from_numpy(doubts[kept, position]), torch.from_numpy(hits[kept, position]).float()
        fit = torch.tensor([1.0, 0.0], requires_grad=True)
        optimizer = torch.optim.LBFGS([fit], max_iter=100)

        def closure(
            fit: Tensor = fit, x: Tensor = x, y: Tensor = y, optimizer: torch.optim.Optimizer = optimizer
        ) -> Tensor:
            optimizer.zero_grad()
            loss = F.binary_cross_entropy_with_logits(x * fit[0] + fit[1], y)
            loss.backward()
            return loss

        optimizer.step(closure)
        drafter.calibration[:, position] = fit.detach()
    doubts, hits = judged.doubts, judged.hits
    scale, offset = drafter.calibration.numpy()
    survival = np.cumprod(1 / (1 + np.exp(-(doubts * scale + offset))), 1)
    kept = np.cumprod(hits, 1)
    conditional = [float(hits[np.r_[kept[:, n - 1] > 0] if n else slice(None), n].mean()) for n in range(POSITIONS)]
    bins = np.minimum((survival * 10).astype(int), 9)
    table = [
        {
            "from": n / 10,
            "count": int((bins == n).sum()),
            "promised": float(survival[bins == n].mean()),
            "observed": float(kept[bins == n].mean()),
        }
        for n in range(10)
        if (bins == n).any()
    ]
    error = sum(row["count"] * abs(row["promised"] - row["observed"]) for row in table) / survival.size
    return {
        "accepted_per_step": float(kept.sum(1).mean()),
        "accepted_from_every_position": judged.everywhere,
        "acceptance_by_position": conditional,
        "expected_calibration_error": float(error),
        "reliability": table,
        "blocks": len(hits),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("stage", choices=("generate", "train", "calibrate"))
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("build/training"))
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    target = Target()
    target.load_state_dict(torch.load(arguments.out / "target.pt"))
    # What is served are the weights as they are shipped.
    for parameter in target.parameters():
        parameter.data = parameter.data.half().float()
        parameter.requires_grad = False
    if arguments.stage == "generate":
        with torch.autocast("cpu", torch.bfloat16):
            generate(target, arguments.out, arguments.minutes, arguments.seed)
        return
    if arguments.stage == "train":
        facts: dict[str, object] = {
            **train(target, arguments.out, arguments.minutes, arguments.seed),
            "seed": arguments.seed,
        }
    else:
        drafter = Drafter()
        drafter.load_state_dict(torch.load(arguments.out / "drafter.pt"))
        facts = calibrate(target, drafter, arguments.out)
        save(drafter, arguments.out / "calibrated.pt")
    (arguments.out / f"{arguments.stage}.json").write_text(json.dumps(facts, indent=1))
    print(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
