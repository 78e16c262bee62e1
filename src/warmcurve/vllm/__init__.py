"""The vLLM adapter: stock wheels, switched on by one environment variable.

vLLM calls `register()` in every process, unguarded, before any worker module is imported. Switched off it returns at
once. Switched on it leaves a hook for the moment the GPU model runner is imported, so that processes which never
calibrate import nothing. What happens then is in `seam.py`.
"""

import os

SWITCHES = ("VLLM_ENABLE_ADAPTIVE_VERIFICATION_PROFILE_CACHE", "WARMCURVE_VLLM")
"""The first that is set decides. The second is for `--fail-on-environ-validation`, with which vLLM refuses to start
when it meets a VLLM_ variable that is not its own (`Platform.validate_environ`)."""


def register() -> None:
    """Entry point of the group `vllm.general_plugins`; may be called any number of times.

    Raises nothing, but in the mode `require`, where a boot without warmcurve is not wanted.
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
