"""What workers tell each other: unequal tables, their gradients, keys and sums."""

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from foil.trainer.train.loss.distributed import barrier, gather_keys, gather_rows, sum_gradients, sum_scalar


def gather_unequal(rank, workers, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=workers)
    rows = torch.full((rank + 1, 2), float(rank + 1), requires_grad=True)
    everyone = gather_rows(rows)
    assert everyone.tolist() == [[1, 1], [2, 2], [2, 2]]
    (everyone * torch.tensor([[1.0], [10.0], [100.0]]) * (rank + 1)).sum().backward()
    expected = [[3.0, 3.0]] if rank == 0 else [[30.0, 30.0], [300.0, 300.0]]
    assert rows.grad.tolist() == expected
    keys, start = gather_keys(np.full((rank + 1, 3), 7 + rank))
    assert (keys[:, 0].tolist(), start) == ([7, 8, 8], rank)
    unused, used = torch.zeros(2, requires_grad=True), torch.zeros(1, requires_grad=True)
    used.grad = torch.tensor([float(rank + 1)])
    sum_gradients([torch.ones(1), unused, used])
    assert (unused.grad, used.grad.tolist()) == (None, [3])
    assert sum_scalar(0.25 * (rank + 1)) == 0.75
    barrier()
    dist.destroy_process_group()


@pytest.mark.slow
def test_a_gather_of_unequal_tables_returns_the_gradients_of_all(tmp_path):
    mp.start_processes(gather_unequal, (2, tmp_path), nprocs=2, start_method="spawn")


def test_outside_a_group_every_exchange_is_the_identity():
    rows, keys = torch.ones(2, 3), np.arange(2)
    barrier()
    assert gather_rows(rows) is rows
    assert gather_keys(keys)[0] is keys
    assert sum_scalar(0.5) == 0.5
