"""The samples as tests read them."""

from __future__ import annotations

from jobs.config import jsonc
from jobs.config.spec import JobSpec, read_config
from jobs.config.sweep import expand, parameters


def spec_of(text: str) -> JobSpec:
    """Of a sample's config; of a sweep the first job."""
    document = jsonc.parse(text)
    if not parameters.is_sweep(document.value):
        return read_config(text)
    return read_config(expand.expand(text, document, parameters.read(document))[0].config)
