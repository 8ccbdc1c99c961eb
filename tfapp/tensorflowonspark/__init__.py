"""The API of TensorFlowOnSpark, for programs that were written for it. Change the import lines, and
the programs run with tfapp on Spark's executors.

    from tfapp.tensorflowonspark import TFCluster, TFNode

It is a thin layer over `tfapp.submit(..., spark=..., feed=True)`. An argument that has no effect
here is accepted with a warning. Programs import `TFNode` and `compat`; the other modules are for
the driver.
"""
