"""Where vLLM is entered.

Start with `hook.py` (waits for the model runner), then `around.py` (whether to take part in a call) and
`calibration.py` (stands in front of the manager's methods); `contract.py` is what that relies on.
`ranks.py` is vLLM's world, `aside.py` what becomes of a boot without warmcurve, `reporting.py` how a boot is told,
`compiling.py` what compiled meanwhile. Nothing outside this room imports it, but for the plugin's entry point.
"""
