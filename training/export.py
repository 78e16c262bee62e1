"""Write the weights that the package ships: fp16 safetensors.

python training/export.py --out build/training
"""

import argparse
import json
import struct
from pathlib import Path

import numpy as np
import torch

PACKAGE = Path(__file__).parent.parent / "src/warmcurve/embedded"


def write(path: Path, tensors: dict[str, np.ndarray]) -> None:
    header, offset = {}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F16", "shape": list(tensor.shape), "data_offsets": [offset, offset + tensor.nbytes]}
        offset += tensor.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(t.tobytes() for t in tensors.values()))
    print(f"{path.name}: {path.stat().st_size} bytes")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("build/training"))
    parser.add_argument("--to", type=Path, default=PACKAGE)
    arguments = parser.parse_args()
    for name, source in (("target", "target.pt"), ("drafter", "calibrated.pt")):
        state = torch.load(arguments.out / source)
        write(arguments.to / f"{name}.safetensors", {key: value.half().numpy() for key, value in sorted(state.items())})


if __name__ == "__main__":
    main()
