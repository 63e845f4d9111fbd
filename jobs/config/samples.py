"""The sample jobs that the submit page offers. Pure. Their configs are the files of ``sample_jobs``.

A sample of ``FIRST_STEPS`` runs anywhere, since it needs only the small image that the first start builds: busybox and
nothing else. A sample of ``EXAMPLES`` needs an image of Dockerfiles/ and the programs of docs/examples/code; its guide
is docs/examples/<key>.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

SAMPLE_IMAGE = "longshore/sample:1"
_TEXTS = Path(__file__).with_name("sample_jobs")


class Sample(NamedTuple):
    key: str
    title: str
    description: str  # one sentence
    config: str  # JSON with comments; its job name is ``key``

    def named(self, suffix: str) -> str:
        """The config with ``-suffix`` behind the job name: a user has each name once."""
        return self.config.replace(f'"jobName": "{self.key}"', f'"jobName": "{self.key}-{suffix}"', 1)


def _sample(key: str, title: str, description: str) -> Sample:
    return Sample(key, title, description, (_TEXTS / f"{key}.jsonc").read_text(encoding="utf-8"))


FIRST_STEPS = (
    _sample("hello-world", "Hello, world", "One task that greets you and ends."),
    _sample(
        "two-roles",
        "Two roles that talk",
        "A web server and a worker that finds it by its exported address and port.",
    ),
    _sample("fails", "A job that fails", "Writes to stderr, exits with 3 and is tried once more."),
    _sample("too-much-memory", "A job that runs out of memory", "Asks for 100 MB, takes more and is ended for it."),
    _sample("out-of-time", "A job that runs out of time", "Lets other jobs go first, and is ended after its 10 s."),
)
EXAMPLES = (
    _sample(
        "tensorflow",
        "Distributed TensorFlow",
        "Two parameter servers and two workers that train one model.",
    ),
    _sample("pytorch-ddp", "PyTorch DDP", "Two workers that average their gradients and save the model."),
    _sample("serving", "Serving a model", "Answers requests over HTTP with the model of PyTorch DDP."),
    _sample("jupyter", "Jupyter", "JupyterLab whose notebooks are kept in your folder of the store."),
    _sample("tensorboard", "TensorBoard", "A training and, beside it, TensorBoard with its curves while it runs."),
    _sample("hdfs", "Files in and out", "Reads data from the store, HDFS or a folder, and writes the result there."),
    _sample(
        "resume", "A training that resumes", "Saves when it is told to end, and goes on from there when tried again."
    ),
    _sample("sweep", "A sweep", "One config with a grid of parameters becomes six jobs with one folder of results."),
)
SAMPLES = FIRST_STEPS + EXAMPLES
