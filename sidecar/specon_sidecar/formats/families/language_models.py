"""Logs of trainers of language models and of translation."""

from typing import Final

from specon_sidecar.formats.family import BLANK, NUM, Family

LANGUAGE_MODELS: Final = (
    Family(
        name="hugging-face",
        writers="transformers Trainer 4 and 5, TRL, axolotl, LLaMA-Factory (printed dictionaries; their step"
        " is that of the bar beside them)",
        needles=(b"{'", b"'epoch': "),
        line=r"^(?>.*?\{'loss': ).*'epoch': '?(?P<epoch>[\d.]+)",
        also=r"^(?>.*?\{'eval_).*'epoch': '?(?P<eval_epoch>[\d.]+)",
        context=(b"Num Epochs = ", r"Num Epochs = (?P<epochs>[\d,]+)"),
        place=r"'global_step/max_steps': '(?P<step>\d+)/(?P<total>\d+)'",
        bar_beside=True,
    ),
    Family(
        name="nanogpt",
        writers="nanoGPT, build-nanogpt (standard output)",
        needles=(b": loss ",),
        line=r"^iter (?P<step>\d+): loss ",
        also=r"^step (?P<eval_step>\d+): ",
        pair=BLANK,
    ),
    Family(
        name="build-nanogpt",
        writers="build-nanogpt, log.txt",
        needles=(b" train ",),
        line=r"^(?P<step>\d+) train (?P<value>" + NUM + r")\s*$",
    ),
    Family(
        name="pytorch-tutorial",
        writers="PyTorch's tutorials of translation and of names (`0m 53s (- 16m 40s) (5000 6%) 2.8509`)",
        needles=(b"%", b"m ", b"s"),
        line=r"^(?:\d+m \d+s (?:\(- \d+m \d+s\) )?\()?(?P<step>\d+) \d+%(?:\)| \(\d+m \d+s\)) (?P<value>"
        + NUM
        + r")(?=\s|$)",
    ),
    Family(
        name="char-rnn",
        writers="char-rnn in Torch and TensorFlow",
        needles=(b" (epoch ", b"train_loss = "),
        line=r"^(?P<step>\d+)/(?P<total>\d+) \(epoch (?P<epoch>[\d.]+)\), (?P<name>train_loss) = (?P<value>"
        + NUM
        + r")",
    ),
    Family(
        name="tacotron2",
        writers="Tacotron 2 and Flowtron",
        needles=(b"Train loss ", b" Grad Norm "),
        line=r"^Train loss (?P<step>\d+) (?P<value>" + NUM + r") Grad Norm ",
    ),
    Family(
        name="sockeye",
        writers="Sockeye 2 and 3",
        needles=(b"E=", b" B=", b"s/sec="),
        line=r"\bE=(?P<epoch>\d+) B=(?P<step>\d+)\s+s/sec=",
        metrics=("ppl", "perplexity", "cross-entropy"),
        only=True,
    ),
    Family(
        name="wenet",
        writers="WeNet",
        needles=(b"TRAIN ", b"Batch ", b" loss "),
        line=r"\bTRAIN .{0,24}?Batch (?P<epoch>\d+)/(?P<i>\d+) loss (?P<value>" + NUM + r")",
    ),
    Family(
        name="llm.c",
        writers="llm.c, main.log",
        needles=(b" trl:",),
        line=r"^s:(?P<step>\d+) trl:",
        also=r"^s:(?P<eval_step>\d+) tel:",
        pair=r"\b(trl|tel):(" + NUM + r")",
        metrics=("trl",),
        only=True,
    ),
    Family(
        name="llm.c-console",
        writers="llm.c, console",
        needles=(b" loss ", b" | "),
        line=r"^step +(?P<step>\d+)/(?P<total>\d+) \| (?:train )?loss ",
        pair=BLANK,
    ),
    Family(
        name="modded-nanogpt",
        writers="modded-nanogpt",
        needles=(b"step:", b"_loss:"),
        line=r"^step:(?P<step>\d+)/(?P<total>\d+) (?:train|val)_loss:",
        metrics=("train_loss", "val_loss"),
        only=True,
    ),
    Family(
        name="megatron",
        writers="Megatron-LM, Megatron-DeepSpeed, NeMo forks (without `lm loss` while steps are skipped)",
        needles=(b" iteration ", b"consumed samples: "),
        line=r"^\s*iteration\s+(?P<step>\d+)/\s*(?P<total>\d+) \|",
        also=r"^\s*validation loss at iteration (?P<eval_step>\d+) ",
        metrics=("lm loss", "loss"),
    ),
    Family(
        name="deepspeed",
        writers="DeepSpeed's pipeline engine",
        needles=(b"steps: ", b" loss: ", b"iter time"),
        line=r"^steps: (?P<step>\d+) loss: .*iter time \(s\): ",
    ),
    Family(
        name="deepspeed-chat",
        writers="DeepSpeed-Chat, third step (the reward that it prints below the losses of actor and critic)",
        needles=(b": ",),
        line=r"^(?:average reward score: "
        r"|(?:\[.{0,80}\] )?[eE]poch: (?P<epoch>\d+) ?\| ?[sS]tep: (?P<i>\d+) ?\|)",
        context=(b"tep: ", r"^(?:\[.{0,80}\] )?[eE]poch: (?P<epoch>\d+) ?\| ?[sS]tep: (?P<step>\d+) ?\|"),
    ),
    Family(
        name="fairseq",
        writers="fairseq, --log-format simple",
        needles=(b"epoch ", b" loss=", b" / "),
        line=r"^\|? ?epoch (?P<epoch>\d+): +(?P<i>\d+) / (?P<n>\d+) loss=",
        place=r"num_updates=(?P<step>\d+)",
    ),
    Family(
        name="fairseq-json",
        writers="fairseq, --log-format json, wav2vec",
        needles=(b'"num_updates": ', b'"loss": '),
        line=r'\{"epoch": (?P<epoch>\d+), ',
        place=r'"num_updates": "?(?P<step>\d+)',
    ),
    Family(
        name="gnmt",
        writers="NVIDIA GNMT and its MLPerf versions",
        needles=(b"TRAIN [", b"Loss/tok "),
        line=r"^\s*TRAIN \[(?P<epoch>\d+)\]\[(?P<i>\d+)/(?P<n>\d+)\]",
        pair=BLANK,
        metrics=("Loss/tok",),
    ),
    Family(
        name="marian",
        writers="Marian NMT",
        needles=(b" : Up. ", b" : Cost "),
        line=r"^\s*Ep\. (?P<epoch>[\d.]+) : Up\. (?P<step>\d+) : Sen\. .{1,40}? : Cost (?P<value>"
        + NUM
        + r")",
    ),
    Family(
        name="espnet",
        writers="ESPnet 2",
        needles=(b"epoch:train:", b"batch: ", b"loss="),
        line=r"(?<!\d)(?P<epoch>\d+)epoch:train:\d+-(?P<i>\d+)batch: ",
        context=(b"epoch started", r"(?<!\d)(?P<epoch>\d+)/(?P<epochs>\d+)epoch started"),
        metrics=("loss",),
    ),
    Family(
        name="opennmt",
        writers="OpenNMT-py",
        needles=(b"Step ", b"ppl: "),
        line=r"^\s*Step (?P<step>\d+)/ *(?P<total>\d+); ",
        metrics=("xent", "ppl"),
    ),
    Family(
        name="maxtext",
        writers="MaxText",
        needles=(b"completed step: ", b"loss: "),
        line=r"^\s*completed step: (?P<step>\d+), ",
    ),
    Family(
        name="torchtune",
        writers="torchtune's DiskLogger",
        needles=(b"Step ", b" | ", b"loss:"),
        line=r"^Step (?P<step>\d+) \| (?:[\w/]+:\S+ )*?loss:",
    ),
    Family(
        name="olmo",
        writers="OLMo (a heading with the step, indented values below)",
        needles=(b"train/CrossEntropyLoss=",),
        line=r"^\s+(?P<name>train/CrossEntropyLoss)=(?P<value>" + NUM + r")",
        context=(b"[step=", r"\[step=(?P<step>\d+)/(?P<total>\d+)(?:,epoch=(?P<epoch>\d+))?"),
    ),
    Family(
        name="mlperf",
        writers="MLPerf logging (:::MLLOG); whether less or more is better depends on the benchmark",
        needles=(b":::ML", b'"key":'),
        line=r"^(?>.*?:::MLP?LL?OG )(?=.{0,2000}?\"key\": ?"
        r"\"(?P<name>train_loss|eval_loss|eval_error|eval_accuracy|loss)\")"
        r".{0,2000}?\"value\": ?\"?(?P<value>" + NUM + r")",
        place=r"\"(?:step_num|step|samples_count)\": ?(?P<step>\d+)|\"epoch_num\": ?(?P<epoch>[\d.]+)",
        metrics=("train_loss", "loss", "eval_loss", "eval_error", "eval_accuracy"),
        goal_known=False,
    ),
    Family(
        name="allennlp",
        writers="AllenNLP (its bar of validation begins below a line of its own)",
        needles=(b" ||: ", b"loss: "),
        line=r"\bloss: (?P<value>" + NUM + r") \|\|:\s+\d{1,3}%\|[^|]{0,300}\| *(?P<i>\d+)/(?P<n>\d+) \[",
        context=(b"Epoch ", r"\bEpoch (?P<epoch>\d+)/(?P<epochs>\d+)"),
        is_bar=True,
        last_of_epoch=True,
    ),
)
