"""Values between a declared class and the wire: checked strictly on the way out, read leniently on the way in. Pure.

Both ways go through pydantic by the declared types, the class's own field validators and serializers included.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, TypeVar, cast

from pydantic import BaseModel, Field, TypeAdapter

from threadkeep import clock

M = TypeVar("M", bound=BaseModel)
logger = logging.getLogger("threadkeep.persistence")


def check_values(model: type[M], values: Mapping[str, Any]) -> M:
    """An instance of what the caller gave.

    Raises pydantic.ValidationError, which is a ValueError and names the fields.
    """
    return model.model_validate(_by_input_name(model, values))


def check_changes(instance: M, changes: Mapping[str, Any]) -> M:
    """A copy of the instance with checked changes; its other values stay as they are, the ill-typed too.

    Raises pydantic.ValidationError, which is a ValueError and names the field.
    """
    copy = instance.model_copy()
    for name, value in changes.items():
        copy.__pydantic_validator__.validate_assignment(copy, name, value)
    return copy


def dump_values(instance: BaseModel, names: Iterable[str]) -> dict[str, Any]:
    """The named fields as JSON values, under their own names."""
    wanted = set(names)
    dumped = BaseModel.model_dump(instance, mode="json", include=wanted, by_alias=True, warnings=False)
    keys = {name: info.serialization_alias or name for name, info in type(instance).model_fields.items()}
    return {name: dumped[key] for name, key in keys.items() if name in wanted and key in dumped}


def read_values(model: type[M], values: Mapping[str, Any], place: Callable[[], str]) -> M:
    """An instance of what is stored, under field names; never raises.

    A row that fits its class is validated whole. Otherwise each field is read by itself: a value that does not fit its
    type stays as it came, a field that is required and missing is `None`, and both are logged with what `place` says.
    """
    try:
        return model.model_validate(_by_input_name(model, values))
    except Exception:
        # Also what a validator of the application raises by accident: one row must never hide the others.
        return _read_each(model, values, place())


def parse_key(model: type[BaseModel], name: str, value: Any) -> str:
    """The text of a value that a caller looks for in a key field.

    Raises ValueError or TypeError, naming the field, where the value does not fit its type or is no scalar.
    """
    adapter = _adapter(model, name)
    try:
        plain = adapter.dump_python(adapter.validate_python(value), mode="json", by_alias=True, warnings=False)
    except ValueError as error:
        raise ValueError(f"The key {name!r} does not take {value!r}: {error}") from error
    return key_text(name, plain)


def key_text(name: str, plain: Any) -> str:
    """The text that a key field's JSON value has on the wire. Raises ValueError or TypeError that names the field."""
    if plain is None:
        raise ValueError(f"The key {name!r} is None; a key needs a value")
    if isinstance(plain, bool):
        return "true" if plain else "false"
    if not isinstance(plain, str | int | float):
        raise TypeError(f"The key {name!r} must be a text, a number or the like, not a {type(plain).__name__}")
    if plain == "":
        raise ValueError(f"The key {name!r} is empty")
    return str(plain)


def key_value(model: type[BaseModel], name: str, text: str) -> str | int:
    """The JSON value that a key's text stood for: a number only where the field takes no text."""
    if text.lstrip("-").isdigit():
        try:
            _adapter(model, name).validate_python(text)
        except Exception:
            # An enum of numbers, say. Whether the number fits is for the reader of the row to find out.
            return int(text)
    return text


@lru_cache(maxsize=4096)
def _adapter(model: type[BaseModel], name: str) -> TypeAdapter[Any]:
    info = model.model_fields[name]
    metadata = list(info.metadata)
    if info.discriminator is not None:
        metadata.append(Field(discriminator=info.discriminator))
    declared: Any = info.annotation
    for item in metadata:
        declared = Annotated[declared, item]
    return TypeAdapter(declared)


def _read_each(model: type[M], values: Mapping[str, Any], place: str) -> M:
    instance = model.model_construct()
    missing = [name for name, info in model.model_fields.items() if info.is_required() and name not in values]
    # A validator of the class may look at any field, so each has a value before the first is read.
    instance.__dict__.update(dict.fromkeys(name for name, info in model.model_fields.items() if info.is_required()))
    unfit = [name for name, value in values.items() if not _read_one(instance, name, value)]
    instance.__pydantic_fields_set__.update(values)
    if missing or unfit:
        logger.warning(
            "%s of %s: %s",
            place,
            model.__name__,
            "; ".join(
                [f"{name!r} is missing" for name in missing]
                + [
                    f"{name!r} holds a value of type {type(values[name]).__name__}, which does not fit"
                    for name in unfit
                ]
            ),
        )
    return instance


def _read_one(instance: BaseModel, name: str, value: Any) -> bool:
    try:
        instance.__pydantic_validator__.validate_assignment(instance, name, value)
    except Exception:
        # Perhaps only a rule about several fields is broken, and the value itself is fine.
        try:
            instance.__dict__[name] = _adapter(type(instance), name).validate_python(value)
        except Exception:
            instance.__dict__[name] = value
            return False
    return True


def _by_input_name(model: type[BaseModel], values: Mapping[str, Any]) -> Mapping[str, Any]:
    aliases = _input_aliases(model)
    return {aliases.get(name, name): value for name, value in values.items()} if aliases else values


@lru_cache(maxsize=1024)
def _input_aliases(model: type[BaseModel]) -> Mapping[str, str]:
    aliases = {name: info.validation_alias for name, info in model.model_fields.items()}
    return {name: alias for name, alias in aliases.items() if isinstance(alias, str)}


def read_moment(text: str) -> datetime:
    """A timestamp of the wire as a datetime in UTC; text that is none is returned as it is and logged."""
    try:
        return clock.to_datetime(clock.parse_timestamp(text))
    except (ValueError, AttributeError, OverflowError):
        logger.warning("the service sent a timestamp that is none: %.60r", text)
        return cast(datetime, text)
