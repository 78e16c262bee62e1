"""The gate: what calibrates is recognised wherever it stands, and any other calibration is turned away.

The catalogue changes the real sources of every supported release that lies beside this environment.
"""

import ast
import re
from pathlib import Path

import pytest

from tests.vllm.sources import INSTALLED, Change, Sources, loader, read, replace
from warmcurve.vllm.releases import KNOWN, MANAGER, RUNNER, TIMING, Calibration, calibration

LOOP = r"""^( *)with self\.step_timing\.collect\(\) as timings:
(?: .*\n)+?\s+self\._dummy_run\(.*\)
\s+self\.adaptive_verification\.set_initial_cost_curves\(timings\)\n"""
COLLECT = r"self\.step_timing\.collect\(\)"
RUN = r"^( *)self\._dummy_run\(\*\*batch(.*)\)$"
HAND_OVER = r"^( *)(self\.adaptive_verification\.set_initial_cost_curves)\(timings\)$"
ASK = (
    r"(self\.adaptive_verification\.batches_to_profile\(\n\s+self\.cudagraph_manager\.captured_token_counts\(\)\n\s+\))"
)
CAPTURE = r"    def capture_model\(self"


def runner(old: str, new: str) -> Change:
    return replace(RUNNER, old, new)


def around_the_loop(before: str, after: str = "", deeper: bool = True) -> Change:
    """Put lines before the loop and after it, at its own depth, and move it one step in."""

    def change(sources: Sources) -> None:
        match = re.search(LOOP, sources[RUNNER], re.MULTILINE)
        assert match
        depth, lines = match[1], match[0].splitlines()
        body = "\n".join("    " * deeper + line for line in lines)
        block = "\n".join(filter(None, (*_indented(before, depth), body, *_indented(after, depth))))
        sources[RUNNER] = sources[RUNNER].replace(match[0], block + "\n")

    return change


def _indented(text: str, depth: str) -> list[str]:
    return [depth + line for line in text.splitlines()]


def in_a_method_of_its_own(name: str) -> Change:
    """Move the loop into a new method, and call that where it stood."""

    def change(sources: Sources) -> None:
        match = re.search(LOOP, sources[RUNNER], re.MULTILINE)
        assert match
        depth = len(match[1])
        moved = "".join(line[depth - 8 :] + "\n" for line in match[0].splitlines())
        sources[RUNNER] = sources[RUNNER].replace(match[0], f"{match[1]}self.{name}()\n")
        method = f"    def {name}(self):\n{moved}\n"
        start = re.search(r"^    @torch\.inference_mode\(\)\n    def capture_model", sources[RUNNER], re.MULTILINE)
        assert start
        sources[RUNNER] = sources[RUNNER][: start.start()] + method + sources[RUNNER][start.start() :]

    return change


def outside_the_loop(old: str, new: str) -> Change:
    """Rename something everywhere in the runner but in the loop, where it must not be."""

    def change(sources: Sources) -> None:
        match = re.search(LOOP, sources[RUNNER], re.MULTILINE)
        assert match
        assert not re.search(old, match[0])
        assert re.search(old, sources[RUNNER])
        sources[RUNNER] = re.sub(old, new, sources[RUNNER])

    return change


def formatted(sources: Sources) -> None:
    """Without comments, in another layout."""
    sources.update({name: ast.unparse(ast.parse(source)) for name, source in sources.items()})


