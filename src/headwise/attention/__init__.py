"""The mathematics of attention, one file a step. Start reading at `layer.py`."""
