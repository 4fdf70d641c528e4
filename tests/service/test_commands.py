"""Commands on the bundled snapshot: contracts, worked numbers, and one line for wrong use."""

from __future__ import annotations

import csv
import io
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.running import environment, spotfloor
from tests.service.inside import SCHEMAS, check, run
from tests.shared import ROOT, payloads

PLAN = ("plan", "solve", "--gpu", "L4", "--provider", "gcp", "--floor", "2", "--ceiling", "4")


@pytest.mark.parametrize(
    "words",
    [
        ("prices", "list"),
        ("prices", "egress"),
        ("prices", "egress", "--gb", "50000", "--provider", "aws", "--region", "us-east-1"),
        ("prices", "gpus"),
        ("prices", "history", "--gpu", "L4"),
        ("prices", "history", "--gpu", "L4", "--under", "0.5", "--max-gap", "24"),
        ("prices", "index", "--gpu", "L4", "--weeks", "2"),
        ("effective-cost", "--hourly", "1", "--preemptions-per-hour", "1", "--reload-minutes", "3"),
        ("doctor",),
        ("doctor", "--settings"),
        ("scrape", "status"),
        ("scrape", "status", "--rejected"),
        ("db", "upgrade"),
        ("db", "check"),
        PLAN,
        (*PLAN, "--tokens-in", "500", "--tokens-out", "100", "--rps-per-replica", "4"),
        (*PLAN, "--quota", "gcp=64", "--egress-gb", "2000"),
        (*PLAN, "--min-on-demand", "2", "--survive", "zone", "--budget", "90000"),
        (*PLAN, "--frontier", "0.9,0.99"),
        ("plan", "list"),
    ],
    ids=" ".join,
)
def test_every_document_keeps_its_published_contract(
    snapshot: Path, words: tuple[str, ...]
) -> None:
    check(run(*words, "--json").document)


@pytest.mark.shared
def test_documents_of_collection_keep_their_contract(snapshot: Path) -> None:
    folder = payloads("lambda")
    check(run("scrape", "run", "-p", "lambda", "--from", str(folder.parent), "--json").document)
    check(
        run(
            "scrape", "parse", "-p", "lambda", str(folder / "instance_types.json"), "--json"
        ).document
    )


def test_every_published_schema_is_a_valid_schema_and_is_used() -> None:
    files = sorted(SCHEMAS.glob("*.json"))
    assert files
    for path in files:
        schema = json.loads(path.read_text("utf-8"))
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["properties"]["schema"]["const"] == schema["title"]


# --- worked numbers ----------------------------------------------------------------------------


def test_effective_cost_of_the_founding_articles_example() -> None:
    document = run(
        "effective-cost", "--hourly", "0.20", "--preemptions-per-hour", "3",
        "--reload-minutes", "4", "--on-demand", "0.74", "--json",
    ).document  # fmt: skip
    # 0.20 x (1 + 3 x 4/60) = 0.24; a useful hour needs 1 / (1 - 3 x 4/60) = 1.25 hours: 0.25.
    assert document["article_usd_per_hour"] == "0.24"
    assert document["usd_per_useful_hour"] == "0.25"
    assert document["useful_share"] == pytest.approx(0.8)
    # 0.20 / (1 - n x 4/60) = 0.74 at n = 15 x (1 - 0.20 / 0.74).
    assert document["break_even_preemptions_per_hour"] == pytest.approx(15 * (1 - 0.2 / 0.74))
    assert document["recommendation"] == "spot"


def test_effective_cost_of_a_count_has_its_interval_and_the_providers_billing() -> None:
    """3 losses in an hour up: Garwood's 0.818 to 7.754 at 90 %; AWS bills 4 e^-3 of the time."""
    words = ("effective-cost", "--hourly", "0.20", "--reload-minutes", "4")
    counted = (*words, "--losses", "3", "--hours-up", "1", "--provider", "aws")
    document = check(run(*counted, "--json").document)
    assert document["rate"]["low_per_hour"] == pytest.approx(0.818, abs=5e-4)
    assert document["rate"]["high_per_hour"] == pytest.approx(7.754, abs=5e-4)
    assert "3 preemptions in 1.0 hours up" in document["rate"]["source"]
    assert document["usd_per_useful_hour"] == "0.25"
    low, high = map(float, document["usd_per_useful_hour_interval"])
    assert low == pytest.approx(0.2 / (1 - 0.818 / 15), abs=1e-4)
    assert high == pytest.approx(0.2 / (1 - 7.754 / 15), abs=1e-3)
    assert document["billing"]["billed_share"] == pytest.approx(4 * 2.718281828**-3, abs=1e-3)
    assert "90 % interval" in run(*counted).out
    for wrong in ((), ("--losses", "1"), ("--losses", "1", "--hours-up", "0")):
        assert run(*words, *wrong).code == 2


