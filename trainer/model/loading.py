"""Any base model as a SentenceTransformer to train, and back to a directory that SentenceTransformer(path) loads.

    a saved SentenceTransformer (modules.json)   its own modules; only an asked-for pooling is replaced
    bare transformers weights                    Transformer -> Pooling(cls | mean | last) -> Normalize
    a saved MultiVectorEncoder, or the setting   a vector for each token (`late_interaction`)
    an adapter of peft                           its base, with the adapter merged in

A name that is no local directory is looked up on the Hugging Face hub. Code from a repository is never run. Weights are
held in float32 whatever the checkpoint has, since AdamW's small steps vanish in lower precision; the precision of the
computation is another setting.
"""

import copy
import logging
import os
from functools import cache
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, inject_adapter_in_model
from peft.tuners.tuners_utils import BaseTunerLayer
from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from sentence_transformers.util.file_io import load_file_path
from tokenizers import processors
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from foil.engine.errors import CorruptDataError, FoilError, UsageError
from foil.trainer.model.attention import attend_in_float32
from foil.trainer.model.checkpoint import non_finite
from foil.trainer.model.checksums import FACTS
from foil.trainer.model.late_interaction import TextModel, check_plain, is_late, with_token_vectors
from foil.trainer.model.packing import is_causal
from foil.trainer.model.two_encoders import split_encoders
from foil.trainer.model_settings import LoraSettings, ModelSettings

LOG = logging.getLogger(__name__)
POOLING_MODES = {"cls": "cls", "mean": "mean", "last": "lasttoken"}
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj", "gate_proj")
TEXT_ONLY = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}
"""Texts go to the tokenizer as they are, and never through a chat template that it may have."""


def load_model(name: str | Path, settings: ModelSettings) -> TextModel:
    """The model in a local directory or of that hub name, ready to train, in evaluation mode.

    `.train()` turns gradient checkpointing on, and dropout where the settings say so. The new weights of LoRA are the
    same at every call. The model's own default prompt is dropped: templates replace it.
    Raises UsageError where there is no such model, or where it does not allow what the settings ask; CorruptDataError
    where Foil published the model and it does not load, or lacks weights, or has some that are no finite numbers.
    """
    device = device_of(settings)
    transformers_logging.disable_progress_bar()
    try:
        model = _load(str(name), settings)
    except MemoryError:
        raise
    except Exception as error:  # over a damaged folder the libraries raise errors of any kind
        raise broken_model(name, _load_error(str(name), error)) from error
    _check_complete(name, model)
    check_finite(name, model)
    model.default_prompt_name = None
    for encoder in dict.fromkeys(split_encoders(model)):
        _prepare(encoder, settings)
        if device == "cpu":
            attend_in_float32(backbone_of(encoder))
    if settings.late_interaction:
        model = with_token_vectors(model, settings.late_interaction.dimensions)
    dimensions = model.get_embedding_dimension() or 0
    if settings.matryoshka and max(settings.matryoshka) > dimensions:
        raise UsageError(f"matryoshka asks for {max(settings.matryoshka)} dimensions, and {name} has {dimensions}")
    if not settings.dropout:
        switch_dropout_off(model)
    return model.to(device).eval()


def save_model(model: TextModel, path: Path) -> None:
    """Writes a directory that its own class of sentence-transformers loads, with LoRA merged in; `model` stays."""
    if any(isinstance(module, BaseTunerLayer) for module in model.modules()):
        model = copy.deepcopy(model)
        merge_adapters(model)
    model.save(str(path), create_model_card=False)


def backbone_of(model: TextModel) -> PreTrainedModel:
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


def share_cpus(processes: int) -> None:
    """Lets this process compute with its part of the CPUs, as one of so many."""
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // processes))


def device_of(settings: ModelSettings) -> str:
    """`cuda` or `cpu`; UsageError where cuda is asked for and there is none."""
    has_cuda = torch.cuda.is_available()
    if settings.device == "cuda" and not has_cuda:
        raise UsageError("device is cuda, and torch sees no such device; set device: cpu, or auto")
    return "cuda" if has_cuda and settings.device != "cpu" else "cpu"


