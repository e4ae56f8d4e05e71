"""Jobs: all cells of files to tokens in Parquet.

`run` is what users call. A job is planned (`plan_job`) and consists of tasks; `make_shard(job,
task)` makes one of them, the same in any process on any machine, and `run_job` does the rest with
shards from anywhere.
"""

from ._description import Job, Task
from ._opened import forget_inputs
from ._plan import plan_job
from ._run import run
from ._running import Runner, in_threads, run_job
from ._shards import ShardRecord, make_shard

__all__ = [
    "Job",
    "Runner",
    "ShardRecord",
    "Task",
    "forget_inputs",
    "in_threads",
    "make_shard",
    "plan_job",
    "run",
    "run_job",
]
