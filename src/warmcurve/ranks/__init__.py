"""How all ranks that share collectives take one decision.

It knows messages, rounds and deadlines. It must not know curves or files. Only `distributed.py` knows torch.
Start with `vote.py`, one rank's part without I/O; `ballot.py` is what ranks say, `register.py` performs the vote.
"""
