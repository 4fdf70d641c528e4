from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import ConfigError
from core.settings import Settings, load_settings

SECRETS = sorted(
    name for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation)
)


def test_without_anything_set_the_defaults_hold() -> None:
    settings = load_settings({"PATH": "/bin", "HOME": "/home/x"})
    assert settings == Settings.model_validate({})
    assert settings.providers == ()
    assert not settings.offline


def test_the_default_database_lies_in_the_users_data_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    expected = f"sqlite:///{tmp_path / 'spotfloor' / 'spotfloor.db'}"
    assert load_settings({}).database_url == expected


@pytest.mark.parametrize(
    ("variable", "near"),
    [
        ("SPOTFLOOR_DATABSE_URL", "SPOTFLOOR_DATABASE_URL"),
        ("SPOTFLOOR_AWS_REGION", "SPOTFLOOR_AWS_REGIONS"),
        ("SPOTFLOOR_RUNPOD_KEY", "SPOTFLOOR_RUNPOD_API_KEY"),
        ("SPOTFLOOR_DATABSE_URL_FILE", "SPOTFLOOR_DATABASE_URL"),
    ],
)
def test_an_unknown_variable_is_refused_with_the_nearest_name(variable: str, near: str) -> None:
    with pytest.raises(ConfigError, match=f"{variable}; did you mean {near}"):
        load_settings({variable: "x"})


def test_an_unknown_variable_far_from_any_name_points_to_the_list() -> None:
    with pytest.raises(ConfigError, match=r"SPOTFLOOR_ZZZZ; see 'spotfloor doctor"):
        load_settings({"SPOTFLOOR_ZZZZ": "1"})


def test_lists_are_read_with_commas_or_blanks_and_empty_values_are_unset() -> None:
    settings = load_settings(
        {
            "SPOTFLOOR_PROVIDERS": "aws, gcp lambda",
            "SPOTFLOOR_AWS_REGIONS": "",
            "SPOTFLOOR_OFFLINE": "true",
        }
    )
    assert settings.providers == ("aws", "gcp", "lambda")
    assert settings.aws_regions == load_settings({}).aws_regions
    assert settings.offline


def test_a_file_holds_a_secret_and_wins_over_the_variable(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("from-file\n")
    settings = load_settings(
        {"SPOTFLOOR_RUNPOD_API_KEY_FILE": str(path), "SPOTFLOOR_RUNPOD_API_KEY": "from-variable"}
    )
    assert settings.runpod_api_key is not None
    assert settings.runpod_api_key.get_secret_value() == "from-file"


def test_a_file_that_cannot_be_read_is_one_clear_line(tmp_path: Path) -> None:
    for variable in ("SPOTFLOOR_RUNPOD_API_KEY_FILE", "SPOTFLOOR_CONFIG"):
        with pytest.raises(ConfigError, match=f"{variable}=.*missing: cannot read") as caught:
            load_settings({variable: str(tmp_path / "missing")})
        assert "\n" not in str(caught.value)


def test_toml_lies_below_the_environment(tmp_path: Path) -> None:
    config = tmp_path / "spotfloor.toml"
    config.write_text(
        'providers = ["aws", "gcp"]\nhttp_max_mib = 7\noffline = true\nlog_level = "debug"\n'
    )
    settings = load_settings({"SPOTFLOOR_CONFIG": str(config), "SPOTFLOOR_HTTP_MAX_MIB": "9"})
    assert settings.providers == ("aws", "gcp")
    assert (settings.http_max_mib, settings.offline, settings.log_level) == (9, True, "debug")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("databse_url = 'x'", r"key 'databse_url' in .*; did you mean database_url\?"),
        ("offline = ", "cannot read"),
        ("http_max_mib = 'many'", "SPOTFLOOR_HTTP_MAX_MIB"),
    ],
)
def test_faults_of_the_toml_file_are_named(tmp_path: Path, text: str, words: str) -> None:
    config = tmp_path / "spotfloor.toml"
    config.write_text(text)
    with pytest.raises(ConfigError, match=words):
        load_settings({"SPOTFLOOR_CONFIG": str(config)})


@pytest.mark.parametrize(
    ("variable", "value", "mend"),
    [
        ("SPOTFLOOR_HTTP_TIMEOUT_SECONDS", "-1", "greater than 0.*in seconds"),
        ("SPOTFLOOR_HTTP_TIMEOUT_SECONDS", "soon", "number.*in seconds"),
        ("SPOTFLOOR_OFFLINE", "perhaps", "boolean.*network"),
        ("SPOTFLOOR_LOG_LEVEL", "loud", "'debug', 'info', 'warning' or 'error'"),
        ("SPOTFLOOR_DATABASE_URL", "mysql://h/d", "must start with sqlite:/// or postgresql://"),
    ],
)
def test_a_bad_value_is_one_line_with_variable_and_mend(
    variable: str, value: str, mend: str
) -> None:
    with pytest.raises(ConfigError, match=f"{variable}: .*{mend}") as caught:
        load_settings({variable: value})
    assert "\n" not in str(caught.value)


def test_secrets_never_show() -> None:
    assert len(SECRETS) >= 7, "the settings do hold secrets"
    environment = {f"SPOTFLOOR_{name.upper()}": f"hush-{name}" for name in SECRETS}
    settings = load_settings(environment)
    for shown in (repr(settings), str(settings), repr(settings.model_dump()), f"{settings!s}"):
        assert "hush" not in shown
    assert "hush" not in settings.model_dump_json()
    for name in SECRETS:
        assert getattr(settings, name).get_secret_value() == f"hush-{name}"


def test_a_bad_value_is_not_repeated_in_the_message() -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings({"SPOTFLOOR_DATABASE_URL": "mysql://user:hush@host/d"})
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("postgresql://u:hush@h:5432/d", "postgresql://u:***@h:5432/d"),
        ("postgresql://u:hu@sh@h/d", "postgresql://u:***@h/d"),
        ("postgresql://u:hu%40sh@h/d", "postgresql://u:***@h/d"),
        ("postgresql://u@h/d", "postgresql://u@h/d"),
        ("sqlite:////data/x.db", "sqlite:////data/x.db"),
    ],
)
def test_the_database_address_is_shown_without_its_password(url: str, masked: str) -> None:
    assert Settings.model_validate({"database_url": url}).database_url_masked == masked
