"""Integrations: each uses its framework's own way of saving and resuming, in the framework's own folders.

A module here has `patch(module)`, which is called once, when the framework's module is imported, and makes
every training of the process do what the one line would (`callbacks=[specon.hugging_face()]`). No module here
imports its framework before the trainer has.
"""

TABLE = {
    "transformers.trainer": "hugging_face",
    "lightning.pytorch.trainer.trainer": "lightning",
    "pytorch_lightning.trainer.trainer": "lightning",
    "keras.src.backend.torch.trainer": "keras",
    "keras.src.backend.jax.trainer": "keras",
    "keras.src.backend.tensorflow.trainer": "keras",
    "torch.optim.optimizer": "torch_",
    "torch._tensor": "torch_",
    "torch.amp.grad_scaler": "torch_",
    "torch.serialization": "torch_",
    "torch.distributed.checkpoint.state_dict_saver": "torch_",
    "torch.distributed.checkpoint.state_dict_loader": "torch_",
    "accelerate.accelerator": "accelerate",
    "xgboost.training": "xgboost",
    "lightgbm.engine": "lightgbm",
}
"""The module whose import is waited for, and the integration that patches it."""
