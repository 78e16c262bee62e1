"""What happens at a boot, from "the engine asks to calibrate" to "it plans with these curves".

It knows every room below and decides through them alone. It must not know an engine, a device or an environment
variable's reader: engine, store, clock and ranks are given to it.

Start with `path.py`: one boot in one screen. `request.py` is what it asks of an engine, `driver.py` answers for an
engine that can, `keeper.py` is its hand on stored entries, `settings.py` is what a person may choose.
"""
