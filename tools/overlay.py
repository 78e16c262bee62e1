"""Build the wheel and lay it open under build/overlay, for PYTHONPATH: in vLLM's environment the wheel is tested.

usage: .venv/bin/python overlay.py        needs hatchling; uses no network
"""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
WHEELS, OVERLAY = BUILD / "wheel", BUILD / "overlay"


def build() -> None:
    """Change nothing on disk if the wheel is the one that lies there: a run that has it open keeps its files."""
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD, prefix=".overlay-") as scratch:
        made, opened = Path(scratch, "wheel"), Path(scratch, "overlay")
        command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(made)]
        subprocess.run(command, check=True, cwd=ROOT, stdout=sys.stderr)
        (wheel,) = made.glob("*.whl")
        before = WHEELS / wheel.name
        if OVERLAY.exists() and before.exists() and before.read_bytes() == wheel.read_bytes():
            return
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(opened)
        for new, place in ((opened, OVERLAY), (made, WHEELS)):
            shutil.rmtree(place, ignore_errors=True)
            new.replace(place)


if __name__ == "__main__":
    try:
        build()
    except subprocess.CalledProcessError as error:
        sys.exit(f"overlay.py: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
