"""PyTorch, imported by the modules that need it, and the choice of device and precision."""

import importlib.util

from prsrank.errors import InputError


class MissingLibrary(InputError, ImportError):
    """A library of an extra is not installed; the message says what to install."""


NEEDS_TORCH = "the neural rankers need PyTorch: pip install 'prsrank[dnn]'"

try:
    import torch as torch
except ImportError as error:
    raise MissingLibrary(NEEDS_TORCH) from error

PRECISIONS = {"float32": torch.float32, "bf16": torch.bfloat16}


def find_device(name: str) -> torch.device:
    """Return the device of a name: "auto" is the GPU where there is one, else the CPU.

    >>> find_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind, _, number = name.partition(":")
    if kind not in ("cpu", "cuda") or (number and not number.isdecimal()):
        raise InputError(f"no device '{name}': one of auto, cpu, cuda, cuda:0, cuda:1, ...")
    if kind == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise InputError(
            f"device '{name}' was asked for, but PyTorch sees no CUDA GPU here; "
            "'cpu' or 'auto' would run without one"
        )
    if number and int(number) >= torch.cuda.device_count():
        raise InputError(f"no device '{name}': there are {torch.cuda.device_count()} CUDA GPUs")
    return torch.device(name)


def find_precision(name: str, device: torch.device) -> torch.dtype:
    """Return the type of features, activations and matrix products in training.

    "auto" is bf16 on a GPU that computes with it, else float32. Weights, their updates, the
    scores and the loss are float32 either way.

    >>> find_precision("auto", find_device("cpu"))
    torch.float32
    """
    if name == "auto":
        fast = device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)
        return torch.bfloat16 if fast else torch.float32
    if name not in PRECISIONS:
        raise InputError(f"no precision '{name}': one of auto, {', '.join(PRECISIONS)}")
    return PRECISIONS[name]


def has_triton() -> bool:
    """Tell whether the GPU kernels can be compiled here."""
    return importlib.util.find_spec("triton") is not None
