"""The demo's tool."""

import json

from threadkeep.demo import weather


def test_the_weather_of_a_city_is_always_the_same() -> None:
    assert weather.weather("Lisbon") == {"city": "Lisbon", "celsius": 21, "sky": "clear", "humidity": 73}
    assert weather.weather(" lisbon ")["celsius"] == weather.weather("Lisbon")["celsius"]


def test_a_call_takes_and_gives_json() -> None:
    assert json.loads(weather.call('{"city": "Oslo"}')) == weather.weather("Oslo")


def test_arguments_that_make_no_sense_are_answered_with_what_is_wrong() -> None:
    for arguments in ("", "{", "[]", "3", '{"town": "Oslo"}', '{"city": 3}'):
        assert json.loads(weather.call(arguments)) == {"error": f'weather takes {{"city": "..."}}; it got {arguments}'}
