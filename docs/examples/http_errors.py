"""An error of a failed step as an HTTP answer: a status, which says whose fault it was, and a sentence."""

import flowengine as fe

STATUS: dict[type[fe.errors.OpError], int] = {
    fe.errors.InvalidArgumentError: 400,  # what was fed does not fit
    fe.errors.ResourceExhaustedError: 503,  # a memory limit
    fe.errors.UnavailableError: 503,  # a task of a cluster, for now
    fe.errors.DeadlineExceededError: 504,  # the timeout of the step
}


def status_of(error: fe.errors.OpError) -> int:
    """The HTTP status of an error; 500 where the graph or the service is at fault."""
    return STATUS.get(type(error), 500)


def message_of(error: fe.errors.OpError) -> dict[str, str]:
    """Return the message for a client: in full for a client's error, only the class for one of ours."""
    return {"error": error.message if status_of(error) == 400 else type(error).__name__}
