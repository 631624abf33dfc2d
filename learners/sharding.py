"""A full model in several processes -> its weights in shards, whole only while it works (FSDP2).

Between the uses of a model each process holds a part of every weight, and with it of the masters
and the optimizer's state. `gathered` makes the weights whole for some generation or some forward
and backward passes. Inside nothing is communicated, because the processes run different numbers of
passes, or none: gradients add up in float32, until `sum_gradients` leaves each process the sum of
its part. Not layer by layer, as where weights are gathered for every pass: they must fit on a
device, their masters and optimizer state need not.

Everything named collective must be called by all processes in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from learners import processes


def shard(model: nn.Module) -> None:
    """Leave each process its part of every weight, in place; collective. Nothing in one process.

    The model's parameters become others: make the optimizer afterwards.

    Raises:
        ValueError: The model's decoder has no list of layers.
    """
    if processes.count() == 1 or is_sharded(model):
        return
    decoder = cast(Any, model).get_decoder()
    if not hasattr(decoder, "layers"):
        error = ValueError(
            f"update.shard needs a decoder with `layers`, got {type(decoder).__name__}; set "
            "update.shard False, or take another model"
        )
        raise processes.of_all(error)
    device = next(model.parameters()).device.type
    mesh = init_device_mesh(device, (processes.count(),))
    policy = MixedPrecisionPolicy(reduce_dtype=torch.float32, cast_forward_inputs=False)
    for module in (*decoder.layers, model):
        fully_shard(module, mesh=mesh, reshard_after_forward=False, mp_policy=policy)
    for part in _parts(model):
        part.set_gradient_divide_factor(1.0)  # a sum: the loss knows the tokens of all processes
        part.set_force_sum_reduction_for_comms(True)
    root = cast(FSDPModule, model)
    root.set_requires_gradient_sync(False)
    root.set_reshard_after_backward(False)


def is_sharded(model: nn.Module) -> bool:
    """Whether `shard` took the model apart."""
    return isinstance(model, FSDPModule)


@contextmanager
def gathered(*models: nn.Module) -> Iterator[None]:
    """Whole weights inside, for passes without communication; collective for sharded models."""
    parts = [part for model in dict.fromkeys(models) for part in _parts(model)]
    for part in parts:
        part.unshard()
    try:
        yield
    finally:
        for part in parts:
            part.reshard()


def sum_gradients(model: nn.Module) -> None:
    """Give every shard the sum of its gradients over the processes; collective, in `gathered`.

    FSDP reduces in a backward pass, so each process ends with one over a single token whose
    gradient is zero; one that had nothing else to do takes part by it.
    """
    root = cast(FSDPModule, model)
    token = torch.zeros(1, 1, dtype=torch.long, device=next(model.parameters()).device)
    root.set_requires_gradient_sync(True)
    (model(input_ids=token, use_cache=False).logits.float().sum() * 0).backward()
    root.set_requires_gradient_sync(False)


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> float:
    """Scale gradients down to a global norm; returns the norm before. Collective for shards."""
    parameters = list(parameters)
    if not any(isinstance(p, DTensor) for p in parameters):
        return nn.utils.clip_grad_norm_(parameters, max_norm).item()
    own = [local(p.grad) for p in parameters if p.grad is not None]
    device = local(parameters[0]).device
    squares = torch.zeros((), device=device)
    for gradient in own:
        squares += gradient.float().square().sum()
    dist.all_reduce(squares)
    norm = squares.sqrt()
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)  # as torch does
    for gradient in own:
        gradient.mul_(scale.to(gradient.dtype))
    return norm.item()


def local(tensor: Tensor) -> Tensor:
    """This process's part of a tensor: all of one that is not sharded."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(value: Any) -> Any:
    """Nested dicts and sequences with the shards in them gathered; collective.

    A shard becomes a tensor on the CPU in the first process, which writes, and None in the others.
    """
    if processes.count() == 1:
        return value
    if isinstance(value, DTensor):
        full = value.full_tensor().detach()
        return full.cpu() if processes.is_main() else None
    if isinstance(value, Mapping):
        return {key: whole(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(whole(part) for part in value)
    return value


def weights(model: nn.Module) -> dict[str, Tensor] | None:
    """The state of a sharded model in shards, tied weights once; None of another model."""
    if not is_sharded(model):
        return None
    state = model.state_dict(keep_vars=True)
    once = {id(value): name for name, value in reversed(state.items())}
    return {name: value for name, value in state.items() if once[id(value)] == name}


def load_weights(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Read whole weights into a model, sharded or not; collective for a sharded one."""
    if not is_sharded(model):
        model.load_state_dict(state)
        return
    set_model_state_dict(model, dict(state), options=StateDictOptions(full_state_dict=True))


def like(target: Tensor, value: Tensor) -> Tensor:
    """A whole tensor as `target` is: this process's part of it, or all."""
    if not isinstance(target, DTensor):
        return value
    value = value.to(target.to_local().device)
    return distribute_tensor(value, target.device_mesh, target.placements, src_data_rank=None)


def plain_class(model: nn.Module) -> type[nn.Module]:
    """The model's class as it was before `shard`, which derives one."""
    return type(model).__mro__[2] if is_sharded(model) else type(model)


def _parts(model: nn.Module) -> list[FSDPModule]:
    """The modules that are gathered as one piece each; none of a model that is not sharded."""
    if not is_sharded(model):
        return []
    return [module for module in model.modules() if isinstance(module, FSDPModule)]
