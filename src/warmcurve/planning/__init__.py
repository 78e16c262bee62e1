"""What a step verifies under given curves, and what wrong curves cost in throughput.

It needs numpy. So no room that every boot runs may import it: the engine gives `regret.py` to a boot.
Start with `planner.py`; `workload.py` declares the batches over which every regret is computed.
"""
