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


@pytest.mark.parametrize("mode", ["off", " OFF "])
def test_the_mode_off_changes_nothing_either(mode: str) -> None:
    """Whatever the switch says."""
    assert interpreter(CHANGED, {SWITCH: "1", "WARMCURVE_MODE": mode}) == "[] 0"
    assert interpreter(CHANGED, {SWITCH: "1", "WARMCURVE_MODE": "reuse"}).endswith(" 1")


def test_switched_on_it_waits(stock: Path) -> None:
    """On: one finder however often it is called, and neither vLLM nor any room that calibrates is imported."""
    printed = interpreter(CHANGED, {SWITCH: "1"}, stock)
    assert printed.endswith(" 1")
    assert "'warmcurve.vllm.seam.hook'" in printed
    for heavy in ("'vllm", "'torch", "'msgspec", "'warmcurve.boot.path", "'warmcurve.vllm.seam.calibration"):
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
    """Its loader, its file and its source are what they are without the hook."""
    code = """
        import inspect, sys
        import warmcurve.vllm
        warmcurve.vllm.register()
        from vllm.v1.worker.gpu import model_runner
        print(type(model_runner.__loader__).__name__, "captured" in inspect.getsource(model_runner))
    """
    assert interpreter(code, {SWITCH: "1"}, stock) == "SourceFileLoader True"


HALF = """
class GPUModelRunner:
    def capture_model(self): pass
"""


@pytest.mark.parametrize("source", ["", "class GPUModelRunner: pass", "GPUModelRunner = None", HALF])
def test_another_runner_is_imported_all_the_same(stock: Path, source: str) -> None:
    """A runner without the hooked methods is imported, and one line says that it is left alone."""
    (stock / "vllm/v1/worker/gpu/model_runner.py").write_text(source)
    code = """
        import logging
        handler = logging.Handler(); handler.emit = lambda record: print(record.levelname, record.getMessage())
        logging.getLogger("vllm.warmcurve").addHandler(handler)
        import warmcurve.vllm
        warmcurve.vllm.register()
        from vllm.v1.worker.gpu import model_runner
        runner = getattr(model_runner, "GPUModelRunner", None)
        print("imported", hasattr(getattr(runner, "capture_model", None), "warmcurve"))
    """
    line, imported = interpreter(code, {SWITCH: "1"}, stock).splitlines()
    assert line.startswith("WARNING warmcurve could not hook")
    assert imported == "imported False"


ODD = {
    "finders wrapped by another tool": """
        class Wrapper:
            def __init__(self, finder): self.finder = finder
            def find_spec(self, *arguments): return self.finder.find_spec(*arguments)
        sys.meta_path[:] = [Wrapper(finder) for finder in sys.meta_path]
    """,
    "its spec asked for first": """
        importlib.util.find_spec("vllm.v1.worker.gpu.model_runner")
    """,
    "imported, removed and imported again": """
        import vllm.v1.worker.gpu.model_runner
        del sys.modules["vllm.v1.worker.gpu.model_runner"]
    """,
}


@pytest.mark.parametrize("oddity", ODD)
def test_other_tools_do_not_use_the_hook_up(stock: Path, oddity: str) -> None:
    """Whatever others do with finders and specs, the runner is imported, and wrapped once."""
    code = f"""
        import importlib.util, sys
        import warmcurve.vllm
        warmcurve.vllm.register()
        {dedent(ODD[oddity]).strip().replace(chr(10), chr(10) + " " * 8)}
        from vllm.v1.worker.gpu.model_runner import GPUModelRunner
        print(hasattr(GPUModelRunner.capture_model, "warmcurve"), GPUModelRunner().capture_model())
        print(hasattr(GPUModelRunner.capture_model.__wrapped__, "__wrapped__"))
    """
    assert interpreter(code, {SWITCH: "1"}, stock) == "True ('captured', False)\nFalse"


UNHOOKED = {
    "a loader that cannot be changed": """
        class Loader(importlib.machinery.SourceFileLoader):
            def __setattr__(self, name, value):
                if name == "exec_module": raise AttributeError(name)
                super().__setattr__(name, value)
        path = sys.path[[*map(lambda p: "test_a_hook" in p, sys.path)].index(True)]
        hook = importlib.machinery.FileFinder.path_hook((Loader, [".py"]))
        sys.path_hooks.insert(0, hook)
        sys.path_importer_cache.clear()
    """,
    "a finder that fails": """
        class Failing:
            def find_spec(self, name, *arguments):
                if name.endswith("model_runner") and not done: done.append(1); raise ValueError("planted")
        done = []
        sys.meta_path.insert(1, Failing())
    """,
}


