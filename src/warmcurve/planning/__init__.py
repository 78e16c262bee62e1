"""What a step verifies under given curves, and what wrong curves cost in throughput.

It needs numpy, so no room that every boot runs may import it; a boot is given `regret.py` by its engine.
Start with `planner.py`; `workload.py` declares the batches that every figure for regret is over.
"""
