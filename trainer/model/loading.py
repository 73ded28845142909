"""Any base model as a SentenceTransformer to train, and back to a directory that SentenceTransformer(path) loads.

    a saved SentenceTransformer (modules.json)   its own modules; only an asked-for pooling is replaced
    bare transformers weights                    Transformer -> Pooling(cls | mean | last) -> Normalize
    an adapter of peft                           its base, with the adapter merged in

A name that is no directory here is asked of the Hugging Face hub. Code that a repository brings along is never run.
Weights are held in float32 whatever the checkpoint has, since AdamW's small steps vanish in less; the precision of the
computation is another setting.
"""

from __future__ import annotations

import copy
from pathlib import Path

import torch
from peft import LoraConfig, inject_adapter_in_model
from peft.tuners.tuners_utils import BaseTunerLayer
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from sentence_transformers.util.file_io import load_file_path
from tokenizers import processors
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from engine.errors import UsageError
from trainer.model.attention import attend_in_float32
from trainer.model.packing import is_causal
from trainer.model.two_encoders import sides
from trainer.model_settings import LoraSettings, ModelSettings

POOLING_MODES = {"cls": "cls", "mean": "mean", "last": "lasttoken"}
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj", "gate_proj")
TEXT_ONLY = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}
"""Texts go to the tokenizer as they are, and never through a chat template that it may have."""


def load_model(name: str | Path, settings: ModelSettings) -> SentenceTransformer:
    """The model in a local directory or of that hub name, ready to train, in evaluation mode.

    `.train()` turns gradient checkpointing on, and dropout where the settings say so. The new weights of LoRA are the
    same at every call. A prompt that the model would put before every text is dropped: templates do that here.
    Raises UsageError where there is no such model, or where it cannot be as the settings ask.
    """
    device = _device(settings)
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        model = _load(str(name), settings)
    except (ImportError, OSError, ValueError) as error:
        raise UsageError(_reason(str(name), error)) from error
    model.default_prompt_name = None
    for side in dict.fromkeys(sides(model)):
        _prepare(side, settings)
        if device == "cpu":
            attend_in_float32(backbone_of(side))
    most = model.get_embedding_dimension() or 0
    if settings.matryoshka and max(settings.matryoshka) > most:
        raise UsageError(f"matryoshka asks for {max(settings.matryoshka)} dimensions, and {name} has {most}")
    if not settings.dropout:
        switch_dropout_off(model)
    return model.to(device).eval()


def save_model(model: SentenceTransformer, path: Path) -> None:
    """Writes a directory that SentenceTransformer(path) loads without peft, with LoRA merged in; `model` stays."""
    if any(isinstance(module, BaseTunerLayer) for module in model.modules()):
        model = copy.deepcopy(model)
        merge_adapters(model)
    model.save(str(path), create_model_card=False)


def backbone_of(model: SentenceTransformer) -> PreTrainedModel:
    """The transformer of a model with one encoder; UsageError where it has none."""
    first = model[0]
    if not isinstance(first, Transformer):
        raise UsageError(
            f"the model begins with {type(first).__name__}; only models that begin with a transformer learn"
        )
    backbone: PreTrainedModel = first.model
    return backbone


def merge_adapters(model: nn.Module) -> None:
    """Adds every adapter's update to the weights below it, and leaves the plain modules in place."""
    for path, layer in list(model.named_modules()):
        if isinstance(layer, BaseTunerLayer):
            layer.merge()
            parent, _, name = path.rpartition(".")
            setattr(model.get_submodule(parent), name, layer.get_base_layer())


