"""Flag beats environment beats file beats default, and the file that results says so."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from weir.cli.common.errors import exit_code
from weir.store import settings
from weir.store.answers import WantedTarget
from weir.store.configuration import Configuration, resolve
from weir.store.errors import SettingsError
from weir.store.fixed import unlike
from weir.store.membership import model_targets

KEYS = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
SCALARS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.booleans(), st.text(st.characters(codec="utf-8")))
TABLES = st.recursive(
    st.dictionaries(KEYS, SCALARS, max_size=5),
    lambda inner: st.dictionaries(KEYS, st.one_of(SCALARS, inner, st.lists(inner, min_size=1, max_size=3)), max_size=4),
    max_leaves=12,
)


def resolved(file: Path | None = None, source: str = "flag", **given_values: object) -> Configuration:
    everything = {setting.name: given_values.get(setting.name) for setting in settings.STORE}
    return resolve(file, everything, lambda _: source)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def write_file(text: str) -> Path:
        path = tmp_path / "cluster.toml"
        path.write_text(text)
        return path

    return write_file


@given(TABLES)
def test_what_is_written_reads_back(document: dict[str, Any]) -> None:
    assert tomllib.loads(Configuration(document).text()) == document


def test_the_embedded_store_has_one_server_with_two_targets_in_memory() -> None:
    configuration = resolved()
    assert configuration.document == {
        "version": 1,
        "policy": "size-fair",
        "lambda_milliseconds": 100,
        "layout": {"allocator": "balanced"},
        "server": [{"target": [{"backend": "ram", "capacity": "4GiB"}] * 2}],
    }
    assert set(configuration.origins.values()) == {"default"}
    assert not configuration.keeps_bytes()
    assert tomllib.loads(configuration.text()) == configuration.document


def test_the_interval_of_the_exchange_is_a_setting_of_the_store(write: Callable[[str], Path]) -> None:
    file = write("version = 1\nlambda_milliseconds = 250\n")
    assert resolved(file).document["lambda_milliseconds"] == 250
    given = resolved(file, lambda_milliseconds=50)
    assert given.document["lambda_milliseconds"] == 50
    assert given.origins["lambda_milliseconds"] == "flag"


def test_flags_beat_the_file_and_the_file_beats_defaults(write: Callable[[str], Path]) -> None:
    file = write(
        'version = 1\npolicy = "fifo"\n[[server]]\n[[server.target]]\ncapacity = "1GiB"\nbackend = "dir"\n'
        "[[server]]\n[[server.target]]\n"
    )
    configuration = resolved(file)
    assert configuration.policy == "fifo"
    assert configuration.origins["policy"] == str(file)
    assert [target["backend"] for target in configuration.targets()] == ["dir", "ram"]
    assert [target.get("capacity") for target in configuration.targets()] == ["1GiB", "4GiB"]

    configuration = resolved(file, "environment", policy="job-fair", capacity="2GiB", read_speed="200MB/s")
    assert configuration.policy == "job-fair"
    assert configuration.origins["policy"] == "environment"
    assert {target["capacity"] for target in configuration.targets()} == {"2GiB"}
    assert all(target["speed"] == {"read": "200MB/s"} for target in configuration.targets())


def test_a_scheduler_is_named_only_where_somebody_names_it(write: Callable[[str], Path]) -> None:
    assert resolved().scheduler is None
    assert resolved(scheduler="gift").document["scheduler"] == "gift"
    file = write('policy = "job-fair"\nscheduler = "tbf"\n')
    configuration = resolved(file)
    assert configuration.scheduler == "tbf"
    assert configuration.origins["scheduler"] == str(file)
    assert resolved(file, "environment", scheduler="virtual-time").origins["scheduler"] == "environment"


def test_the_range_of_ports_is_the_stores(write: Callable[[str], Path]) -> None:
    assert "ports" not in resolved().document
    assert resolved(ports="20000-29999").document["ports"] == "20000-29999"
    assert resolved(write('ports = "1-2"\n')).document["ports"] == "1-2"


def test_shares_pass_through_as_they_are(write: Callable[[str], Path]) -> None:
    shares = [
        {"user": "alice", "weight": 2.5, "reservation": "20%", "limit": 0.5},
        {"group": "physics", "reservation": 0.001},
        {"job": 'with "quotes"', "limit": 1},
    ]
    text = Configuration({"share": shares}).text()
    configuration = resolved(write(text), policy="user-fair")
    assert configuration.document["share"] == shares
    assert tomllib.loads(configuration.text())["share"] == shares


def test_a_dir_target_is_as_large_as_its_file_system_unless_told_otherwise() -> None:
    assert "capacity" not in resolved(backend="dir").targets()[0]
    assert resolved(backend="dir", capacity="1GiB").targets()[0]["capacity"] == "1GiB"


def test_relative_paths_mean_the_folder_of_the_file(write: Callable[[str], Path]) -> None:
    file = write('[[server]]\n[[server.target]]\nbackend = "dir"\npath = "t0"\n')
    assert resolved(file).targets()[0]["path"] == str(file.parent / "t0")


@pytest.mark.parametrize("setting", ["servers", "targets"])
def test_flags_and_file_cannot_both_choose_the_servers(write: Callable[[str], Path], setting: str) -> None:
    file = write('[[server]]\n[[server.target]]\nbackend = "ram"\n')
    with pytest.raises(SettingsError, match=f"lists its own {setting}") as failure:
        resolved(file, "flag", **{setting: 3})
    assert exit_code(failure.value) == 2


def test_a_file_without_servers_leaves_them_to_the_flags(write: Callable[[str], Path]) -> None:
    configuration = resolved(write('policy = "fifo"\n'), servers=2, targets=3)
    assert [len(server["target"]) for server in configuration.servers] == [3, 3]


@pytest.mark.parametrize("text", ["server = 5", "server = []", "[[server]]\ntarget = 5", "[server]\na = 1"])
def test_a_file_of_another_shape_is_left_to_the_server_to_refuse(write: Callable[[str], Path], text: str) -> None:
    assert tomllib.loads(resolved(write(text)).text())["version"] == 1


@pytest.mark.parametrize("text", ["version = ", "[[server]", "\x00"])
def test_what_is_not_toml_is_refused_with_its_place(write: Callable[[str], Path], text: str) -> None:
    with pytest.raises(SettingsError, match=r"cluster\.toml is not TOML: .*(line 1|end of document)") as failure:
        resolved(write(text))
    assert exit_code(failure.value) == 2
    assert failure.value.hint


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("WEIR_POLICI", "WEIR_POLICY"),
        ("WEIR_SPEED", "WEIR_READ_SPEED"),
        ("WEIR_TARGET", "WEIR_TARGETS"),
        ("WEIR_CREDENTIALS", "WEIR_CREDENTIAL"),
        ("WEIR_TRACES", "WEIR_TRACE"),
        ("WEIR_TIMEOUT", "WEIR_TIMEOUT_SECONDS"),
    ],
)
def test_a_mistyped_variable_is_refused(name: str, near: str) -> None:
    with pytest.raises(SettingsError, match=f"has {name}, which is no setting") as refused:
        settings.check_names(["PATH", name])
    assert near in refused.value.hint


@pytest.mark.parametrize(
    ("name", "value", "right"),
    [
        ("WEIR_TRANSPORT", "tpc", "`unix` or `tcp`"),
        *(("WEIR_TIMEOUT_SECONDS", value, "0.1 to 86400") for value in ("abc", "10s", "0.05", "100000", "nan")),
        *(("WEIR_HEARTBEAT_SECONDS", value, "0.1 to 60") for value in ("abc", "2s", "0", "61", "nan")),
    ],
)
def test_a_value_that_no_program_can_use_is_refused(name: str, value: str, right: str) -> None:
    with pytest.raises(SettingsError, match=f"{name}={value}") as refused:
        settings.check_values({name: value})
    assert exit_code(refused.value) == 2
    assert right in refused.value.hint
    assert f"unset {name}" in refused.value.hint


def test_values_that_programs_can_use_are_allowed() -> None:
    settings.check_values({"WEIR_TRANSPORT": "", "WEIR_TIMEOUT_SECONDS": ""})
    settings.check_values({"WEIR_TRANSPORT": "tcp", "WEIR_TIMEOUT_SECONDS": "0.1"})
    settings.check_values({"WEIR_HEARTBEAT_SECONDS": "0.1"})
    settings.check_values({"WEIR_PREFIX": "relative"})
    with pytest.raises(SettingsError, match="WEIR_PREFIX=relative"):
        settings.check_values({"WEIR_PREFIX": "relative"}, with_flags=True)


def test_variables_of_settings_of_programs_and_of_modules_are_allowed() -> None:
    settings.check_names([setting.environment for setting in (*settings.STORE, *settings.CLIENT)])
    settings.check_names(["WEIR_TRACE_RUN", "WEIR_TRACE_PARENT", "WEIR_CWD", "WEIR_HANDOVER"])
    settings.check_names([f"WEIR_{word}" for word in ("ROOT", "DIR", "BASE", "BIN", "LIB", "INC", "VERSION", "DOC")])
    settings.check_names(["WEIR_SEED", "WEIR_SUITES", "WEIRD_POLICY"])


def test_the_targets_of_a_new_server_follow_the_first_server_that_has_some() -> None:
    retired = {"backend": "ram", "capacity": "1GiB", "state": "retired"}
    kept = [{"backend": "ram", "capacity": "256MiB"}, {"backend": "dir", "capacity": "2GiB", "path": "/disk"}]
    document = {"server": [{"target": [retired]}, {"target": [retired, *kept]}, {"target": [{"backend": "dir"}]}]}
    assert model_targets(document) == (WantedTarget("ram", "256MiB"), WantedTarget("dir", "2GiB"))
    assert model_targets({"server": [{"target": [retired]}]}) == ()


def test_settings_that_a_store_has_otherwise_are_named_as_they_were_given(write: Callable[[str], Path]) -> None:
    file = write(resolved(servers=2, targets=1, capacity="1GiB").text())
    same = {"servers": 2, "targets": 1, "capacity": "1GiB", "backend": "ram", "policy": "size-fair"}
    assert unlike(file, same, lambda _: "flag") == []
    assert unlike(file, {"backend": "dir", "policy": "fifo", "targets": 2}, lambda _: "flag") == [
        "`policy` fifo",
        "`targets` 2",
        "`backend` dir",
    ]
    assert unlike(file, {"servers": 3}, lambda _: "environment") == ["WEIR_SERVERS=3"]
