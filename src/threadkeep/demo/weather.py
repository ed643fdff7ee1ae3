"""The demo's tool: a look-up that is really executed, needs no network and always says the same of a city."""

import hashlib
import json
from typing import Any

NAME = "weather"
DESCRIPTION = "The weather in a city today."
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "Name of the city, for example Lisbon"}},
    "required": ["city"],
    "additionalProperties": False,
}

_SKIES = ("clear", "partly cloudy", "overcast", "light rain", "windy")


def weather(city: str) -> dict[str, Any]:
    """The weather in `city`: degrees Celsius between 5 and 32, the sky, the humidity in per cent."""
    digest = hashlib.sha256(city.strip().casefold().encode("utf-8", "surrogatepass")).digest()
    return {
        "city": city,
        "celsius": 5 + digest[0] % 28,
        "sky": _SKIES[digest[1] % len(_SKIES)],
        "humidity": 30 + digest[2] % 60,
    }


def call(arguments: str) -> str:
    """Run the tool on the JSON text of its arguments; the answer is JSON text too, and says what is wrong with them."""
    try:
        city = json.loads(arguments)["city"]
    except (ValueError, KeyError, TypeError):
        city = None
    if not isinstance(city, str):
        return json.dumps({"error": f'{NAME} takes {{"city": "..."}}; it got {arguments}'})
    return json.dumps(weather(city))
