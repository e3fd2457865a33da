"""Which promises can break: the one exception tree of harnessd.

::

    HarnessdError                 carries what happened, where, and the way out
    ├── UsageError                the caller asked for something that cannot be        exit 2
    │   ├── HomeNotFound          no directory of that name
    │   ├── NotAHome              a directory, but no git repository with AGENTS.md
    │   ├── InvalidName           a name or id that could leave its folder
    │   ├── SessionNotFound       no journal of that id in this home
    │   └── RunNotFound           no run of that id in this home
    ├── Conflict                  what the caller built on has moved                   exit 5
    ├── Locked                    another process holds the session or the home        exit 5
    ├── StorageError              the disk is full, read-only or refuses               exit 5
    ├── HistoryError              git cannot do what was asked, and says why           exit 5
    └── ModelUnavailable          no model can answer: unknown, unreachable            exit 5
        └── KeyMissing            its provider needs a key that is not set             exit 5

An *expected* failure (a refused commit, a failed tool, a model that is overloaded) is a value that its
caller looks at. An exception says that a promise could not be kept; the outermost door prints `str(error)`
and ends with `exit_code`. There is never a traceback for any of these.
"""

import re


class HarnessdError(Exception):
    """What could not be done (`message`), the file or field it is about (`where`), and the way out (`hint`)."""

    exit_code = 5

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text}\n  {self.hint}" if self.hint else text

    @classmethod
    def kind(cls) -> str:
        """What the kind of error is called by programs: `session-not-found`."""
        return re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()


class UsageError(HarnessdError):
    """The caller asked for something that cannot be; nothing was changed."""

    exit_code = 2


class HomeNotFound(UsageError):
    """No directory of that name or path."""


class NotAHome(UsageError):
    """The directory exists but is no git repository, or holds no AGENTS.md."""


class InvalidName(UsageError):
    """A name or id that is not `[a-z0-9][a-z0-9-]{0,63}` or not an id of the expected kind."""


class SessionNotFound(UsageError):
    """The home has no journal of that session."""


class RunNotFound(UsageError):
    """No journal of the home holds that run."""


class Conflict(HarnessdError):
    """What the caller built on (a blob, a seq, a version) is no longer what stands."""


class Locked(HarnessdError):
    """Another process writes here; the message names its pid."""


class StorageError(HarnessdError):
    """The disk is full, read-only or refuses; nothing acknowledged was lost."""


class HistoryError(HarnessdError):
    """Git cannot do what was asked in the state the repository is in."""


class ModelUnavailable(HarnessdError):
    """The model is unknown or unreachable."""


class KeyMissing(ModelUnavailable):
    """The model's provider needs a key, and the variable that holds it is not set."""
