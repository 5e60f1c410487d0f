"""One client in a process of its own: `python -m tests.bench.client MODULE JOB`, see `job.turns`."""

import os
import sys
from importlib import import_module

from tests.bench.job import Job


def main() -> None:
    """Run the job of the command line."""
    module, text = sys.argv[1:]
    job = Job.from_json(text)
    if job.core is not None:
        os.sched_setaffinity(0, {job.core})
    import_module(f"tests.bench.subjects.{module}").run(job)


if __name__ == "__main__":
    main()
