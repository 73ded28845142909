"""Whether the GPUs of this machine can do what `local_vllm` and a training ask of them. Exit code 1 where one cannot.

python scripts/gpu_smoke.py [--json]      # in the GPU image: python gpu_smoke.py
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

GIB = 1 << 30
VLLM_SHARE = 0.9
"""The share of a GPU's memory that `local_vllm` takes where a job says nothing else."""
SIDE = 2048
BF16_ERROR = 0.01
"""Rounding to 8 bits costs a product of random matrices some 0.3 % of its size."""
KERNEL = "#include <cuda_runtime.h>\n__global__ void twice(float *x) { x[threadIdx.x] *= 2; }\n"
PINS = "install the pins of constraints-cuda.txt"


class Check(NamedTuple):
    """One thing that was tried: what it showed, or what is wrong and what to do."""

    name: str
    finding: str
    problem: str


def checks() -> list[Check]:
    """In the order in which one needs the other; what needs a GPU is left out where torch reaches none."""
    first = [
        attempt("driver", driver, "give the pod `nvidia.com/gpu`, the node NVIDIA's driver and container toolkit"),
        attempt("torch's CUDA", torch_cuda, f"{PINS}, and a driver of 580 or newer"),
    ]
    each_gpu = [check for gpu in range(0 if any(each.problem for each in first) else count()) for check in of_gpu(gpu)]
    return [
        *first,
        *each_gpu,
        attempt("vLLM", vllm_platform, PINS),
        attempt("C compiler", compiler, "install g++ and Python's headers: Triton compiles with them"),
        attempt("ninja", partial(program, "ninja"), f"{PINS}: FlashInfer runs it"),
        attempt("nvcc", nvcc, "set CUDA_HOME to a folder with bin/nvcc, as cluster/deploy/Dockerfile does"),
    ]


def of_gpu(gpu: int) -> list[Check]:
    """What one GPU can do, and has free."""
    name = f"GPU {gpu}"
    return [
        attempt(f"{name}, compute capability", partial(capability, gpu), "take an A10, A100 or newer"),
        attempt(f"{name}, bfloat16", partial(product, gpu), "look for Xid errors in the node's `dmesg`"),
        attempt(f"{name}, free memory", partial(memory, gpu), "end what `nvidia-smi` lists there"),
    ]


def attempt(name: str, check: Callable[[], str], advice: str) -> Check:
    """A check's finding, or why it failed with what to do."""
    try:
        return Check(name, check(), "")
    except (ImportError, OSError, RuntimeError, AssertionError) as error:
        why = next(iter(str(error).splitlines()), "") or type(error).__name__
        return Check(name, "", f"{name}: {why}; {advice}")


def run(*command: str | Path) -> str:
    """What a program prints, or its last words as an error."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        words = (result.stderr.strip() or result.stdout.strip() or f"exit code {result.returncode}").splitlines()
        raise RuntimeError(f"{command[0]} failed: {words[-1]}")
    return result.stdout


def driver() -> str:
    """Name, memory and driver of each GPU."""
    if not shutil.which("nvidia-smi"):
        raise RuntimeError("there is no NVIDIA GPU here, or no driver: `nvidia-smi` is not found")
    lines = run("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader").splitlines()
    if not lines:
        raise RuntimeError("there is no NVIDIA GPU here: `nvidia-smi` lists none")
    return "; ".join(lines)


def torch_cuda() -> str:
    """The CUDA that torch is built for, once the driver accepts it."""
    import torch

    if torch.version.cuda is None:
        raise RuntimeError(f"torch {torch.__version__} is built for CPUs")
    torch.ones(1, device="cuda")
    return f"torch {torch.__version__}, CUDA {torch.version.cuda}"


def count() -> int:
    """How many GPUs torch reaches."""
    import torch

    return torch.cuda.device_count()


def capability(gpu: int) -> str:
    """8.0 or newer: older ones have no bfloat16."""
    import torch

    major, minor = torch.cuda.get_device_capability(gpu)
    if major < 8:
        raise RuntimeError(f"{major}.{minor} has no bfloat16, which begins with 8.0")
    return f"{major}.{minor}"


def product(gpu: int) -> str:
    """A bfloat16 product, held against the same in double precision."""
    import torch

    left, right = torch.randn(2, SIDE, SIDE, device=f"cuda:{gpu}")
    exact = left.double() @ right.double()
    rounded = (left.bfloat16() @ right.bfloat16()).double()
    error = float((rounded - exact).norm() / exact.norm())
    if not error < BF16_ERROR:
        raise RuntimeError(f"a product of {SIDE} x {SIDE} is off by {error:.1%}; rounding explains {BF16_ERROR:.0%}")
    return f"a product of {SIDE} x {SIDE} is off by {error:.2%}, as rounding is"


def memory(gpu: int) -> str:
    """As much free memory as vLLM takes."""
    import torch

    free, total = torch.cuda.mem_get_info(gpu)
    if free < VLLM_SHARE * total:
        raise RuntimeError(f"{free / GIB:.1f} of {total / GIB:.1f} GiB are free; vLLM takes {VLLM_SHARE:.0%} of all")
    return f"{free / GIB:.1f} of {total / GIB:.1f} GiB"


def vllm_platform() -> str:
    """The version of a vLLM that sees CUDA."""
    import vllm
    from vllm.platforms import current_platform

    if not current_platform.is_cuda():
        raise RuntimeError(f"vLLM {vllm.__version__} sees no GPU: it is built for another platform, or has no driver")
    return str(vllm.__version__)


def program(name: str) -> str:
    """Where a program lies."""
    path = shutil.which(name)
    if path is None:
        raise RuntimeError(f"{name} is not found")
    return path


def compiler() -> str:
    """Whether gcc and g++ read Python's headers."""
    headers = sysconfig.get_path("include")
    for name in ("gcc", "g++"):
        run(program(name), "-fsyntax-only", "-x", "c", f"-I{headers}", "-include", "Python.h", os.devnull)
    return f"gcc, g++ and {headers}"


def nvcc() -> str:
    """Compiles and links a kernel, which also tries CUDA's headers and libraries."""
    home = os.environ.get("CUDA_HOME")
    path = str(Path(home, "bin", "nvcc")) if home else program("nvcc")
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch, "kernel.cu")
        source.write_text(KERNEL)
        run(path, "-shared", "-cudart", "shared", "-Xcompiler", "-fPIC", source, "-o", Path(scratch, "kernel.so"))
    return f"{path} compiles a kernel"


def main() -> None:
    """Prints each check as a line, or all as one JSON document."""
    results = checks()
    if "--json" in sys.argv[1:]:
        print(
            json.dumps(
                {"ok": not any(each.problem for each in results), "checks": [each._asdict() for each in results]}
            )
        )
    else:
        print(
            "\n".join(f"NO  {each.problem}" if each.problem else f"ok  {each.name}: {each.finding}" for each in results)
        )
    sys.exit(any(each.problem for each in results))


if __name__ == "__main__":
    main()
