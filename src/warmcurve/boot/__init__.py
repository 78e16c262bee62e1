"""What happens at a boot, from "the engine asks to calibrate" to "it plans with these curves".

It calls the rooms below it. It must not know an engine or a device: engine, store, clock and ranks are given to it.
Start with `path.py`, one boot. `inputs.py`, `position.py` and `findings.py` are what a boot was given, where it stands
and what it has found. `request.py` is what it asks of an engine, `driver.py` runs it on one, `keeper.py` reads and
writes the store, `settings.py` is what a person may choose.
"""
