from lynxbench.api import AttributedTrace as AttributedTrace
from lynxbench.api import ComparedResults as ComparedResults
from lynxbench.api import Ledger as Ledger
from lynxbench.api import LynxbenchError as LynxbenchError
from lynxbench.api import Measurement as Measurement
from lynxbench.api import SteadyState as SteadyState
from lynxbench.api import Stopwatch as Stopwatch
from lynxbench.api import attribute as attribute
from lynxbench.api import benchmark as benchmark
from lynxbench.api import compare as compare
from lynxbench.api import load as load
from lynxbench.api import quick as quick
from lynxbench.api import run as run

__version__: str
