"""`python -m tests.support.small_ray_run OUT ADDRESS`: one session on a cluster, in a process that can be signalled."""

import json
import sys
from pathlib import Path

from engine.flow.limits import Limits, RuntimeSettings
from engine.runtime import run_ray
from tests.support.small_parts import Echo, Numbers, builder, run_parts

if __name__ == "__main__":
    out, address = Path(sys.argv[1]), sys.argv[2]
    settings = RuntimeSettings(kind="ray", workers=2, window=4, ray_address=address)
    parts = builder(out, model=Echo(out / "bill", delay_s=0.1))
    summary = run_parts(Numbers(4_000), parts, Limits(partition_seeds=8), settings, runner=run_ray.run)
    print(json.dumps({"exit_code": summary.exit_code, "stopped": summary.stopped}), flush=True)
    sys.exit(summary.exit_code)
