"""The adapter for stock vLLM. One environment variable switches it on.

Which file to open when a new release of vLLM breaks something:
- `engine_unknown`, the hooked functions changed: `releases.py` has their digests, `seam/hook.py` wraps them;
- `unreviewed` in a report, a new configuration field or environment variable: the lists in `reviewed/`;
- `factor_unknown`, an attribute of the runner is gone: `factors/declared.py` has a row for each factor;
- `factor_unknown: device`, a fact about the device: `device/`, a file for each driver;
- `factor_unknown: target.model` or `draft.model`, the model's files: `weights/`, a file for each format.
"""

import os

SWITCHES = ("VLLM_ENABLE_ADAPTIVE_VERIFICATION_PROFILE_CACHE", "WARMCURVE_VLLM")
"""The first that is set decides. The second is for `--fail-on-environ-validation`, with which vLLM refuses to start
when it meets a VLLM_ variable that is not its own (`Platform.validate_environ`)."""


def register() -> None:
    """Entry point of the group `vllm.general_plugins`. It may be called any number of times.

    vLLM calls it in every process, unguarded, before it imports any worker module. Switched off, it returns at once.
    Switched on, it leaves a hook that waits for the GPU model runner. A process that never calibrates imports nothing
    else. It raises only in the mode `require`, where no boot may go on without warmcurve.
    """
    # From os.environ and not vllm.envs: a variable that vLLM knew would enter its compile cache's key.
    switch = next((os.environ[name] for name in SWITCHES if name in os.environ), "")
    mode = os.environ.get("WARMCURVE_MODE", "").strip().lower()
    if switch.strip().lower() in {"", "0", "false", "no", "off"} or mode == "off":
        return
    try:
        from warmcurve.vllm.seam import hook

        hook.install()
    except Exception as error:
        if mode == "require":
            error.add_note("warmcurve: WARMCURVE_MODE=require lets no boot go on without stored curves")
            raise
        import logging

        logging.getLogger("vllm.warmcurve").warning("warmcurve could not be set up; vLLM goes on", exc_info=True)
