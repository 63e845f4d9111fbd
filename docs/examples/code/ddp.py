"""Trains a small network on several workers with DistributedDataParallel. Each process is started by torchrun.

The data are made here: the sine of a number, with noise. Every process has a part of its own, and after each step all
of them have the same weights. Process 0 saves the model in the folder ``--output`` of the store, as model.pt.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import socket
import struct
import time

import store
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))


def samples(number: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Numbers from -3 to 3, and their sines with noise."""
    x = torch.rand(number, 1, generator=generator) * 6 - 3
    return x, torch.sin(x) + 0.05 * torch.randn(number, 1, generator=generator)


def train(steps: int, device: torch.device) -> tuple[nn.Module, float]:
    """The trained network, and the mean loss of the last step over all processes."""
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(network().to(device), device_ids=[device.index] if device.type == "cuda" else None)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(rank + 1)  # other data in each process
    mean = 0.0
    for step in range(1, steps + 1):
        x, y = (each.to(device) for each in samples(64, generator))
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()  # here the gradients are averaged over all processes
        optimizer.step()
        if step % 100 == 0 or step == steps:
            total = loss.detach().clone()
            dist.all_reduce(total)
            mean = float(total) / size
            if rank == 0:
                print(f"step {step}: loss {mean:.4f}", flush=True)
    return model.module, mean


def check_equal(model: nn.Module) -> None:
    """Every process must have the weights of process 0."""
    for weights in model.parameters():
        first = weights.detach().clone()
        dist.broadcast(first, src=0)
        if not torch.equal(first, weights.detach()):
            raise RuntimeError("The processes have different weights.")


def interface(address: str) -> str:
    """The name of this container's network interface with this address; "" without one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        for _, name in socket.if_nameindex():
            try:
                found = fcntl.ioctl(one.fileno(), 0x8915, struct.pack("256s", name.encode()[:15]))  # SIOCGIFADDR
            except OSError:
                continue  # it has no address
            if socket.inet_ntoa(found[20:24]) == address:
                return name
    return ""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--output", default="")
    asked = parser.parse_args()
    # A machine often has several networks: that of the address which the other tasks know is the right one.
    if name := interface(os.environ.get("PAI_CURRENT_CONTAINER_IP", "")):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", name)
        os.environ.setdefault("NCCL_SOCKET_IFNAME", name)
    # A library sees all cores of the node; more threads than the task has cores only hinder each other.
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    torch.set_num_threads(max(1, int(os.environ.get("PAI_TASK_CPU_NUM", "1")) // processes))
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    began = time.monotonic()
    model, loss = train(asked.steps, device)
    check_equal(model)
    if dist.get_rank() == 0:
        seconds = time.monotonic() - began
        print(f"{dist.get_world_size()} processes have equal weights; {asked.steps / seconds:.0f} steps/s", flush=True)
        torch.save({"weights": model.cpu().state_dict(), "loss": loss}, "model.pt")
        if asked.output:
            store.put("model.pt", f"{asked.output}/model.pt")
            print(f"saved {asked.output}/model.pt", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
