"""What sentence-transformers and transformers call the arguments of a training, and what they are called here."""

_OTHER_NAMES = {
    "schedule.topics_per_batch": "batch_size per_device_train_batch_size train_batch_size",
    "encode.micro_batch_tokens": "mini_batch_size",
    "gradient_cache": "gradient_accumulation_steps",
    "model.gradient_checkpointing": "gradient_checkpointing",
    "schedule.epochs": "num_train_epochs num_epochs",
    "schedule.steps": "max_steps",
    "schedule.learning_rate": "lr learning_rate",
    "schedule.decay": "lr_scheduler_type",
    "schedule.warmup_steps": "warmup_steps warmup_ratio",
    "schedule.weight_decay": "weight_decay",
    "schedule.clip_norm": "max_grad_norm",
    "schedule.seed": "seed data_seed",
    "encode.precision": "bf16 fp16",
    "encode.max_tokens": "max_seq_length max_length passage_max_len",
    "encode.query_tokens": "query_max_len",
    "loss.temperature": "scale temperature",
    "model.pooling": "pooling_mode",
    "model.matryoshka": "matryoshka_dims",
    "model.lora": "use_lora peft_config",
    "template": "prompts",
    "distractors": "num_negatives train_group_size",
    "validation.steps": "eval_steps",
    "checkpoint_steps": "save_steps",
    "validation.keep": "load_best_model_at_end",
    "validation.measure": "metric_for_best_model",
    "base": "model_name_or_path",
}
NAMES = {other_name: key for key, other_names in _OTHER_NAMES.items() for other_name in other_names.split()}
"""The usual name of an argument -> the key in a job's section `train`."""