SURROUNDINGS: dict[str, Change] = {
    "as it is": lambda sources: None,
    "no comments, another layout": formatted,
    "a comment in the loop": runner(RUN, r"\1# One run.\n\1self._dummy_run(**batch\2)"),
    "a log line before the loop": around_the_loop('logger.info("calibrating")', deeper=False),
    "a log line after the loop": around_the_loop("", 'logger.info("calibrated")', deeper=False),
    "a docstring of the method": runner(rf"({CAPTURE}.*\n)", r'\1        """Capture."""\n'),
    "a variable renamed": outside_the_loop(r"\bstart_time\b", "began"),
    "a condition renamed": outside_the_loop(r"\bcapture_decoder\b", "decoding"),
    "a parameter more": runner(rf"{CAPTURE}.*?\)", "    def capture_model(self, *, profile_only=False, quick=False)"),
    "a condition more": around_the_loop("if self.is_last_pp_rank:"),
    "another branch of a condition": around_the_loop("if not self.is_last_pp_rank:\n    pass\nelse:"),
    "a context more": around_the_loop('with torch.profiler.record_function("calibration"):'),
    "something to be done in any case": around_the_loop("try:", "finally:\n    torch.accelerator.synchronize()"),
    "an untimed run before": around_the_loop("self._dummy_run(1)", deeper=False),
    "memory freed after": around_the_loop("", "torch.accelerator.empty_cache()", deeper=False),
    "a synchronisation before": around_the_loop("torch.accelerator.synchronize()", deeper=False),
    "another message": outside_the_loop("Graph capturing finished in", "Captured in"),
    "another method more": runner(
        CAPTURE, "    def another(self):\n        return self.captured\n\n    def capture_model(self"
    ),
    "a method of its own": in_a_method_of_its_own("calibrate"),
    "another function of the manager's module": replace(MANAGER, r"^_PROFILE_REPLAYS = 5$", "_PROFILE_REPLAYS = 7"),
    "another class beside the timings": replace(
        TIMING, r"^class AsyncOutput", "class Another: ...\n\n\nclass AsyncOutput"
    ),
}
CALIBRATIONS: dict[str, Change] = {
    "one more run": runner(RUN, r"\1self._dummy_run(**batch\2)\n\1self._dummy_run(**batch\2)"),
    "another order": runner(ASK, r"reversed(list(\1))"),
    "fewer batches": runner(ASK, r"list(\1)[5:]"),
    "another argument of the run": runner(RUN, r"\1self._dummy_run(**batch, uniform_decode=True)"),
    "another run": runner(RUN, r"\1self.execute_dummy(**batch\2)"),
    "a batch changed": runner(RUN, r"\1batch['context_len'] //= 2\n\1self._dummy_run(**batch\2)"),
    "a run that is tried": runner(RUN, r"\1try:\n\1    self._dummy_run(**batch\2)\n\1finally:\n\1    pass"),
    "a wait after each run": runner(RUN, r"\1self._dummy_run(**batch\2)\n\1torch.accelerator.synchronize()"),
    "a condition on the run": runner(RUN, r"\1if len(batch) > 1:\n\1    self._dummy_run(**batch\2)"),
    "other sizes": runner(r"self\.cudagraph_manager\.captured_token_counts\(\)(?=\n +\):)", "[1, 2]"),
    "the first timings dropped": runner(HAND_OVER, r"\1\2(timings[5:])"),
    "the timings changed": runner(HAND_OVER, r"\1timings.reverse()\n\1\2(timings)"),
    "the timings used again": runner(HAND_OVER, r"\1\2(timings)\n\1self.plan(timings)"),
    "handed over while timing": runner(HAND_OVER, r"\1    \2(timings)"),
    "not handed over": runner(HAND_OVER, r"\1pass"),
    "another context around the timing": runner(COLLECT, "self.step_timing.collect(warm=True)"),
    "a context within the timing": runner(f"({COLLECT} as timings)", r"\1, self.other()"),
    "done twice": around_the_loop("for _ in range(2):"),
    "done until it holds": around_the_loop("while self.unsure:"),
    "done again after an error": around_the_loop("try:", "except RuntimeError:\n    pass"),
    "in a function of its own": around_the_loop("def calibrate():", "calibrate()"),
    "a second loop": around_the_loop(
        "for batch in self.adaptive_verification.batches_to_profile([1]):\n    self._dummy_run(**batch)", deeper=False
    ),
    "curves set again": around_the_loop("", "self.adaptive_verification.set_cost_curves([], [])", deeper=False),
    "tables changed": around_the_loop("", "self.adaptive_verification.cost_tables = None", deeper=False),
    "another collector": around_the_loop("self.step_timing = Collector()", deeper=False),
    "another mean": replace(MANAGER, r"float\(np\.median\(v\)\)", "float(np.mean(v))"),
    "eager runs price the draft": replace(MANAGER, r" if s\.full_cudagraph\n", "\n"),
    "another tail": replace(MANAGER, r"size \+ size // 2", "size + size // 4"),
    "another rank's curves": replace(MANAGER, r"src=0", "src=1"),
    "another table": replace(MANAGER, r'side="left"', 'side="right"'),
    "the last step's timings alone": replace(TIMING, r"self\._timed\.append\((.*)\)$", r"self._timed = [\1]"),
    "the draft timed with the forward": replace(TIMING, r"events\.drafter_start", "events.forward_start"),
    "a sample with a field more": replace(TIMING, r"^( *)(full_cudagraph: bool)$", r"\1\2\n\1warm: bool"),
}  # fmt: skip


