"""The two ways in which the cluster tool ends badly, and what each prints."""

EXIT_FAILURE = 1
EXIT_USAGE = 2


class ClusterError(Exception):
    """Something failed. `log` is the file that tells more; its last lines are printed with the error."""

    exit_code = EXIT_FAILURE

    def __init__(self, message: str, log: str | None = None):
        super().__init__(message)
        self.log = log


class MalformedInput(ClusterError):
    """What the person gave cannot be used. The message begins with file:line where there is one."""

    exit_code = EXIT_USAGE


class Busy(ClusterError):
    """Another run of the tool works on the same cluster."""