@cache
def precision_on(device: str, precision: str) -> str:
    """What `auto` is on `cpu` or `cuda`, else the same; of a bfloat16 that is emulated it is said once a process."""
    on_cpu = torch.ops.mkldnn._is_mkldnn_bf16_supported  # noqa: SLF001 - it has no public name
    has_bfloat16 = on_cpu() if device == "cpu" else torch.cuda.is_bf16_supported(including_emulation=False)
    if precision == "auto":
        return "bfloat16" if has_bfloat16 else "float32"
    if precision == "bfloat16" and not has_bfloat16:
        LOG.warning(
            "encode.precision is bfloat16, whose products are emulated on this device, 40 to 60 times slower than "
            "float32 on CPUs; set train.encode.precision and evaluate.encode.precision to auto or float32"
        )
    return precision


def _load(name: str, settings: ModelSettings) -> TextModel:
    weight_options = {"dtype": torch.float32} | (
        {"attn_implementation": settings.attention} if settings.attention else {}
    )
    is_local = Path(name).is_dir()
    if load_file_path(name, "modules.json", local_files_only=is_local):
        options: dict[str, Any] = {"device": "cpu", "model_kwargs": weight_options, "local_files_only": is_local}
        if is_late(name):
            return check_plain(name, MultiVectorEncoder(name, **options))
        return SentenceTransformer(name, **options)
    safe_options = {"trust_remote_code": False, "local_files_only": is_local}
    encoder = Transformer(
        name,
        model_kwargs={"dtype": torch.float32, **safe_options},
        processor_kwargs=dict(safe_options),
        config_kwargs=dict(safe_options),
        modality_config=TEXT_ONLY,
        module_output_name="token_embeddings",
    )
    mode = "lasttoken" if is_causal(encoder.model) else "mean"
    if settings.attention:  # only now: flash attention does not run on a CPU in float32, where the model still is
        encoder.model.set_attn_implementation(settings.attention)
    modules = [encoder, Pooling(encoder.get_embedding_dimension(), mode), Normalize()]
    return SentenceTransformer(modules=modules, device="cpu")


def _load_error(name: str, error: Exception) -> str:
    if "trust_remote_code" in str(error):
        return (
            f"{name} needs code of its own from its repository, which is never run here; "
            "take a model whose architecture is part of transformers"
        )
    missing_folder = "" if Path(name).is_dir() else f"{name} is no directory here; "
    return f"{missing_folder}{name} does not load: {error}"


def broken_model(name: str | Path, words: str) -> FoilError:
    """The error for a model that does not load: it is damaged if Foil published it, else the wrong one was given."""
    if (Path(name) / FACTS).is_file():
        return CorruptDataError(f"{words}; remove {name} and train again, or restore it from a copy")
    return UsageError(words)


def _check_complete(name: str | Path, model: nn.Module) -> None:
    """A pooler is not used."""
    missing = [weight for weight in missing_weights(model) if "pooler" not in weight and ".lora_" not in weight]
    if missing:
        raise broken_model(
            name,
            f"{name} lacks {len(missing)} of its weights ({', '.join(missing[:3])}): is it whole, and a text encoder?",
        )


def missing_weights(model: nn.Module) -> list[str]:
    """What transformers drew because the files lack it; it marks what was there."""
    return [
        weight
        for backbone in model.modules()
        if isinstance(backbone, PreTrainedModel)
        for weight, values in backbone.named_parameters()
        if not getattr(values, "_is_hf_initialized", False)
    ]


def check_finite(name: str | Path, model: nn.Module) -> None:
    """Raises the error of a broken model where a weight is NaN or infinite. Price: one pass over the weights."""
    if bad := non_finite(model):
        raise broken_model(
            name, f"{name} holds weights that are no finite numbers ({', '.join(bad[:3])}, {len(bad)} in all)"
        )


