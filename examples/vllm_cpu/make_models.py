"""Write tiny checkpoints of random weights, as real safetensors: vLLM's drafter looks there for its confidence head.

usage: make_models.py DIRECTORY

    target       Qwen3, two layers
    draft        DSpark for it, K = 3
    draft-wide   the same class, with a wider layer
    moe          Qwen3 with four experts, for data-parallel runs
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

HIDDEN, VOCABULARY, LAYERS, INNER, HEADS, KV_HEADS, HEAD_DIM = 64, 512, 2, 128, 4, 2, 32
EXPERTS, MARKOV_RANK, DRAFTED = 4, 16, 3

COMMON = {
    "model_type": "qwen3",
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "attention_bias": False,
}


def linear(out: int, into: int) -> torch.Tensor:
    return (torch.randn(out, into) * 0.05).to(torch.bfloat16)


def ones(size: int) -> torch.Tensor:
    return torch.ones(size, dtype=torch.bfloat16)


def attention(prefix: str) -> dict[str, torch.Tensor]:
    return {
        f"{prefix}self_attn.q_proj.weight": linear(HEADS * HEAD_DIM, HIDDEN),
        f"{prefix}self_attn.k_proj.weight": linear(KV_HEADS * HEAD_DIM, HIDDEN),
        f"{prefix}self_attn.v_proj.weight": linear(KV_HEADS * HEAD_DIM, HIDDEN),
        f"{prefix}self_attn.o_proj.weight": linear(HIDDEN, HEADS * HEAD_DIM),
        f"{prefix}self_attn.q_norm.weight": ones(HEAD_DIM),
        f"{prefix}self_attn.k_norm.weight": ones(HEAD_DIM),
        f"{prefix}input_layernorm.weight": ones(HIDDEN),
        f"{prefix}post_attention_layernorm.weight": ones(HIDDEN),
    }


def mlp(prefix: str, inner: int = INNER) -> dict[str, torch.Tensor]:
    return {
        f"{prefix}gate_proj.weight": linear(inner, HIDDEN),
        f"{prefix}up_proj.weight": linear(inner, HIDDEN),
        f"{prefix}down_proj.weight": linear(HIDDEN, inner),
    }


def base() -> dict[str, torch.Tensor]:
    return {
        "model.embed_tokens.weight": linear(VOCABULARY, HIDDEN),
        "lm_head.weight": linear(VOCABULARY, HIDDEN),
        "model.norm.weight": ones(HIDDEN),
    }


def write(directory: Path, weights: dict[str, torch.Tensor], **config: object) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    (directory / "config.json").write_text(json.dumps(COMMON | config, indent=1))


def write_target(directory: Path) -> None:
    weights = base()
    for layer in range(LAYERS):
        weights |= attention(f"model.layers.{layer}.") | mlp(f"model.layers.{layer}.mlp.")
    write(directory, weights, architectures=["Qwen3ForCausalLM"], num_hidden_layers=LAYERS)


def write_draft(directory: Path, inner: int) -> None:
    weights = {
        "fc.weight": linear(HIDDEN, LAYERS * HIDDEN),
        "hidden_norm.weight": ones(HIDDEN),
        "norm.weight": ones(HIDDEN),
        "markov_head.markov_w1.weight": linear(VOCABULARY, MARKOV_RANK),
        "markov_head.markov_w2.weight": linear(VOCABULARY, MARKOV_RANK),
        "confidence_head.proj.weight": torch.randn(1, HIDDEN + MARKOV_RANK) * 0.05,
        "confidence_head.proj.bias": torch.zeros(1),
    }
    write(
        directory,
        weights | attention("layers.0.") | mlp("layers.0.mlp.", inner),
        architectures=["Qwen3DSparkModel"],
        num_hidden_layers=1,
        intermediate_size=inner,
        block_size=DRAFTED,
        markov_rank=MARKOV_RANK,
        markov_head_type="vanilla",
        enable_confidence_head=True,
        confidence_head_with_markov=True,
        mask_token_id=VOCABULARY - 1,
        target_layer_ids=list(range(LAYERS)),
        num_target_layers=LAYERS,
        target_hidden_size=HIDDEN,
    )


def write_moe(directory: Path) -> None:
    weights = base()
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        weights |= attention(prefix) | {f"{prefix}mlp.gate.weight": linear(EXPERTS, HIDDEN)}
        for expert in range(EXPERTS):
            weights |= mlp(f"{prefix}mlp.experts.{expert}.")
    write(
        directory,
        weights,
        architectures=["Qwen3MoeForCausalLM"],
        model_type="qwen3_moe",
        moe_intermediate_size=INNER,
        num_experts=EXPERTS,
        num_experts_per_tok=2,
        norm_topk_prob=True,
        decoder_sparse_step=1,
        mlp_only_layers=[],
        num_hidden_layers=LAYERS,
    )


if __name__ == "__main__":
    models = Path(sys.argv[1])
    torch.manual_seed(0)
    write_target(models / "target")
    write_draft(models / "draft", INNER)
    write_draft(models / "draft-wide", 3 * INNER)
    write_moe(models / "moe")
