"""What is made of the answers of engines, exporters and nvidia-smi."""

from __future__ import annotations

import math
from typing import Any

import pytest

from clusters.engines.docker.stats import usage_of
from clusters.engines.measuring import ContainerUsage
from jobs.metrics import gpus, rates
from jobs.metrics.gpus import GpuUse

V1 = {
    "read": "2026-11-22T08:49:24.310546729Z",
    "pids_stats": {"current": 3},
    "blkio_stats": {
        "io_service_bytes_recursive": [
            {"op": "Read", "value": 4096},
            {"op": "Write", "value": 512},
            {"op": "Total", "value": 4608},
        ]
    },
    "cpu_stats": {"cpu_usage": {"total_usage": 2_500_000_000}},
    "memory_stats": {
        "usage": 9000,
        "stats": {"total_inactive_file": 1000, "total_active_file": 500, "total_cache": 4000, "inactive_file": 7},
    },
    "networks": {"eth0": {"rx_bytes": 10, "tx_bytes": 20}, "eth1": {"rx_bytes": 1, "tx_bytes": 2}},
}
V2 = {
    **V1,
    "memory_stats": {"usage": 9000, "stats": {"inactive_file": 2000, "shmem": 300}},
    "blkio_stats": {"io_service_bytes_recursive": [{"op": "read", "value": 1}, {"op": "write", "value": 2}]},
}


def usage(answer: dict[str, Any]) -> ContainerUsage:
    found = usage_of(answer)
    assert found is not None
    return found


def test_an_answer_of_cgroup_v1() -> None:
    found = usage(V1)
    assert found.at == pytest.approx(1_795_337_364.3105, abs=0.001)
    assert (found.cpu, found.memory, found.pids, found.shared) == (2.5, 8000, 3, 2500)
    assert (found.network, found.disk) == ((11, 22), (4096, 512))


def test_an_answer_of_cgroup_v2() -> None:
    found = usage(V2)
    assert (found.memory, found.shared, found.disk) == (7000, 300, (1, 2))


def test_what_the_engine_does_not_count_is_none_and_never_zero() -> None:
    found = usage({**V1, "networks": None, "blkio_stats": {}, "pids_stats": {}, "memory_stats": {"usage": 5}})
    assert (found.network, found.disk, found.pids, found.shared) == (None, None, None, None)


@pytest.mark.parametrize("answer", [{**V1, "read": "0001-01-01T00:00:00Z"}, {**V1, "memory_stats": {}}])
def test_a_container_that_does_not_run_has_no_usage(answer: dict[str, Any]) -> None:
    assert usage_of(answer) is None


BEFORE = ContainerUsage(100.0, 10.0, 1000, 2, 0, (100, 200), (0, 0))
NOW = ContainerUsage(110.0, 25.0, 3000, 4, 10, (1100, 200), (50, 0))


def test_rates_are_those_since_the_last_sample() -> None:
    values = dict(zip(rates.OF_A_TASK, rates.task_values(NOW, BEFORE, (), {}), strict=True))
    assert values == {"cpu": 1.5, "memory": 3000, "pids": 4, "shared": 10, "networkIn": 100, "networkOut": 0,
                      "diskRead": 5, "diskWritten": 0}  # fmt: skip


def test_a_counter_that_goes_back_and_a_first_sample_have_no_rate() -> None:
    for before in (None, ContainerUsage(100.0, 99.0, 1, 1, 0, (9999, 9999), None)):
        values = rates.task_values(NOW, before, (), {})
        assert math.isnan(values[0]) and math.isnan(values[4]) and math.isnan(values[6])
        assert values[1] == 3000


def test_a_new_container_has_a_rate_at_once_and_an_old_one_not() -> None:
    assert rates.at_start(NOW, 105.0) == ContainerUsage(105.0, 0.0, 0, network=(0, 0), disk=(0, 0))
    assert rates.at_start(NOW, 10.0) is None and rates.at_start(NOW, None) is None


def test_the_columns_of_gpus_follow_those_of_the_task() -> None:
    columns = rates.columns_of(("0", "GPU-a"))
    values = rates.task_values(NOW, None, ("0", "GPU-a"), {"0": GpuUse(97, 5, 10, 300, 60)})
    found = dict(zip(columns, values, strict=True))
    assert (found["gpu0Util"], found["gpu0Memory"], found["gpu0Power"]) == (97, 5, 300)
    assert math.isnan(found["gpuGPU-aUtil"])


