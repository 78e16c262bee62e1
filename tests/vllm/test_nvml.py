"""NVML's Python module, as vLLM ships it, has what is asked of it."""

import ast
import inspect
from pathlib import Path
from typing import Any

import pytest

from warmcurve.vllm.device import nvml


@pytest.fixture(scope="module")
def library() -> Any:
    from vllm.utils.import_utils import import_pynvml

    return import_pynvml()


def test_every_name_exists(library: Any) -> None:
    """Functions and constants are asked for by name, and a name that is gone would be a fact that nobody knows."""
    tree = ast.parse(Path(nvml.__file__).read_bytes())
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names = {name for name in texts | attributes if name.startswith(("nvml", "NVML")) and name.isidentifier()}
    assert {"nvmlInit", "nvmlDeviceGetMigMode", "NVML_CLOCK_SM", "NVML_ERROR_NOT_SUPPORTED"} <= names
    assert {name for name in names if not hasattr(library, name)} == set()


def test_a_slices_attributes_exist(library: Any) -> None:
    """The fields that tell a MIG slice's profile."""
    fields = {name for name, _ in library.c_nvmlDeviceAttributes._fields_}
    asked = {
        node.attr for node in ast.walk(ast.parse(inspect.getsource(nvml._slice))) if isinstance(node, ast.Attribute)
    }
    assert asked - fields == {"is_slice", "ask"}


def test_without_the_library_there_is_no_board(library: Any) -> None:
    """The error of a machine without NVIDIA's driver is one that means none; others carry their number, too."""
    assert library.NVMLError(library.NVML_ERROR_TIMEOUT).value == library.NVML_ERROR_TIMEOUT
    with nvml.opened(library, "00000000-0000-0000-0000-000000000000") as board:
        assert board is None
