"""Exceptions of this package."""


class Error(ValueError):
    """Wrong input. The message is the line that the command line prints: what, where, and what to do.

    >>> import tidegate
    >>> try:
    ...     tidegate.Image.load("missing.tgi")
    ... except tidegate.Error as error:
    ...     print(error)
    missing.tgi: there is no such file: check the path
    """


class MemoryLimitError(Error, MemoryError):
    """A file or an image needs more memory than it may take. `tidegate.allow_memory` raises the limit.

    >>> import tidegate
    >>> issubclass(tidegate.MemoryLimitError, MemoryError)
    True
    """