def test_a_months_traffic_out_of_aws_is_billed_by_tier(snapshot: Path) -> None:
    document = run(
        "prices", "egress", "--gb", "50000", "--provider", "aws", "--region", "us-east-1",
        "--tier", "internet", "--json",
    ).document  # fmt: skip
    # 100 GB are free; 10,240 GB at 0.09 and the other 39,660 GB at 0.085.
    assert document["bill"]["usd"] == "4292.7"
    assert [(step["volume"], step["usd"]) for step in document["bill"]["by_tier"]] == [
        (10240, "921.6"), (39660, "3371.1"),
    ]  # fmt: skip


def test_a_plan_adds_up_and_comes_out_the_same_again(snapshot: Path) -> None:
    first, second = (run(*PLAN, "--egress-gb", "1000", "--json").document for _ in range(2))
    assert first == second
    cost = {key: Decimal(value) for key, value in first["cost"].items() if value is not None}
    assert cost["usd_per_month"] == sum(
        cost[f"{part}_usd_per_month"] for part in ("compute", "preemption", "egress")
    )
    assert first["service"]["served_share"] >= first["service"]["target"]
    assert {item["name"] for item in first["baselines"]} >= {"all_on_demand"}
    for row in first["fleet"]:
        assert len(row["instances_by_hour"]) == len(first["demand_by_hour"])
        assert row["instances_min"] <= min(row["instances_by_hour"])
        assert row["instances_max"] >= max(row["instances_by_hour"])
        assert row["source_url"]
        assert row["price_as_of"]


def test_the_list_says_the_same_as_csv_and_as_json(snapshot: Path) -> None:
    words = ("prices", "list", "--gpu", "H100", "--spot")
    offers = run(*words, "--json").document["offers"]
    rows = list(csv.DictReader(io.StringIO(run(*words, "--csv").out)))
    assert len(rows) == len(offers) > 3
    for row, offer in zip(rows, offers, strict=True):
        assert row["usd_per_hour"] == offer["usd_per_hour"]
        assert (row["provider"], row["region"]) == (offer["provider"], offer["region"])
        assert Decimal(row["usd_per_gpu_hour"]) == pytest.approx(
            Decimal(row["usd_per_hour"]) / Decimal(row["gpu_count"]), abs=Decimal("0.000001")
        )
    prices = [Decimal(row["usd_per_gpu_hour"]) for row in rows]
    assert prices == sorted(prices)
    assert {offer["origin"] for offer in offers} == {"snapshot"}


@pytest.mark.parametrize(
    ("words", "holds"),
    [
        (("--gpu", "A100:80GB"), lambda o: o["gpu"].startswith("a100-80gb")),
        (("--gpu", "L4:2..4"), lambda o: o["gpu"] == "l4" and 2 <= o["gpu_count"] <= 4),
        (("--region", "us"), lambda o: o["region"].lower().startswith("us")),
        (("--max-price", "0.5"), lambda o: Decimal(o["usd_per_gpu_hour"]) <= Decimal("0.5")),
        (("--on-demand", "-p", "gcp"), lambda o: (o["provider"], o["purchase_option"]) == (
            "gcp", "on_demand")),
    ],
)  # fmt: skip
def test_filters_of_the_list_hold(snapshot: Path, words: tuple[str, ...], holds: Any) -> None:
    every = run("prices", "list", "--json").document["offers"]
    offers = run("prices", "list", *words, "--json").document["offers"]
    assert 0 < len(offers) < len(every)
    assert all(holds(offer) for offer in offers)


# --- wrong use ---------------------------------------------------------------------------------

