"""Trains a small network with parameter servers and workers, in the way of TensorFlow 1, which TensorFlow 2 still has.

A parameter server holds a part of the weights. Each worker fetches them, computes gradients on data of its own, and
sends these to the servers without waiting for the other workers. Worker 0 saves the weights in the folder
``--train_dir`` of the store.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import numpy as np
import store
import tensorflow.compat.v1 as tf1


def model(batch_size: int, seed: int) -> tuple[Any, Any]:
    """The loss and the step of training, for data that are made here: the sine of a number, with noise."""
    x = tf1.random_uniform([batch_size, 1], -3, 3, seed=seed)
    y = tf1.sin(x) + tf1.random_normal([batch_size, 1], stddev=0.05, seed=seed)
    hidden, width = x, 1
    for layer, wide in enumerate((64, 64, 1)):
        weights = tf1.get_variable(f"weights{layer}", [width, wide])
        bias = tf1.get_variable(f"bias{layer}", [wide], initializer=tf1.zeros_initializer())
        hidden = tf1.matmul(hidden, weights) + bias
        hidden, width = (tf1.tanh(hidden) if wide > 1 else hidden), wide
    loss = tf1.reduce_mean(tf1.square(hidden - y))
    step = tf1.train.AdamOptimizer(1e-3).minimize(loss, global_step=tf1.train.get_or_create_global_step())
    return loss, step


class Saves(tf1.train.SessionRunHook):
    """Puts the weights into the store when the training has ended."""

    def __init__(self, train_dir: str) -> None:
        self.train_dir = train_dir

    def end(self, session: Any) -> None:
        variables = tf1.trainable_variables()
        np.savez(
            "weights.npz",
            **{each.op.name: value for each, value in zip(variables, session.run(variables), strict=True)},
        )
        store.put("weights.npz", f"{self.train_dir}/weights.npz")
        print(f"saved {self.train_dir}/weights.npz", flush=True)


class Joins(tf1.train.SessionCreator):
    """A session of a worker that looks every second whether worker 0 has made the first weights. TensorFlow's own looks
    every 30 s, and may find that the others have done all the steps."""

    def __init__(self, master: str, config: Any) -> None:
        self.master, self.config = master, config

    def create_session(self) -> Any:
        scaffold = tf1.train.Scaffold().finalize()
        manager = tf1.train.SessionManager(
            local_init_op=scaffold.local_init_op,
            ready_op=scaffold.ready_op,
            ready_for_local_init_op=scaffold.ready_for_local_init_op,
            graph=tf1.get_default_graph(),
            recovery_wait_secs=1,
        )
        return manager.wait_for_session(self.master, config=self.config)


def work(server: Any, cluster: Any, task: int, steps: int, batch_size: int, train_dir: str) -> None:
    """``steps`` are those of all workers together."""
    with tf1.device(tf1.train.replica_device_setter(cluster=cluster, worker_device=f"/job:worker/task:{task}")):
        loss, step = model(batch_size, seed=task + 1)
    hooks = [tf1.train.StopAtStepHook(last_step=steps)] + ([Saves(train_dir)] if task == 0 and train_dir else [])
    # Without this a session waits for all other workers too, for ever when one of them was fast and has ended.
    config = tf1.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{task}"])
    done, began, last = 0, time.monotonic(), 0.0
    creator = Joins(server.target, config)
    if task == 0:
        creator = tf1.train.ChiefSessionCreator(master=server.target, config=config)
    with tf1.train.MonitoredSession(creator, hooks) as session:
        while not session.should_stop():
            _, last, at = session.run([step, loss, tf1.train.get_global_step()])
            done += 1
            if done % 200 == 0:
                print(f"step {at} of all workers: loss {last:.4f}", flush=True)
    rate = done / (time.monotonic() - began)
    print(f"worker {task} did {done} of {steps} steps, {rate:.0f} steps/s; loss {last:.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ps_hosts", required=True)
    parser.add_argument("--worker_hosts", required=True)
    parser.add_argument("--job_name", choices=("ps", "worker"), required=True)
    parser.add_argument("--task_index", type=int, required=True)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--train_dir", default="")
    asked = parser.parse_args()
    tf1.disable_eager_execution()
    cluster = tf1.train.ClusterSpec({"ps": asked.ps_hosts.split(","), "worker": asked.worker_hosts.split(",")})
    # TensorFlow sees all cores of the node; more threads than the task has cores only hinder each other.
    cores = int(os.environ.get("PAI_TASK_CPU_NUM", "1"))
    config = tf1.ConfigProto(
        allow_soft_placement=True, intra_op_parallelism_threads=cores, inter_op_parallelism_threads=cores
    )
    if asked.job_name == "ps":
        config.device_count["GPU"] = 0  # the GPUs are the workers'
    server = tf1.train.Server(cluster, job_name=asked.job_name, task_index=asked.task_index, config=config)
    print(f"{asked.job_name} {asked.task_index} serves at {server.target}", flush=True)
    if asked.job_name == "ps":
        server.join()  # until the job's end
    work(server, cluster, asked.task_index, asked.steps, asked.batch_size, asked.train_dir)


if __name__ == "__main__":
    main()
