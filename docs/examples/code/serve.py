"""Answers requests with the model that ddp.py has trained. Started by uvicorn, as ``serve:app``.

    curl http://gpu-01:31004/predict -d '{"x": [0.5, 1.0]}' -H 'Content-Type: application/json'

gives ``{"y": [0.48, 0.84]}``. The model is fetched from ``$PAI_DATA_DIR/model.pt`` of the store.
"""

from __future__ import annotations

import os
import sys

import store
import torch
from ddp import network
from fastapi import FastAPI
from pydantic import BaseModel, Field

app = FastAPI(title="The sine of a number")


class Question(BaseModel):
    x: list[float] = Field(min_length=1, max_length=10_000)


class Answer(BaseModel):
    y: list[float]


def load(folder: str) -> torch.nn.Module:
    """The trained network. Ends the program with a sentence when the store has none."""
    try:
        store.get(f"{folder}/model.pt", "model.pt")
    except store.StoreError as error:
        sys.exit(f"{error}\nRun the sample PyTorch DDP first, and write its output folder as dataDir.")
    model = network()
    model.load_state_dict(torch.load("model.pt", map_location="cpu", weights_only=True)["weights"])
    return model.eval()


torch.set_num_threads(int(os.environ.get("PAI_TASK_CPU_NUM", "1")))
model = load(os.environ["PAI_DATA_DIR"])


@app.get("/")
def root() -> dict[str, str]:
    """What the link of the job's page opens."""
    return {"model": "the sine of a number", "ask": 'POST predict with {"x": [0.5, 1.0]}', "ready": "GET healthz"}


@app.get("/healthz")
def healthz() -> dict[str, bool]:
    return {"ready": True}


@app.post("/predict")
def predict(question: Question) -> Answer:
    with torch.inference_mode():
        y = model(torch.tensor(question.x).unsqueeze(1)).squeeze(1)
    return Answer(y=y.tolist())
