"""The target: where calls go and as whom."""

import pytest

from threadkeep.transport.target import ENDPOINT_VARIABLES, TOKEN_VARIABLES, find_target


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*ENDPOINT_VARIABLES, *TOKEN_VARIABLES):
        monkeypatch.delenv(name, raising=False)


def test_arguments_come_before_variables_and_our_variables_before_the_inherited_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DATAROBOT_ENDPOINT", "http://inherited.test/api/v2")
    monkeypatch.setenv("DATAROBOT_API_TOKEN", "inherited")
    assert (find_target().base_url, find_target().token) == ("http://inherited.test/api/v2/memory", "inherited")
    monkeypatch.setenv("THREADKEEP_ENDPOINT", "http://ours.test/api/v2/")
    monkeypatch.setenv("THREADKEEP_API_TOKEN", "ours")
    assert (find_target().base_url, find_target().token) == ("http://ours.test/api/v2/memory", "ours")
    given = find_target("http://given.test", "given", "/other/")
    assert (given.base_url, given.token) == ("http://given.test/other", "given")


def test_a_missing_endpoint_names_its_variables() -> None:
    with pytest.raises(ValueError, match="THREADKEEP_ENDPOINT or DATAROBOT_ENDPOINT"):
        find_target(token="t")


def test_a_missing_token_names_its_variables() -> None:
    with pytest.raises(ValueError, match="THREADKEEP_API_TOKEN or DATAROBOT_API_TOKEN"):
        find_target("http://t.test")


@pytest.mark.parametrize("endpoint", ["t.test/api/v2", "ftp://t.test", "http://", "/api/v2", "http://t.test:port"])
def test_an_endpoint_that_is_no_absolute_url_is_refused(endpoint: str) -> None:
    with pytest.raises(ValueError, match="endpoint"):
        find_target(endpoint, "t")


@pytest.mark.parametrize("token", ["a\nb", "é", "   "])
def test_a_token_that_no_header_can_carry_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="token"):
        find_target("http://t.test", token)


def test_the_token_does_not_show_when_a_target_is_printed() -> None:
    assert "secret" not in repr(find_target("http://t.test", "secret"))
