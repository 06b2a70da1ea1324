"""Functions that tests offer to a model, as OpenAI's API describes them: one whose arguments are bounded, one without."""

NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}
WEATHER = {
    "name": "get_weather",
    "description": "Weather of a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"enum": ["Bonn", "Rome"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
        "required": ["city", "days"],
        "additionalProperties": False,
    },
}
STOP = {"name": "stop", "parameters": NOTHING}
