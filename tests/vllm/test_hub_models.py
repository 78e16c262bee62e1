"""Models of the hub, in caches as `huggingface_hub` itself lays and finds them; nothing is downloaded."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import snapshot_download
from huggingface_hub.errors import LocalEntryNotFoundError

from tests.plugin.test_models import LOAD, A, B, load, model, who, write
from warmcurve.errors import FactorError
from warmcurve.vllm.weights.models import identity

OLD, NEW = "1" * 40, "2" * 40


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The default cache of this process, empty."""
    place = tmp_path / "hub"
    place.mkdir()
    # huggingface_hub reads its environment once, when it is imported.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(place))
    return place


def lay(cache: Path, commit: str, *shards: dict[str, Any], name: str = "org/name", branch: str = "main") -> Path:
    """A snapshot whose files are links to blobs, and the branch that it was."""
    repository = cache / f"models--{name.replace('/', '--')}"
    written = write(cache.parent / f"written-{commit}-{len(os.listdir(cache.parent))}", *shards)
    snapshot = repository / "snapshots" / commit
    for place in (repository / "blobs", repository / "refs", snapshot):
        place.mkdir(parents=True, exist_ok=True)
    (repository / "refs" / branch).write_text(commit)
    for file in written.iterdir():
        blob = repository / "blobs" / f"{commit}-{file.name}"
        file.rename(blob)
        (snapshot / file.name).symlink_to(os.path.relpath(blob, snapshot))
    return snapshot


def test_a_name_is_its_snapshot(cache: Path, tmp_path: Path) -> None:
    """By name, as the draft keeps it offline; by the snapshot's path, as the target gets it; or copied elsewhere."""
    snapshot = lay(cache, OLD, A, B)
    assert who("org/name") == who(snapshot) == who(write(tmp_path / "copy", A, B))


def test_the_revision_decides(cache: Path) -> None:
    """A branch is the commit that it was when it was loaded; a commit is itself; one that is not there is unknown."""
    lay(cache, OLD, A)
    old = who("org/name")
    lay(cache, NEW, B)
    (cache / "models--org--name" / "refs" / "v1").write_text(OLD)
    assert who("org/name") == who("org/name", revision=NEW) != old
    assert who("org/name", revision="v1") == who("org/name", revision=OLD) == old
    with pytest.raises(FactorError, match=r"target\.model\.configuration: org/name is neither a directory nor in"):
        who("org/name", revision="v2")
    with pytest.raises(FactorError, match="neither a directory nor in"):
        who("another/name")


def test_weights_in_another_directory(cache: Path, tmp_path: Path) -> None:
    """vLLM downloads weights to `download_dir`, and the configuration to the default cache."""
    weights = tmp_path / "weights"
    weights.mkdir()
    (lay(weights, OLD, A) / "config.json").unlink()
    for shard in lay(cache, OLD, B).glob("*.safetensors"):
        shard.unlink()
    elsewhere = load("auto")
    elsewhere.download_dir = str(weights)
    assert identity(model("org/name"), elsewhere, "draft.model") == who(write(tmp_path / "copy", A))
    with pytest.raises(FactorError, match=r"draft\.model\.weights: no \*\.safetensors"):
        identity(model("org/name"), LOAD, "draft.model")


def test_a_partial_snapshot_is_read(cache: Path) -> None:
    """vLLM downloads only what it needs of a repository, which `huggingface_hub` calls incomplete."""
    snapshot = lay(cache, OLD, A)
    tree = {"format_version": 1, "files": {"README.md": {"size": 1, "blob_id": "0" * 40}}}
    trees = cache / "models--org--name" / "trees"
    trees.mkdir()
    (trees / f"{OLD}.json").write_text(json.dumps(tree))
    with pytest.raises(LocalEntryNotFoundError):
        snapshot_download("org/name", local_files_only=True)
    assert who("org/name") == who(snapshot)


def test_trusted_code_of_another_revision(cache: Path, tmp_path: Path) -> None:
    """`code_revision` says where the Python files are read, not the configuration."""
    (lay(cache, OLD, A) / "modeling.py").write_text("x = 1")
    (lay(cache, NEW, B, branch="code") / "modeling.py").write_text("x = 2")
    plain = who("org/name", trust_remote_code=True)
    other = who("org/name", trust_remote_code=True, code_revision="code")
    assert plain["weights"] == other["weights"]
    assert plain["code"] != other["code"]
    with pytest.raises(FactorError, match=r"target\.model\.code: "):
        who("org/name", trust_remote_code=True, code_revision="gone")
