"""Makes the picture of README.md from a running portal: ``python -m tests.picture http://127.0.0.1:9186 PASSWORD``.

It runs a job with two roles as ``admin``, on GPUs where nodes have any, and deletes it again.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import sync_playwright

from tests.helpers import chromium, until

PICTURE = Path(__file__).parents[1] / "docs" / "job.png"
NAME = "mnist"
LOG = 'for step in $(seq 1 600); do echo "step $step"; sleep 1; done'


def config(gpus: int) -> dict[str, Any]:
    role = {"cpuNumber": 1, "memoryMB": 512, "command": LOG}
    return {
        "jobName": NAME,
        "image": "longshore/sample:1",
        "retryCount": 2,
        "taskRoles": [
            {"name": "ps", "taskNumber": 1, "gpuNumber": 0, **role},
            {"name": "worker", "taskNumber": 2, "gpuNumber": gpus, "minSucceededTaskCount": 2, **role},
        ],
    }


def main(url: str, password: str) -> None:
    client = httpx.Client(base_url=url, trust_env=False)
    who = {"username": "admin", "password": password}
    client.headers["Authorization"] = (
        f"Bearer {client.post('/api/v1/token', json=who).raise_for_status().json()['token']}"
    )
    nodes = client.get("/api/v1/nodes").raise_for_status().json()
    job = f"/api/v1/user/admin/jobs/{NAME}"
    most = max(node["resourcesTotal"]["GPUs"] for node in nodes)
    client.post("/api/v1/user/admin/jobs", json=config(most // 2)).raise_for_status()
    try:
        until(lambda: client.get(job).json()["jobStatus"]["state"] == "RUNNING", timeout=60)
        _shoot(url, who)
    finally:
        client.delete(job)


def _shoot(url: str, who: dict[str, str]) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.goto(f"{url}/login")
        for name, value in who.items():
            page.fill(f"[name={name}]", value)
        page.click("main [type=submit]")
        page.goto(f"{url}/jobs/admin/{NAME}")
        page.wait_for_timeout(9000)  # so that it has run for a moment
        page.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
