from tfapp import errors as errors
from tfapp.api.call import compile as compile
from tfapp.api.call import open as open
from tfapp.api.call import run as run
from tfapp.api.call import submit as submit
from tfapp.api.call import write_package as write_package
from tfapp.api.handle import Application as Application
from tfapp.api.mlflow import log_to_mlflow as log_to_mlflow
from tfapp.api.result import Result as Result
from tfapp.program.context import Context as Context
from tfapp.program.experiment import Experiment as Experiment
from tfapp.program.experiment import KerasExperiment as KerasExperiment
from tfapp.program.named import NamedFunction as NamedFunction
from tfapp.topology import Component as Component
from tfapp.topology import all_reduce as all_reduce
from tfapp.topology import parameter_servers as parameter_servers
from tfapp.topology import single_server as single_server

__version__: str
