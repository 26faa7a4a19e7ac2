"""The service held against its own OpenAPI document by schemathesis, over real HTTP: whatever is sent, only what it documents
comes back, and never a 500.

Left out are two checks. That every body which fits the schema is accepted: no JSON schema can say that probabilities sum to
one, or that an arm pays as many rewards as X has values. And that what does not fit is refused: an id that exists is put in.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from service_tools import Running


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(str(tmp_path_factory.mktemp("schema") / "service.db")) as running:
        campaign = running.campaign(id="two-ads")
        running.decide(campaign, {"count": 20})
        yield running


quiet = settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.name.lower())
def test_only_what_is_documented_comes_back(service: Running, mode: GenerationMode) -> None:
    document = schemathesis.openapi.from_url(f"{service.url}/v1/openapi.json")
    tried = 0
    for found in document.exclude(path_regex="/v1/simulate").get_all_operations():
        operation = found.ok()  # type: ignore[union-attr]

        @quiet
        @given(case=operation.as_strategy(generation_mode=mode))
        def send(case: Any) -> None:
            if "id" in (case.path_parameters or {}) and case.path_parameters["id"][:1] in "abcdefgh":
                case.path_parameters["id"] = "two-ads.3" if "/decisions/{id}" in case.path else "two-ads"  # one that exists
            case.call_and_validate(excluded_checks=[positive_data_acceptance, negative_data_rejection])

        with suppress(Unsatisfiable):  # nothing about it can be wrong
            send()
        tried += 1
    assert tried >= 28


def test_the_document_describes_every_route(service: Running) -> None:
    document = service.get("/v1/openapi.json")
    operations = [one for path in document["paths"].values() for one in path.values()]
    assert len(operations) >= 28
    for one in operations:
        assert one.get("summary"), one
        assert one.get("description"), one
    assert document["components"]["schemas"]["CampaignBody"]["examples"]
    answer = service.http.delete("/v1/campaigns")
    assert answer.status_code == 405
    assert answer.headers["Allow"] == "GET, POST"