def _prepare(model: TextModel, settings: ModelSettings) -> None:
    backbone = backbone_of(model)
    if getattr(backbone, "peft_config", None):
        merge_adapters(backbone)
        backbone.delete_adapter(list(backbone.peft_config))
        backbone.requires_grad_(True)
        vars(backbone).pop("_weight_conversions", None)  # the adapter's names of weights; saving would write them
    ends_last = _set_pooling(model, settings)
    _complete_tokenizer(model.tokenizer, settings, ends_last=ends_last)
    if settings.lora:
        add_lora(model, settings.lora)
    if settings.gradient_checkpointing:
        if not backbone.supports_gradient_checkpointing:
            raise UsageError(f"{type(backbone).__name__} has no gradient checkpointing; set it to false")
        backbone.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})


def _set_pooling(model: TextModel, settings: ModelSettings) -> bool:
    """Replaces the pooling if another is asked for; returns whether it takes the last token."""
    poolings = [pooling for pooling in model if isinstance(pooling, Pooling)]
    if settings.pooling and not poolings:
        raise UsageError(f"pooling is {settings.pooling}, and the model has no pooling to replace; leave it out")
    for pooling in poolings:
        if settings.pooling:
            pooling.pooling_mode = POOLING_MODES[settings.pooling]
            pooling.pooling_output_dimension = pooling.embedding_dimension
    return any(pooling.pooling_mode == "lasttoken" for pooling in poolings)


def _complete_tokenizer(tokenizer: PreTrainedTokenizerBase, settings: ModelSettings, *, ends_last: bool) -> None:
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    append = settings.append_eos
    if append is None:
        append = ends_last and _sample_ids(tokenizer)[-1] == _sample_ids(tokenizer, add_special_tokens=False)[-1]
    if append and _sample_ids(tokenizer)[-1] != tokenizer.eos_token_id:
        append_eos(tokenizer)


def append_eos(tokenizer: PreTrainedTokenizerBase) -> None:
    """Makes the tokenizer end every text with its end-of-text token, within its limits; saved along with it."""
    eos, backend = tokenizer.eos_token, tokenizer.backend_tokenizer
    if eos is None:
        raise UsageError("the tokenizer has no end-of-text token to append; set append_eos: false")
    ending = processors.TemplateProcessing(
        single=f"$A {eos}", pair=f"$A $B:1 {eos}:1", special_tokens=[(eos, tokenizer.eos_token_id)]
    )
    previous_processor = backend.post_processor
    backend.post_processor = processors.Sequence([previous_processor, ending]) if previous_processor else ending


def add_lora(model: TextModel, settings: LoraSettings) -> None:
    """Adds low-rank updates, which begin at zero, to the target modules; all other weights are frozen.

    A pooler gets none, since no vector passes through it.
    """
    backbone = backbone_of(model)
    linear_names = [name for name, module in backbone.named_modules() if isinstance(module, nn.Linear)]
    last_names = {_last_name(name) for name in linear_names}
    if missing := set(settings.targets) - last_names:
        raise UsageError(
            f"no linear module of {type(backbone).__name__} is called {', '.join(sorted(missing))}; "
            f"there are {', '.join(sorted(last_names))}"
        )
    targets = set(settings.targets) or (set(PROJECTIONS) if last_names.issuperset(PROJECTIONS) else last_names)
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=[name for name in linear_names if _last_name(name) in targets and "pooler" not in name],
    )
    model.requires_grad_(False)
    with torch.random.fork_rng([]):
        torch.default_generator.manual_seed(0)
        inject_adapter_in_model(config, backbone)


def _last_name(name: str) -> str:
    return name.rpartition(".")[2]


def _sample_ids(tokenizer: PreTrainedTokenizerBase, **options: bool) -> list[int]:
    ids: list[int] = tokenizer("a text", **options)["input_ids"]
    return ids
