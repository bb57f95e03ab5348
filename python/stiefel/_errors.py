"""Errors of the library, in Python's words."""
import functools
import re
from typing import Any, Callable, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])


def with_python_names(message: str) -> str:
    """A message that names functions as Python has them: stiefel.init.haar_ for stiefel::init::haar_."""
    return re.sub(r"\bstiefel(?:::\w+)+", lambda name: name[0].replace("::", "."), message)


def in_python_words(function: _Function) -> _Function:
    """A function whose errors name functions as Python has them."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except RuntimeError as error:
            message = with_python_names(str(error))
            if message == str(error):
                raise
            raise type(error)(message) from None

    return call  # type: ignore[return-value]
