"""Exports read back as their targets read them: what they say, what they keep, what they refuse."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InputError
from optimizer.export import FORMATS, choices, dstack, export_plan, karpenter, skyserve
from optimizer.export.answer import read_answer
from optimizer.export.shape import scaled, scaler_note
from optimizer.launch import VLLM_IMAGE
from tests.optimizer.export.plans import HYBRID, answer, row
from tests.optimizer.export.terraform_reader import read_terraform
from tests.shared import shared

CHECKED = {"skyserve": skyserve.check, "dstack": dstack.check, "karpenter": karpenter.check}


def written(plan: dict[str, Any], name: str) -> list[Any]:
    return list(yaml.safe_load_all(export_plan(plan, name).text))


def broken(text: str, *change: tuple[str, str]) -> str:
    for old, new in change:
        assert old in text
        text = text.replace(old, new)
    return text


# --- SkyServe ----------------------------------------------------------------------------------


@pytest.mark.shared
def test_our_skyserve_file_means_what_the_known_good_one_means() -> None:
    # 2 on demand always, floor 4, ceiling 10, 1.5 requests/s a replica, on two GPUs each.
    machine: dict[str, Any] = {"region": "*", "gpu": "a100-80gb-sxm", "gpu_count": 2}
    plan = answer(
        row(2, **machine),
        row(2, 8, spot=True, **machine),
        row(0, stand_ins=4, role="fallback", **machine),
        gpus_per_replica=2,
    )
    (ours,) = written(plan, "skyserve")
    good = skyserve.check(shared("cases", "b29_skyserve_valid.yaml").read_text("utf-8"), floor=4)
    assert ours["service"]["replica_policy"] == good["service"]["replica_policy"]
    for key in ("cloud", "accelerators", "use_spot", "ports"):
        assert ours["resources"][key] == good["resources"][key]
    assert "--tensor-parallel-size 2" in ours["run"]


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_target_qps", "target_qps_per_replica: missing"),
        ("replicas_and_policy", "replicas and replica_policy exclude each other"),
        ("no_use_spot", "write use_spot: true"),
        ("min_zero", "min_replicas 0: below"),
    ],
)
def test_bad_skyserve_files_are_told_apart(name: str, said: str) -> None:
    text = shared("cases", f"b29_bad_{name}.yaml").read_text("utf-8")
    with pytest.raises(InputError, match=said):
        skyserve.check(text, floor=4)


def test_a_hybrid_plan_becomes_a_skyserve_service() -> None:
    (document,) = written(HYBRID, "skyserve")
    # 4 to 13 instances; 13 replicas of 1.5 requests/s on 13 instances at the peak.
    assert document["service"]["replica_policy"] == {
        "min_replicas": 4,
        "max_replicas": 13,
        "target_qps_per_replica": 1.5,
        "base_ondemand_fallback_replicas": 4,
        "dynamic_ondemand_fallback": True,
    }
    places = document["resources"]["any_of"]
    assert {place.get("zone") for place in places} == {None, "us-east-1a", "us-east-1b"}
    assert {place["cloud"] for place in places} == {"aws"}
    assert document["envs"] == {"MODEL": None}
    steady = written(answer(row(3), rate=None), "skyserve")[0]["service"]["replica_policy"]
    assert steady == {"min_replicas": 3, "max_replicas": 3}


def test_a_model_of_the_catalogue_is_named_in_the_file() -> None:
    model = "meta-llama/Llama-3.1-8B-Instruct"
    plan = answer(row(2), name=model)
    assert written(plan, "skyserve")[0]["envs"] == {"MODEL": model}
    (document,) = written(plan, "dstack")
    assert document["env"] == [f"MODEL={model}"]
    assert document["image"] == VLLM_IMAGE
    assert any(f"spotfloor advise -m {model}" in note for note in export_plan(plan, "dstack").notes)


# --- dstack ------------------------------------------------------------------------------------


def test_a_hybrid_plan_becomes_a_dstack_service_with_groups() -> None:
    (document,) = written(HYBRID, "dstack")
    assert (document["type"], document["backends"]) == ("service", ["aws"])
    assert document["instance_types"] == ["g6.2xlarge", "g6.xlarge"]
    base, burst = document["replicas"]
    assert (base["count"], base["spot_policy"]) == (4, "on-demand")
    assert "scaling" not in base
    assert (burst["count"], burst["spot_policy"]) == ("0..9", "auto")
    # 13 replicas x 1.5 requests/s over the 9 instances of the group: 2.1666.
    assert burst["scaling"] == {"metric": "rps", "target": 2.166}
    assert burst["resources"] == {"gpu": "L4:1"}
    big = written(answer(row(1, gpu="a100-80gb-sxm", gpu_count=2)), "dstack")[0]
    assert big["replicas"][0]["resources"] == {"gpu": "A100:80GB:2"}
    bare = answer(row(4), row(0, 6, spot=True))
    assert written(bare, "dstack")[0]["replicas"][1]["spot_policy"] == "spot"


def test_dstack_pools_what_two_scalers_would_run_twice() -> None:
    # On demand by night, spot by day: each group alone follows the whole rate, and both would run.
    plan = answer(
        row(0, by_hour=[6] * 12 + [1] * 12),
        row(0, spot=True, by_hour=[0] * 12 + [8] * 12),
        demand=[6.0] * 12 + [8.0] * 12,
    )
    base, burst = written(plan, "dstack")[0]["replicas"]
    assert (base["count"], base["spot_policy"]) == (1, "on-demand")
    assert (burst["count"], burst["spot_policy"]) == ("5..8", "spot")
    assert any("the rest joins the spot group" in n for n in export_plan(plan, "dstack").notes)


def test_a_scaler_is_held_against_the_plans_hours() -> None:
    plan = answer(row(5, 12), demand=[6.0] * 12 + [12.0] * 12, rate=1.0)
    fleet = read_answer(plan)
    planned = fleet.per_hour(fleet.rows)
    run = scaled(fleet, planned, 1.0)
    assert run == (6,) * 12 + (12,) * 12
    assert "216 instance-hours a day, the plan has 204" in scaler_note(planned, run, "all")
    # One demand, 20 instances in one hour and 4 in the others: no scaler can tell the hours apart.
    odd = answer(row(0, by_hour=[20] + [4] * 23), demand=[4.0] * 24, rate=1.0)
    for name in ("skyserve", "dstack"):
        with pytest.raises(InputError, match=f"{name}: scales by requests/s alone and would run"):
            export_plan(odd, name)


# --- Karpenter ---------------------------------------------------------------------------------


def test_a_hybrid_plan_becomes_three_node_pools() -> None:
    pools = {pool["metadata"]["name"]: pool["spec"] for pool in written(HYBRID, "karpenter")}
    assert list(pools) == ["chat-base", "chat-spot", "chat-rest"]
    limits = [spec["limits"]["nvidia.com/gpu"] for spec in pools.values()]
    assert limits == [4, 9, 5]  # the base, the spot, the stand-ins
    weights = [spec["weight"] for spec in pools.values()]
    assert weights == sorted(weights, reverse=True)
    wanted = {
        item["key"]: item["values"]
        for item in pools["chat-spot"]["template"]["spec"]["requirements"]
    }
    assert wanted == {
        "karpenter.sh/capacity-type": ["spot"],
        "node.kubernetes.io/instance-type": ["g6.2xlarge", "g6.xlarge"],
        "topology.kubernetes.io/zone": ["us-east-1a", "us-east-1b"],
    }


def test_ids_of_zones_are_asked_for_only_where_they_mean_one_zone() -> None:
    plan = answer(row(2), row(3, spot=True, zone="use1-az2"), row(3, spot=True, zone="use1-az4"))
    ids = written(plan, "karpenter")[1]["spec"]["template"]["spec"]["requirements"][-1]
    assert (ids["key"], ids["values"]) == ("topology.k8s.aws/zone-id", ["use1-az2", "use1-az4"])
    zonal = answer(*plan["fleet"][1:])
    for name in ("skyserve", "dstack"):
        assert "use1" not in json.dumps(written(zonal, name))
        assert any("use1-az2, use1-az4 are ids" in note for note in export_plan(plan, name).notes)
    host = answer(row(1, provider="vastai", region="US-Utah", gpu="rtx-4090"))
    resources = written(host, "skyserve")[0]["resources"]
    assert (resources["cloud"], resources["accelerators"]) == ("vast", "RTX4090:1")
    assert "region" not in resources
    pod = answer(row(1, provider="runpod", region="*", gpu="h100-sxm"))
    assert written(pod, "skyserve")[0]["resources"]["accelerators"] == "H100-SXM:1"


# --- Terraform ---------------------------------------------------------------------------------


def test_a_hybrid_plan_becomes_an_auto_scaling_group() -> None:
    found = read_terraform(export_plan(HYBRID, "terraform").text)
    group = found["aws_autoscaling_group"]["fleet"]
    assert (group["min_size"], group["max_size"]) == (4, 13)
    (policy,) = group["mixed_instances_policy"]
    (share,) = policy["instances_distribution"]
    assert share["on_demand_base_capacity"] == 4
    assert share["on_demand_percentage_above_base_capacity"] == 0
    types = [item["instance_type"] for item in policy["launch_template"][0]["override"]]
    assert types == ["g6.xlarge", "g6.2xlarge"]
    hours = found["aws_autoscaling_schedule"]
    changes = [(name, h["recurrence"], h["desired_capacity"]) for name, h in hours.items()]
    assert changes == [("hour-000", "0 0 * * *", 4), ("hour-012", "0 12 * * *", 13)]


def test_terraform_keeps_the_share_of_the_busiest_hour_where_that_is_near() -> None:
    # 4 of base, 6 on demand of 12 at the peak: (6 - 4) / (12 - 4) = 25 %.
    plan = answer(row(4, 6), row(0, 6, spot=True))
    group = read_terraform(export_plan(plan, "terraform").text)["aws_autoscaling_group"]["fleet"]
    share = group["mixed_instances_policy"][0]["instances_distribution"][0]
    assert share["on_demand_percentage_above_base_capacity"] == 25
    turned = answer(row(0, by_hour=[9] * 12 + [1] * 12), row(0, 12, spot=True))
    with pytest.raises(InputError, match="would buy 24 hours of capacity on demand where the plan"):
        export_plan(turned, "terraform")


def test_terraform_weighs_instances_of_several_replicas_and_names_days_of_a_week() -> None:
    week = [1] * 24 + [2] * 144
    big = row(0, by_hour=[1] * 168, instance_type="g6.12xlarge", gpu_count=4,
              replicas_per_instance=4)  # fmt: skip
    found = read_terraform(export_plan(answer(row(0, by_hour=week), big), "terraform").text)
    group = found["aws_autoscaling_group"]["fleet"]
    assert (group["min_size"], group["max_size"]) == (5, 6)  # replicas
    overrides = group["mixed_instances_policy"][0]["launch_template"][0]["override"]
    assert [item["weighted_capacity"] for item in overrides] == ["1", "4"]
    recurrences = [item["recurrence"] for item in found["aws_autoscaling_schedule"].values()]
    assert recurrences == ["0 0 * * 1", "0 0 * * 2"]  # the first hour is Monday's


# --- CSV and JSON ------------------------------------------------------------------------------


def test_csv_holds_every_pool_and_every_hour_and_json_the_plan_itself() -> None:
    pools = list(csv.DictReader(io.StringIO(export_plan(HYBRID, "csv").text)))
    assert [(p["purchase_option"], p["instances_max"], p["stand_ins"]) for p in pools] == [
        ("on_demand", "4", "0"), ("spot", "6", "0"), ("spot", "3", "0"), ("on_demand", "5", "5"),
    ]  # fmt: skip
    hours = list(csv.DictReader(io.StringIO(export_plan(HYBRID, "csv-hourly").text)))
    by_hour = [sum(int(h["instances"]) for h in hours if h["hour"] == str(k)) for k in range(24)]
    assert by_hour == [4] * 12 + [13] * 12
    assert json.loads(export_plan(HYBRID, "json").text) == HYBRID
    with pytest.raises(InputError, match="csv: region '=1\\+1' would run as a formula"):
        export_plan(answer(row(1, region="=1+1")), "csv")


# --- what cannot be said is refused ------------------------------------------------------------

GCP: dict[str, Any] = {"provider": "gcp", "region": "us-east4"}
REFUSED = [
    ("karpenter", answer(row(1, **GCP)), "expresses aws alone, not gcp"),
    ("terraform", answer(row(1, **GCP)), "expresses aws alone, not gcp"),
    ("dstack", answer(row(1), row(1, **GCP)), "the plan uses aws, gcp; plan again with one"),
    ("dstack", answer(row(1, provider="salad")), "does not know provider 'salad'"),
    ("skyserve", answer(row(1, provider="salad")), "does not know provider 'salad'"),
    ("skyserve", answer(row(1), row(1, gpu_count=4, replicas_per_instance=4)), "differ in GPUs"),
    ("skyserve", answer(row(1, 2), rate=None), "plan again with --rps-per-replica"),
    ("dstack", answer(row(1, 2), rate=None), "plan again with --rps-per-replica"),
    ("dstack", answer(row(1, gpu="mi300x")), "no published vLLM for"),
    ("skyserve", answer(row(1, gpu="h20")), "SkyPilot has no name for"),
    ("skyserve", answer(row(1, gpu="nothing-9")), "gpu 'nothing-9' is not in the catalogue"),
    ("karpenter", answer(row(1), row(1, region="us-west-2")), "lives in one region"),
    ("terraform", answer(row(1), row(1, region="us-west-2")), "lives in one region"),
    ("karpenter", answer(row(1, instance_type="a b")), "cannot be a label"),
]


@pytest.mark.parametrize(
    ("name", "plan", "said"), REFUSED, ids=[f"{n}: {s}" for n, _, s in REFUSED]
)
def test_what_a_target_cannot_express_is_refused(
    name: str, plan: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=f"^{name}: .*{said}"):
        export_plan(plan, name)


def test_every_format_is_listed_with_its_file_or_its_reason() -> None:
    found = {choice.format.name: choice for choice in choices(HYBRID)}
    assert list(found) == [item.name for item in FORMATS]
    assert all(item.title and item.media_type.count("/") == 1 for item in FORMATS)
    for name, choice in found.items():
        assert choice.export == export_plan(HYBRID, name)
        assert choice.export.filename == f"chat.{choice.format.ending}"
    refused = {c.format.name: c.refused for c in choices(answer(row(1, **GCP))) if c.refused}
    assert set(refused) == {"karpenter", "terraform"}
    assert "plan again with --provider aws" in refused["terraform"]
    with pytest.raises(InputError, match="format 'helm': write one of skyserve, dstack"):
        export_plan(HYBRID, "helm")


# --- the checkers fail on broken files ----------------------------------------------------------

BROKEN = [
    ("skyserve", [("path: /health", "path: health")], "must begin with a slash"),
    ("skyserve", [("max_replicas: 13", "max_replicas: 3")], "max_replicas 3: below"),
    ("skyserve", [("target_qps_per_replica: 1.5", "target_qps: 1.5")], "knows no such field"),
    ("skyserve", [("cloud: aws", "cloud: awss")], "resources.cloud 'awss'"),
    ("skyserve", [("base_ondemand_fallback_replicas: 4", "base_ondemand_fallback_replicas: 5")],
     "below the on-demand base of 5"),
    ("skyserve", [("run: ", "rum: ")], "run: missing"),
    ("skyserve", [("envs:", "envs: [")], "no YAML"),
    ("dstack", [("type: service", "type: task")], "write service"),
    ("dstack", [("count: 0..9", "count: 9..0")], "write a number or a range"),
    ("dstack", [("count: 4", "count: 4..5")], "scaling: due with a range"),
    ("dstack", [("spot_policy: auto", "spot_policy: maybe")], "spot_policy 'maybe'"),
    ("dstack", [("name: burst-1", "name: base-0")], "two groups of one name"),
    ("dstack", [("port: 8000\n", "port: 8000\nspot_policy: spot\n")], "belongs into each group"),
    ("dstack", [("L4:1", "24GB")], "NAME:MEMORY:COUNT"),
    ("karpenter", [("karpenter.sh/v1\n", "karpenter.sh/v1beta1\n")], "write karpenter.sh/v1"),
    ("karpenter", [("weight: 100", "weight: 101")], "write 1 to 100"),
    ("karpenter", [("consolidateAfter: 5m", "consolidateAfter: soon")], "no duration"),
    ("karpenter", [("nvidia.com/gpu: 4", "nvidia.com/gpu: 0")], "whole numbers above 0"),
    ("karpenter", [("name: chat-rest", "name: chat-base")], "metadata.name 'chat-base': twice"),
    ("karpenter", [("operator: In", "operator: Near")], "operator In"),
    ("karpenter", [("key: karpenter.sh/capacity-type", "key: karpenter.sh/x")], "not among"),
    ("karpenter", [("group: karpenter.k8s.aws", "group: k.aws/v1")], "without a version"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "change", "said"), BROKEN, ids=[f"{n}: {s}" for n, _, s in BROKEN]
)
def test_the_rule_checkers_see_what_is_broken(
    name: str, change: list[tuple[str, str]], said: str
) -> None:
    text = export_plan(HYBRID, name).text
    CHECKED[name](text)
    with pytest.raises(InputError, match=said):
        CHECKED[name](broken(text, *change))


# --- names cannot break out ---------------------------------------------------------------------

HOSTILE = [
    'x"\n}\nresource "aws_instance" "evil" {', "${file(\"/etc/passwd\")}", "%{ for x in y }",
    "a: b\n- c: *d", "#\r\nrun: rm -rf /", "\u2028\u0085x", "-", "=1+1", "é\U0001f600" * 99, "x",
]  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(name=st.sampled_from(HOSTILE) | st.text(max_size=60))
def test_no_name_breaks_out_of_its_place(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        return  # half characters are refused; see the tests of answers
    plan = answer(row(2), name=name)
    plain = answer(row(2), name="plain")
    for item in ("skyserve", "dstack", "karpenter"):
        mine, theirs = written(plan, item), written(plain, item)
        for document in (*mine, *theirs):
            for holder in (document, document.get("metadata", {})):
                holder.pop("name", None)
            document.get("metadata", {}).pop("annotations", None)
        assert mine == theirs
    found = read_terraform(export_plan(plan, "terraform").text)
    assert set(found) == {"aws_launch_template", "aws_autoscaling_group"}
    (tag,) = [t for t in found["aws_autoscaling_group"]["fleet"]["tag"] if t["key"] == "Name"]
    assert tag["value"] == read_answer(plan).name
    assert json.loads(export_plan(plan, "json").text) == plan


def test_hostile_instance_types_stay_strings_in_terraform() -> None:
    kind = 'x"} ${path.module} %{if true}\\'
    found = read_terraform(export_plan(answer(row(1, instance_type=kind)), "terraform").text)
    (policy,) = found["aws_autoscaling_group"]["fleet"]["mixed_instances_policy"]
    assert policy["launch_template"][0]["override"] == [{"instance_type": kind}]