def test_a_node_adds_up_what_is_known() -> None:
    tasks = [[1.0, 10.0, *[math.nan] * 6], [2.0, 20.0, *[math.nan] * 6]]
    uses = {"0": GpuUse(util=80, memory=5), "1": GpuUse(util=2), "2": GpuUse(util=0)}
    found = dict(zip(rates.OF_A_NODE, rates.node_values(len(tasks), tasks, uses, ["0", "1"]), strict=True))
    assert (found["tasks"], found["cpu"], found["memory"]) == (2, 3, 30)
    assert (found["gpus"], found["gpusBusy"], found["gpusIdle"]) == (3, pytest.approx(0.82), 1)
    assert math.isnan(found["networkIn"])


DCGM = """\
# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-aa",device="nvidia0",modelName="NVIDIA A100",Hostname="n"} 97
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-bb",device="nvidia1",modelName="NVIDIA A100",Hostname="n"} 9223372036854775794
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-aa"} 0.5
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="1",UUID="GPU-bb"} 0.5
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="1",UUID="GPU-bb",GPU_I_ID="3"} 0.9
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-aa"} 1024
DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-aa"} 3072
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-aa"} 374.2
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-aa"} 61
"""
SMI_EXPORTER = """\
nvidia_smi_index{uuid="aa"} 1
nvidia_smi_utilization_gpu_ratio{uuid="aa"} 0.25
nvidia_smi_memory_used_bytes{uuid="aa"} 1e+09
nvidia_smi_memory_total_bytes{uuid="aa"} 4e+09
nvidia_smi_power_draw_watts{uuid="aa"} 30
nvidia_smi_temperature_gpu{uuid="aa"} 40
"""
OLDER = """\
nvidia_gpu_duty_cycle{minor_number="2",name="Tesla V100",uuid="GPU-cc"} 12
nvidia_gpu_memory_used_bytes{minor_number="2",name="Tesla V100",uuid="GPU-cc"} 5
nvidia_gpu_power_usage_milliwatts{minor_number="2",name="Tesla V100",uuid="GPU-cc"} 25000
"""


def test_the_text_of_dcgm() -> None:
    found = gpus.of_exporter(DCGM)
    assert found["0"] == found["GPU-aa"] == GpuUse(97, 1024 * 2**20, 4096 * 2**20, 374.2, 61)
    assert found["1"].util == 50  # the library's word for "no value" is none


def test_the_texts_of_the_other_exporters() -> None:
    assert (
        gpus.of_exporter(SMI_EXPORTER)["1"] == gpus.of_exporter(SMI_EXPORTER)["GPU-aa"] == GpuUse(25, 1e9, 4e9, 30, 40)
    )
    older = gpus.of_exporter(OLDER)["2"]
    assert (older.util, older.memory, older.power) == (12, 5, 25)


@pytest.mark.parametrize("text", ["", "hello\n", "# HELP x y\n", "DCGM_FI_DEV_GPU_UTIL 5\n", 'up{gpu="0"} 1\n'])
def test_nothing_is_made_up(text: str) -> None:
    assert gpus.of_exporter(text) == {}


def test_a_broken_text_raises_and_says_nothing() -> None:
    with pytest.raises(ValueError):
        gpus.of_exporter('DCGM_FI_DEV_GPU_UTIL{gpu="0" 5\n')


def test_nvidia_smi_numbers_the_gpus_of_its_container() -> None:
    text = "0, GPU-aa, 97, 1024, 40960, 374.21, 61\n1, GPU-bb, [N/A], 2048, 40960, [Not Supported], 62\n"
    found = gpus.of_smi(text, ("6", "10"))
    assert found["6"] == GpuUse(97, 1024 * 2**20, 40960 * 2**20, 374.21, 61)
    assert math.isnan(found["10"].util) and found["10"].memory == 2048 * 2**20
    assert gpus.of_smi(text, ("GPU-bb",)) == {"GPU-bb": found["10"]} or math.isnan(found["10"].util)


@pytest.mark.parametrize("text", ["", "No devices were found\n", "0, GPU-aa, 97, 1, 2, 3, 4\n" * 3, "a,b,c,d,e,f,g\n"])
def test_of_another_number_of_gpus_nothing_is_told(text: str) -> None:
    assert gpus.of_smi(text, ("0", "1")) == {}