WRONG = [
    (("prices", "list", "--gpu", "H1000"), 2, "no such GPU; did you mean"),
    (("prices", "list", "--gpu", "H100:80XB"), 2, "cannot read '80XB'"),
    (("prices", "list", "--json", "--csv"), 2, "exclude each other"),
    (("prices", "list", "--max-price", "abc"), 2, "--max-price abc: not a number"),
    (("prices", "list", "--provider", "awss"), 2, "did you mean aws?"),
    (("prices", "egress", "--gb", "-3"), 2, "--gb -3: must be at least 0"),
    (("prices", "egress", "--tier", "pigeon"), 4, "no traffic tariff fits"),
    (("effective-cost", "--hourly", "0", "--preemptions-per-hour", "1", "--reload-minutes", "1"),
     2, "--hourly 0: must be above zero"),
    (("plan", "solve", "--gpu", "L4", "--floor", "9", "--ceiling", "4"), 2,
     "floor 9 is above ceiling 4"),
    (("plan", "solve", "--gpu", "L4", "--floor", "nan", "--ceiling", "4"), 2, "floor nan"),
    (("plan", "solve", "--gpu", "L4", "--floor", "1"), 2, "--ceiling is missing"),
    (("plan", "solve", "--floor", "1", "--ceiling", "2"), 2, "--gpu NAME, or --vram-gib"),
    ((*PLAN, "--availability", "1"), 2, "no fleet can promise 1"),
    ((*PLAN, "--quota", "gcp"), 2, "write PROVIDER=GPUS"),
    ((*PLAN, "--profile", "x.txt"), 2, "already says the demand"),
    (("plan", "solve", "--gpu", "L4", "--floor", "1", "--ceiling", "2", "--survive", "planet"), 2,
     "write zone, region or provider"),
    (("plan", "solve", "--gpu", "L4", "--floor", "1", "--ceiling", "2", "--frontier", "1"), 2,
     "target 1.0"),
    (("plan", "solve", "nowhere.toml"), 2, "nowhere.toml: cannot read"),
    (("plan", "solve", "--example", "--gpu", "L4"), 2, "--example goes with no other input"),
    ((*PLAN, "--context", "4096"), 2, "--context only goes with --model"),
    (("plan", "solve", "-m", "nothing-9", "--floor-rps", "1", "--ceiling-rps", "2"), 2,
     "is not known"),
    (("scrape", "run", "--observed-at", "2026-01-01"), 2, "only goes with --from"),
    (("scrape", "parse", "-p", "nobody", "x.json"), 2, "no such provider"),
    (("scrape", "parse", "-p", "lambda", "x.json"), 2, "x.json: cannot read"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "code", "said"), WRONG, ids=[" ".join(w) for w, _, _ in WRONG])
