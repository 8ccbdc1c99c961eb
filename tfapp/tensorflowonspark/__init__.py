"""The names of TensorFlowOnSpark, for programs that were written for it: change the import lines
and they run with tfapp on Spark's executors, fed by its feed.

    from tfapp.tensorflowonspark import TFCluster, TFNode

Each is a thin layer over `tfapp.submit(..., spark=..., feed=True)`; arguments that have no meaning
here say so. `TFNode` and `compat` are loaded in programs too, the rest in the driver alone.
"""
