"""The library's statuses as exceptions, each also the built-in one that Python code expects."""

from .library import lib, text


class Error(Exception):
    """A call of the library failed. `status` is the number, the text is the library's own."""

    status: int = lib.MSDA_ERROR_INTERNAL

    def __init__(self, message: str, status: int | None = None):
        super().__init__(message)
        if status is not None:
            self.status = status


class InvalidArgumentError(Error, ValueError):
    """The caller's mistake: the text names the field, its value and what is allowed."""

    status: int = lib.MSDA_ERROR_INVALID_ARGUMENT


class UnsupportedError(Error, NotImplementedError):
    """A legal problem that no kernel takes; explain() gives the reason of each kernel."""

    status: int = lib.MSDA_ERROR_UNSUPPORTED


class AbiMismatchError(Error):
    """The library is older than what is asked of it."""

    status: int = lib.MSDA_ERROR_ABI_MISMATCH


class BufferTooSmallError(Error, ValueError):
    """A workspace has fewer bytes than PlanInfo.workspace_bytes."""

    status: int = lib.MSDA_ERROR_BUFFER_TOO_SMALL


class StalePlanError(Error):
    """A serialized plan is of another library version, kernel revision or device."""

    status: int = lib.MSDA_ERROR_STALE_PLAN


class OutOfMemoryError(Error, MemoryError):
    """There was no memory left."""

    status: int = lib.MSDA_ERROR_OUT_OF_MEMORY


class CudaError(Error, RuntimeError):
    """The CUDA driver reported an error, or there is no CUDA device or backend."""

    status: int = lib.MSDA_ERROR_CUDA


class InternalError(Error, RuntimeError):
    """A defect of the library. Please report it with this text."""

    status: int = lib.MSDA_ERROR_INTERNAL


_BY_STATUS = {
    kind.status: kind
    for kind in (
        InvalidArgumentError,
        UnsupportedError,
        AbiMismatchError,
        BufferTooSmallError,
        StalePlanError,
        OutOfMemoryError,
        CudaError,
        InternalError,
    )
}


def check(status: int) -> None:
    """Raises what a status of the library stands for. Call it on the thread that got the status."""
    if status != lib.MSDA_SUCCESS:
        message = text(lib.msda_last_error()) or text(lib.msda_status_name(status))
        raise _BY_STATUS.get(status, Error)(message, status)