def test_wrong_use_is_one_line_with_the_mend(
    snapshot: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    ran = run(*words)
    assert said in ran.error
    assert ran.code == code


def test_a_spec_file_is_read_and_its_slips_are_named(snapshot: Path, tmp_path: Path) -> None:
    spec = tmp_path / "chat.toml"
    spec.write_text('gpu = "L4"\nprovider = ["gcp"]\nfloor = 2\nceiling = 4\n')
    assert run("plan", "solve", str(spec), "--json").document == run(*PLAN, "--json").document
    spec.write_text('gpu = "L4"\nflor = 2\n')
    assert "unknown key 'flor'; did you mean floor?" in run("plan", "solve", str(spec)).error
    spec.write_text("gpu = = 1")
    assert "no TOML" in run("plan", "solve", str(spec)).error


def test_a_plan_for_a_model_rests_on_what_the_advisor_says(snapshot: Path) -> None:
    advice = run("advise", "-m", "Llama-3.1-8B-Instruct", "-p", "gcp", "--json").document
    words = ("plan", "solve", "-m", "Llama-3.1-8B-Instruct", "-p", "gcp", "--floor-rps", "8",
             "--ceiling-rps", "20", "--json")  # fmt: skip
    plan = check(run(*words).document)
    best, inputs = advice["recommended"], plan["inputs"]
    assert inputs["gpus"] == [best["gpu"]]
    assert inputs["gpus_per_replica"] == best["gpu_count"]
    assert inputs["requests_per_second_per_replica"] == pytest.approx(
        best["requests_per_second"], rel=1e-3
    )
    assert inputs["reload_minutes"] == pytest.approx(advice["load_minutes"], abs=0.01)
    assert inputs["weights_gb"] == pytest.approx(advice["memory"]["weights_gb"], abs=0.01)
    assert plan["cost"]["usd_per_million_tokens"] is not None
    own = run(*words, "--rps-per-replica", "2", "--reload-minutes", "9").document["inputs"]
    assert (own["requests_per_second_per_replica"], own["reload_minutes"]) == (2, 9)


def test_a_plan_is_kept_shown_watched_and_forgotten(snapshot: Path) -> None:
    answered = run(*PLAN, "--save", "--json").document
    plan_id = answered["plan_id"]
    assert run("plan", "show", plan_id[:6], "--json").document == answered
    assert answered["summary"] in run("plan", "show", plan_id).out
    assert run("plan", "watch", plan_id).code == 0
    listed = check(run("plan", "list", "--watched", "--json").document)["plans"]
    assert [item["plan_id"] for item in listed] == [plan_id]
    assert listed[0]["usd_per_month"] == answered["cost"]["usd_per_month"]
    assert run("plan", "watch", plan_id, "--off").code == 0
    assert run("plan", "list", "--watched", "--json").document["plans"] == []
    assert run("plan", "remove", plan_id).code == 0
    missing = run("plan", "show", plan_id)
    assert missing.code == 2
    assert "no kept plan has this id" in missing.err


def test_limits_of_the_command_line_bind(snapshot: Path) -> None:
    free = run(*PLAN, "--json").document
    base = run(*PLAN, "--min-on-demand", "4", "--json").document
    on_demand = [
        sum(
            row["instances_by_hour"][hour] * row["replicas_per_instance"]
            for row in base["fleet"]
            if row["purchase_option"] == "on_demand"
        )
        for hour in range(24)
    ]
    assert min(on_demand) >= 4
    assert Decimal(base["cost"]["usd_per_month"]) >= Decimal(free["cost"]["usd_per_month"])
    poor = run(*PLAN, "--budget", "1", "--json")
    assert poor.code == 3
    assert "the budget is 1" in poor.err


def test_an_infeasible_plan_names_limits_and_what_relaxing_gives(snapshot: Path) -> None:
    ran = run("plan", "solve", "--gpu", "L4", "--provider", "gcp", "--floor", "20", "--ceiling",
              "40", "--max-gpus", "10", "--json")  # fmt: skip
    assert (ran.code, ran.out) == (3, "")
    assert "40 replicas need 40 GPUs, the cap of 10 allows 10" in ran.err
    assert re.search(r"try: .*makes it feasible, at [\d,]+ USD a month", ran.err)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"SPOTFLOOR_DATABSE_URL": "x"}, "did you mean SPOTFLOOR_DATABASE_URL?"),
        ({"SPOTFLOOR_DATABASE_URL": "mysql://x/y"}, "must start with sqlite:/// or postgresql://"),
        ({"SPOTFLOOR_DATABASE_URL": "postgresql://u:hunter2@127.0.0.1:1/x"}, "cannot be reached"),
        ({"SPOTFLOOR_CONFIG": "/nowhere.toml"}, "/nowhere.toml"),
        ({"SPOTFLOOR_LOG_LEVEL": "loud"}, "SPOTFLOOR_LOG_LEVEL"),
    ],
)
def test_a_wrong_setting_is_one_line_with_code_6(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], said: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    ran = run("prices", "list")
    assert said in ran.error
    assert ran.code == 6
    assert "hunter2" not in ran.err


def test_an_empty_database_says_how_to_fill_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPOTFLOOR_DATABASE_URL", f"sqlite:///{tmp_path / 'new.db'}")
    for words in (("prices", "list"), PLAN):
        ran = run(*words)
        assert "spotfloor scrape run" in ran.error
        assert ran.code == 4


def test_secrets_are_never_shown(monkeypatch: pytest.MonkeyPatch, snapshot: Path) -> None:
    monkeypatch.setenv("SPOTFLOOR_RUNPOD_API_KEY", "hunter2-key")
    for words in (("doctor",), ("doctor", "--settings"), ("doctor", "--settings", "--json")):
        ran = run(*words)
        assert ran.code == 0, ran.err
        assert "hunter2" not in ran.out + ran.err
    assert "SPOTFLOOR_RUNPOD_API_KEY" in run("doctor", "--settings").out


def test_a_reader_that_leaves_early_is_no_error(snapshot: Path) -> None:
    import subprocess
    import sys

    line = f"{sys.executable} -m service.cli prices list --csv | head -1"
    ended = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"], env=environment(f"sqlite:///{snapshot}"),
        cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ended.stdout.startswith("provider,")
    assert "Traceback" not in ended.stderr
    assert "error" not in ended.stderr


def test_data_go_to_stdout_and_talk_to_stderr(snapshot: Path) -> None:
    result = spotfloor(*PLAN, "--json", variables=environment(f"sqlite:///{snapshot}"))
    assert result.returncode == 0, result.stderr
    check(json.loads(result.stdout))
