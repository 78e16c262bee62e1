"""`register()`: what vLLM calls in every process, unguarded."""

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

import warmcurve

SOURCE = str(Path(warmcurve.__file__).parents[1])
SWITCH = "VLLM_ENABLE_ADAPTIVE_VERIFICATION_PROFILE_CACHE"
RUNNER = """
class GPUModelRunner:
    adaptive_verification = None

    def capture_model(self, *, profile_only=False):
        return "captured", profile_only

    def profile_cudagraph_memory(self):
        return "profiled", self.capture_model()
"""


def interpreter(code: str, environment: dict[str, str], path: Path | None = None) -> str:
    """What a clean interpreter prints, with nothing but this environment."""
    search = f"{SOURCE}:{path}" if path else SOURCE
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", dedent(code)],
        env={"PYTHONPATH": search, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.fixture
def stock(tmp_path: Path) -> Path:
    """A package with vLLM's names, and the parts of the runner that the hook touches."""
    package = tmp_path / "vllm" / "v1" / "worker" / "gpu"
    package.mkdir(parents=True)
    for directory in (package, *list(package.parents)[:3]):
        (directory / "__init__.py").touch()
    (package / "model_runner.py").write_text(RUNNER)
    return tmp_path


CHANGED = """
    import sys, os
    import warmcurve.vllm
    before, finders = set(sys.modules), list(sys.meta_path)
    for _ in range(3):
        warmcurve.vllm.register()
    print(sorted(set(sys.modules) - before), len(sys.meta_path) - len(finders))
"""


@pytest.mark.parametrize("value", [None, "", "0", "false", "off", " No "])
def test_switched_off_it_changes_nothing(value: str | None) -> None:
    """Unset or off: no module is imported, no finder is added, however often it is called."""
    assert interpreter(CHANGED, {} if value is None else {SWITCH: value}) == "[] 0"


def test_switched_on_it_waits(stock: Path) -> None:
    """On: one finder however often it is called, and neither vLLM nor any room that calibrates is imported."""
    printed = interpreter(CHANGED, {SWITCH: "1"}, stock)
    assert printed.endswith(" 1")
    assert "'warmcurve.vllm.hook'" in printed
    for heavy in ("'vllm", "'torch", "'msgspec", "'warmcurve.boot", "'warmcurve.vllm.seam"):
        assert heavy not in printed


def test_the_first_switch_that_is_set_decides() -> None:
    """vLLM's name for the switch goes before the other, which serves where vLLM refuses names it does not know."""
    assert interpreter(CHANGED, {"WARMCURVE_VLLM": "1"}).endswith(" 1")
    assert interpreter(CHANGED, {SWITCH: "0", "WARMCURVE_VLLM": "1"}) == "[] 0"


def test_importing_the_entry_point_is_light() -> None:
    """Loading the entry point, which vLLM does whether or not the switch is on, imports two nearly empty rooms."""
    code = """
        import sys
        before = set(sys.modules)
        import warmcurve.vllm
        print(*sorted(name for name in set(sys.modules) - before if name.split(".")[0] not in sys.stdlib_module_names))
    """
    assert interpreter(code, {}) == "warmcurve warmcurve._version warmcurve.vllm"


WRAPPED = """
    import warmcurve.vllm
    {before}
    warmcurve.vllm.register()
    from vllm.v1.worker.gpu.model_runner import GPUModelRunner
    warmcurve.vllm.register()
    runner = GPUModelRunner()
    once = not hasattr(GPUModelRunner.capture_model.__wrapped__, "__wrapped__")
    print(once, runner.capture_model(), runner.capture_model(profile_only=True), runner.profile_cudagraph_memory())
"""


@pytest.mark.parametrize("before", ["", "import vllm.v1.worker.gpu.model_runner"])
def test_the_runner_is_wrapped_once(stock: Path, before: str) -> None:
    """Imported before or after, the runner is wrapped once, and without a manager it does what it did."""
    expected = "True ('captured', False) ('captured', True) ('profiled', ('captured', False))"
    assert interpreter(WRAPPED.format(before=before), {SWITCH: "1"}, stock) == expected


def test_the_hooked_module_is_a_module_like_others(stock: Path) -> None:
    """Its loader, its file and its source are what they are without the hook, and the finder is gone."""
    code = """
        import inspect, sys
        import warmcurve.vllm
        warmcurve.vllm.register()
        from vllm.v1.worker.gpu import model_runner
        print(type(model_runner.__loader__).__name__, "captured" in inspect.getsource(model_runner))
        print([type(finder).__module__ for finder in sys.meta_path if "warmcurve" in type(finder).__module__])
    """
    assert interpreter(code, {SWITCH: "1"}, stock) == "SourceFileLoader True\n[]"


@pytest.mark.parametrize("source", ["", "class GPUModelRunner: pass", "GPUModelRunner = None"])
def test_another_runner_is_imported_all_the_same(stock: Path, source: str) -> None:
    """A runner without the hooked methods is imported, and one line says that it is left alone."""
    (stock / "vllm/v1/worker/gpu/model_runner.py").write_text(source)
    code = """
        import logging
        handler = logging.Handler(); handler.emit = lambda record: print(record.levelname, record.getMessage())
        logging.getLogger("vllm.warmcurve").addHandler(handler)
        import warmcurve.vllm
        warmcurve.vllm.register()
        import vllm.v1.worker.gpu.model_runner
        print("imported")
    """
    line, imported = interpreter(code, {SWITCH: "1"}, stock).splitlines()
    assert line.startswith("WARNING warmcurve could not hook")
    assert imported == "imported"


def test_a_runner_that_cannot_be_imported_raises_its_own_error(stock: Path) -> None:
    """An error of vLLM's own while the module is imported is raised as it is."""
    (stock / "vllm/v1/worker/gpu/model_runner.py").write_text("raise RuntimeError('of its own')")
    code = """
        import warmcurve.vllm
        warmcurve.vllm.register()
        try:
            import vllm.v1.worker.gpu.model_runner
        except RuntimeError as error:
            print(error)
    """
    assert interpreter(code, {SWITCH: "1"}, stock) == "of its own"


def test_it_never_raises(stock: Path) -> None:
    """An error while setting up is logged, not raised."""
    code = """
        import logging
        handler = logging.Handler(); handler.emit = lambda record: print(record.levelname, record.exc_info[1])
        logging.getLogger("vllm.warmcurve").addHandler(handler)
        import warmcurve.vllm, warmcurve.vllm.hook as hook
        def fail(): raise ValueError("planted")
        hook.install = fail
        warmcurve.vllm.register()
    """
    assert interpreter(code, {SWITCH: "1"}, stock) == "WARNING planted"


def test_a_pass_of_the_memory_profiler_is_left_alone(stock: Path) -> None:
    """With a manager, a profiling pass goes straight to vLLM; any other capture gets the seam."""
    code = """
        import sys, types
        from contextlib import contextmanager
        import warmcurve.vllm
        warmcurve.vllm.register()
        @contextmanager
        def seam(runner):
            print("seam", end=" ")
            yield
        sys.modules["warmcurve.vllm.seam"] = types.SimpleNamespace(seam=seam)
        from vllm.v1.worker.gpu.model_runner import GPUModelRunner
        runner = GPUModelRunner()
        runner.adaptive_verification = object()
        print(runner.capture_model(), runner.capture_model(profile_only=True), runner.profile_cudagraph_memory())
        print(runner.capture_model())
    """
    expected = "seam ('captured', False) ('captured', True) ('profiled', ('captured', False))\nseam ('captured', False)"
    assert interpreter(code, {SWITCH: "1"}, stock) == expected