NEWEST = max(KNOWN)
RELEASES = [
    version if version in {INSTALLED, NEWEST} else pytest.param(version, marks=pytest.mark.full)
    for version in sorted(KNOWN)
]


@pytest.fixture(params=RELEASES, scope="module")
def release(request: pytest.FixtureRequest) -> tuple[str, Sources]:
    return request.param, read(request.param)


def _changed(release: tuple[str, Sources], change: Change, directory: Path) -> Calibration:
    """Raises LookupError."""
    sources = dict(release[1])
    change(sources)
    return calibration(loader(directory, sources))


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_other_surroundings_are_accepted(release: tuple[str, Sources], name: str, tmp_path: Path) -> None:
    """What stands around the loop may change: it is still known, as this release's."""
    changed = _changed(release, SURROUNDINGS[name], tmp_path)
    assert changed.news == ()
    assert release[0] in changed.releases


@pytest.mark.parametrize("name", CALIBRATIONS)
def test_another_calibration_is_turned_away(release: tuple[str, Sources], name: str, tmp_path: Path) -> None:
    """Whatever calibrates in another way is that of no release, and what is new is said."""
    changed = _changed(release, CALIBRATIONS[name], tmp_path)
    assert changed.releases == ()
    assert changed.news


def test_where_there_is_no_loop(release: tuple[str, Sources], tmp_path: Path) -> None:
    """A runner that calibrates nothing, or elsewhere, is none that could be hooked."""
    with pytest.raises(LookupError, match="no calibration loop"):
        _changed(release, runner(LOOP, r"\1pass\n"), tmp_path)


def test_the_catalogue_is_one_of_changes(release: tuple[str, Sources]) -> None:
    """Each entry but the first changes what it is given."""
    for name, change in (SURROUNDINGS | CALIBRATIONS).items():
        sources = dict(release[1])
        change(sources)
        assert (sources == release[1]) == (name == "as it is"), name


def test_the_loop_is_found_where_it_stands(release: tuple[str, Sources], tmp_path: Path) -> None:
    """Up to 0.33 in the capture, from 0.34 on in a method of its own."""
    found = _changed(release, SURROUNDINGS["as it is"], tmp_path)
    assert found.loop.method == ("capture_model" if release[0] < "0.34" else "profile_adaptive_verification")


@pytest.mark.parametrize("name", ["a log line before the loop", "a variable renamed", "no comments, another layout"])
def test_they_leave_the_fingerprint_as_it_is(release: tuple[str, Sources], name: str, tmp_path: Path) -> None:
    """What stands around the loop and cannot change what a run costs leaves stored curves usable."""
    original, changed = tmp_path / "original", tmp_path / "changed"
    original.mkdir()
    changed.mkdir()
    before = _changed(release, SURROUNDINGS["as it is"], original)
    after = _changed(release, SURROUNDINGS[name], changed)
    assert before == after


def test_a_context_around_the_loop_is_another_fingerprint(release: tuple[str, Sources], tmp_path: Path) -> None:
    """The runs are made within it, so their cost may be another one."""
    original, changed = tmp_path / "original", tmp_path / "changed"
    original.mkdir()
    changed.mkdir()
    before = _changed(release, SURROUNDINGS["as it is"], original)
    after = _changed(release, SURROUNDINGS["a context more"], changed)
    assert before.loop.around != after.loop.around