def switch_dropout_off(model: nn.Module) -> None:
    """Sets every rate of dropout to zero, those that attention keeps as plain numbers too; the config stays."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name, value in list(vars(module).items()):
            if "dropout" in name and isinstance(value, float):
                setattr(module, name, 0.0)


def _device(settings: ModelSettings) -> str:
    there = torch.cuda.is_available()
    if settings.device == "cuda" and not there:
        raise UsageError("device is cuda, and torch sees no such device; set device: cpu, or auto")
    return "cuda" if there and settings.device != "cpu" else "cpu"


def _load(name: str, settings: ModelSettings) -> SentenceTransformer:
    kwargs = {"dtype": torch.float32} | ({"attn_implementation": settings.attention} if settings.attention else {})
    local = Path(name).is_dir()
    if load_file_path(name, "modules.json", local_files_only=local):
        return SentenceTransformer(name, device="cpu", model_kwargs=kwargs, local_files_only=local)
    refuse = {"trust_remote_code": False, "local_files_only": local}
    encoder = Transformer(
        name,
        model_kwargs=kwargs | refuse,
        processor_kwargs=dict(refuse),
        config_kwargs=dict(refuse),
        modality_config=TEXT_ONLY,
        module_output_name="token_embeddings",
    )
    mode = "lasttoken" if is_causal(encoder.model) else "mean"
    modules = [encoder, Pooling(encoder.get_embedding_dimension(), mode), Normalize()]
    return SentenceTransformer(modules=modules, device="cpu")


def _reason(name: str, error: Exception) -> str:
    if "trust_remote_code" in str(error):
        return (
            f"{name} needs code of its own from its repository, which is never run here; "
            "take a model whose architecture is part of transformers"
        )
    here = "" if Path(name).is_dir() else f"{name} is no directory here; "
    return f"{here}{name} does not load: {error}"


def _prepare(model: SentenceTransformer, settings: ModelSettings) -> None:
    backbone = backbone_of(model)
    if getattr(backbone, "peft_config", None):
        merge_adapters(backbone)
        backbone.delete_adapter(list(backbone.peft_config))
        backbone.requires_grad_(True)
        vars(backbone).pop("_weight_conversions", None)  # the adapter's names of weights; saving would write them
    ends_last = _pool(model, settings)
    _complete_tokenizer(model.tokenizer, settings, ends_last=ends_last)
    if settings.lora:
        add_lora(model, settings.lora)
    if settings.gradient_checkpointing:
        if not backbone.supports_gradient_checkpointing:
            raise UsageError(f"{type(backbone).__name__} has no gradient checkpointing; set it to false")
        backbone.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})


def _pool(model: SentenceTransformer, settings: ModelSettings) -> bool:
    """Replaces the pooling if another is asked for; whether it takes the last token then."""
    found = [module for module in model if isinstance(module, Pooling)]
    if settings.pooling and not found:
        raise UsageError(f"pooling is {settings.pooling}, and the model has no pooling to replace; leave it out")
    for module in found:
        if settings.pooling:
            module.pooling_mode = POOLING_MODES[settings.pooling]
            module.pooling_output_dimension = module.embedding_dimension
    return any(module.pooling_mode == "lasttoken" for module in found)


def _complete_tokenizer(tokenizer: PreTrainedTokenizerBase, settings: ModelSettings, *, ends_last: bool) -> None:
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    wanted = settings.append_eos
    if wanted is None:
        wanted = ends_last and _ids(tokenizer)[-1] == _ids(tokenizer, add_special_tokens=False)[-1]
    if wanted and _ids(tokenizer)[-1] != tokenizer.eos_token_id:
        append_eos(tokenizer)


def append_eos(tokenizer: PreTrainedTokenizerBase) -> None:
    """Makes the tokenizer end every text with its end-of-text token, within its limits; saved along with it."""
    eos, backend = tokenizer.eos_token, tokenizer.backend_tokenizer
    if eos is None:
        raise UsageError("the tokenizer has no end-of-text token to append; set append_eos: false")
    ending = processors.TemplateProcessing(
        single=f"$A {eos}", pair=f"$A $B:1 {eos}:1", special_tokens=[(eos, tokenizer.eos_token_id)]
    )
    before = backend.post_processor
    backend.post_processor = processors.Sequence([before, ending]) if before else ending


def add_lora(model: SentenceTransformer, settings: LoraSettings) -> None:
    """Puts low-rank updates beside the targets, which change nothing yet; all else stops learning.

    Not beside a pooler, which the vectors do not pass.
    """
    backbone = backbone_of(model)
    linear = [name for name, module in backbone.named_modules() if isinstance(module, nn.Linear)]
    ends = {_end(name) for name in linear}
    if missing := set(settings.targets) - ends:
        raise UsageError(
            f"no linear module of {type(backbone).__name__} is called {', '.join(sorted(missing))}; "
            f"there are {', '.join(sorted(ends))}"
        )
    wanted = set(settings.targets) or (set(PROJECTIONS) if ends.issuperset(PROJECTIONS) else ends)
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=[name for name in linear if _end(name) in wanted and "pooler" not in name],
    )
    model.requires_grad_(False)
    with torch.random.fork_rng([]):
        torch.default_generator.manual_seed(0)
        inject_adapter_in_model(config, backbone)


def _end(name: str) -> str:
    return name.rpartition(".")[2]


def _ids(tokenizer: PreTrainedTokenizerBase, **options: bool) -> list[int]:
    found: list[int] = tokenizer("a text", **options)["input_ids"]
    return found
