"""What sentence-transformers and transformers call the arguments of a training, and what they are called here."""

from types import MappingProxyType

NAMES = MappingProxyType(
    {
        "batch_size": "schedule.topics_per_batch",
        "per_device_train_batch_size": "schedule.topics_per_batch",
        "train_batch_size": "schedule.topics_per_batch",
        "mini_batch_size": "encode.micro_batch_tokens",
        "gradient_accumulation_steps": "gradient_cache",
        "gradient_checkpointing": "model.gradient_checkpointing",
        "num_train_epochs": "schedule.epochs",
        "num_epochs": "schedule.epochs",
        "max_steps": "schedule.steps",
        "lr": "schedule.learning_rate",
        "learning_rate": "schedule.learning_rate",
        "lr_scheduler_type": "schedule.decay",
        "warmup_steps": "schedule.warmup_steps",
        "warmup_ratio": "schedule.warmup_steps",
        "weight_decay": "schedule.weight_decay",
        "max_grad_norm": "schedule.clip_norm",
        "seed": "schedule.seed",
        "data_seed": "schedule.seed",
        "bf16": "encode.precision",
        "fp16": "encode.precision",
        "max_seq_length": "encode.max_tokens",
        "max_length": "encode.max_tokens",
        "query_max_len": "encode.query_tokens",
        "passage_max_len": "encode.max_tokens",
        "scale": "loss.temperature",
        "temperature": "loss.temperature",
        "pooling_mode": "model.pooling",
        "matryoshka_dims": "model.matryoshka",
        "use_lora": "model.lora",
        "peft_config": "model.lora",
        "prompts": "template",
        "num_negatives": "distractors",
        "train_group_size": "distractors",
        "eval_steps": "validation.steps",
        "save_steps": "checkpoint_steps",
        "load_best_model_at_end": "validation.keep",
        "metric_for_best_model": "validation.measure",
        "model_name_or_path": "base",
    }
)
"""The usual name of an argument -> the key in a job's section `train`."""