@pytest.mark.parametrize("oddity", UNHOOKED)
def test_a_hook_that_cannot_be_placed_is_left_out(stock: Path, oddity: str) -> None:
    """Where the hook cannot be placed the runner is imported as it is, and one line says so."""
    code = f"""
        import importlib.machinery, logging, sys
        handler = logging.Handler(); handler.emit = lambda record: print(record.levelname, record.getMessage())
        logging.getLogger("vllm.warmcurve").addHandler(handler)
        import warmcurve.vllm
        warmcurve.vllm.register()
        {dedent(UNHOOKED[oddity]).strip().replace(chr(10), chr(10) + " " * 8)}
        from vllm.v1.worker.gpu.model_runner import GPUModelRunner
        print(hasattr(GPUModelRunner.capture_model, "warmcurve"), GPUModelRunner().capture_model())
    """
    line, runner = interpreter(code, {SWITCH: "1"}, stock).splitlines()
    assert line == "WARNING warmcurve could not hook vLLM's model runner; vLLM goes on"
    assert runner == "False ('captured', False)"


def test_a_seam_that_cannot_be_imported_is_left_out(stock: Path) -> None:
    """Where a dependency is broken, vLLM captures as it is, and one line says so."""
    code = """
        import logging, sys
        handler = logging.Handler(); handler.emit = lambda record: print(record.levelname, record.getMessage())
        logging.getLogger("vllm.warmcurve").addHandler(handler)
        sys.modules["msgspec"] = None
        import warmcurve.vllm
        warmcurve.vllm.register()
        from vllm.v1.worker.gpu.model_runner import GPUModelRunner
        runner = GPUModelRunner()
        runner.adaptive_verification = object()
        print(runner.capture_model())
    """
    expected = "WARNING warmcurve stands aside; vLLM goes on\n('captured', False)"
    assert interpreter(code, {SWITCH: "1"}, stock) == expected


REQUIRED = """
    import importlib.machinery, logging, sys
    logging.getLogger("vllm.warmcurve").addHandler(logging.NullHandler())
    import warmcurve.vllm, warmcurve.vllm.seam.hook
    def fail(*arguments): raise ValueError("planted")
    try:
        {broken}
        warmcurve.vllm.register()
        from vllm.v1.worker.gpu.model_runner import GPUModelRunner
        runner = GPUModelRunner()
        runner.adaptive_verification = object()
        print(runner.capture_model())
    except Exception as error:
        print(type(error).__name__, *error.__notes__)
"""


@pytest.mark.parametrize(
    ("broken", "error"),
    {
        "warmcurve.vllm.seam.hook.install = fail": "ValueError",
        "warmcurve.vllm.seam.hook._wrap_after = fail": "ValueError",
        "warmcurve.vllm.seam.hook._calibrating = fail": "ValueError",
        "sys.modules['msgspec'] = None": "ModuleNotFoundError",
    }.items(),
)
def test_where_curves_are_required_errors_pass(stock: Path, broken: str, error: str) -> None:
    """In the mode `require` vLLM does not start without warmcurve, and its error says why."""
    code = REQUIRED.format(broken=broken)
    printed = interpreter(code, {SWITCH: "1", "WARMCURVE_MODE": "require"}, stock)
    assert printed == f"{error} warmcurve: WARMCURVE_MODE=require lets no boot go on without stored curves"
    assert "('captured', False)" in interpreter(code, {SWITCH: "1", "WARMCURVE_MODE": "reuse"}, stock)


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
        import warmcurve.vllm, warmcurve.vllm.seam.hook as hook
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
        def around(runner, method, hook):
            print("seam", end=" ")
            yield
        sys.modules["warmcurve.vllm.seam.around"] = types.SimpleNamespace(around=around)
        from vllm.v1.worker.gpu.model_runner import GPUModelRunner
        runner = GPUModelRunner()
        runner.adaptive_verification = object()
        print(runner.capture_model(), runner.capture_model(profile_only=True), runner.profile_cudagraph_memory())
        print(runner.capture_model())
    """
    expected = "seam ('captured', False) ('captured', True) ('profiled', ('captured', False))\nseam ('captured', False)"
    assert interpreter(code, {SWITCH: "1"}, stock) == expected
