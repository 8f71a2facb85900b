"""Logs of vision toolboxes and of the PyTorch examples."""

from typing import Final

from specon_sidecar.formats.family import BLANK, NUM, Family

VISION: Final = (
    Family(
        name="pytorch-mnist",
        writers="pytorch/examples mnist, Horovod examples (steps are samples)",
        needles=(b"Train Epoch: ", b"%)]"),
        line=r"^Train Epoch: (?P<epoch>\d+) \[(?P<i>\d+)/(?P<n>\d+) \(\d+%\)\]",
        also=r"^Test set: ",
        metrics=("loss",),
    ),
    Family(
        name="pytorch-imagenet",
        writers="pytorch/examples imagenet and what copied its meters (timm scripts, MoCo, NVIDIA)",
        needles=(b"poch: [", b"oss "),
        line=r"^(?:Train(?:ing)? )?Epoch: \[(?P<epoch>\d+)\] ?\[\s*(?P<i>\d+)/\s*(?P<n>\d+)\]\s.*?\bLoss ",
        also=r"^(?:val|Test): ?\[",
        pair=BLANK,
    ),
    Family(
        name="pytorch-cifar",
        writers="the PyTorch classifier tutorial",
        needles=(b"] loss: ",),
        line=r"^\[(?P<epoch>\d+), +(?P<i>\d+)\] loss: ",
    ),
    Family(
        name="timm",
        writers="timm's train.py",
        needles=(b"Train: ", b"Loss: ", b"%)]"),
        line=r"^Train: (?P<epoch>\d+) \[\s*(?P<i>\d+)/\s*(?P<n>\d+) \(\s*\d+%\)\]",
        also=r"^Test: ",
        metrics=("loss",),
    ),
    Family(
        name="openpcdet",
        writers="OpenPCDet",
        needles=(b"Train: ", b"%)", b"Loss: "),
        line=r"^\s*Train: +(?P<epoch>\d+)/(?P<epochs>\d+) \( *\d+%\) "
        r"\[ *(?P<i>\d+)/(?P<n>\d+) \( *\d+%\)\] +Loss: (?P<value>" + NUM + r")",
    ),
    Family(
        name="basicsr",
        writers="BasicSR and projects derived from it (pixel loss)",
        needles=(b"[epoch:", b"iter:", b"] l_"),
        line=r"\[epoch: *(?P<epoch>\d+), iter: *(?P<step>[\d,]+), [^\]]{1,80}\].{1,80}?\] "
        r"l_(?:g_)?(?:pix|total): (?P<value>" + NUM + r")",
    ),
    Family(
        name="paddle-detection",
        writers="PaddleDetection",
        needles=(b"Epoch: [", b"learning_rate: ", b"loss: "),
        line=r"^\s*Epoch: \[(?P<epoch>\d+)\] \[\s*(?P<i>\d+)/\s*(?P<n>\d+)\] learning_rate: ",
        metrics=("loss",),
    ),
    Family(
        name="torchvision",
        writers="torchvision references, DETR, MAE, DINO (MetricLogger)",
        needles=(b"Epoch:", b"eta: "),
        line=r"^Epoch: ?\[(?P<epoch>\d+)(?:/(?P<epochs>\d+))?\]\s+\[\s*(?P<i>\d+)/(?P<n>\d+)\]\s+eta: ",
        also=r"^(?:Test|Val|Eval):",
    ),
    Family(
        name="detectron2",
        writers="Detectron2, maskrcnn-benchmark",
        needles=(b"iter: ", b"eta: "),
        line=r"^(?>.*?\beta: .{1,40}?  iter: (?P<step>\d+)  ).*?\b(?:total_)?loss: ",
        metrics=("total_loss", "loss"),
    ),
    Family(
        name="mmdetection",
        writers="OpenMMLab before 2022 (mmcv runner)",
        needles=(b"lr: ", b"loss: "),
        line=r"^\s*(?:Epoch \[(?P<epoch>\d+)\]\[(?P<i>\d+)/(?P<n>\d+)\]"
        r"|Iter \[(?P<step>\d+)/(?P<total>\d+)\])"
        r"\s+lr: ",
        context=(b", max: ", r"^\s*workflow: .{1,200}, max: (?P<epochs>\d+) epochs"),
    ),
    Family(
        name="swin",
        writers="Swin Transformer and projects derived from it",
        needles=(b"Train: [", b"eta ", b"loss "),
        line=r"\bTrain: \[(?P<epoch>\d+)/(?P<epochs>\d+)\]\[(?P<i>\d+)/(?P<n>\d+)\]\s+eta .{1,200}?\bloss ",
        pair=BLANK,
        metrics=("loss",),
    ),
    Family(
        name="mmengine",
        writers="OpenMMLab since 2022 (MMEngine)",
        needles=(b"(train)", b" lr: "),
        line=r"^\s*(?:Epoch\(train\)\s+\[(?P<epoch>\d+)\]\[\s*(?P<i>\d+)/(?P<n>\d+)\]"
        r"|Iter\(train\)\s+\[\s*(?P<step>\d+)/(?P<total>\d+)\])\s",
        also=r"^\s*Epoch\(val\)\s+\[(?P<eval_epoch>\d+)\]",
    ),
    Family(
        name="yolov5-results",
        writers="YOLOv5 until 2021, `results.txt` (no header; its column total is the loss)",
        needles=(b"G ", b"/"),
        # Epoch, memory, box, object, class, total, labels, size, four scores, three losses of validation.
        line=r"^\s*(?P<epoch>\d+)/(?P<epochs>\d+)\s+\d+(?:\.\d+)?G(?:\s+" + NUM + r"){3}"
        r"\s+(?P<value>" + NUM + r")(?:\s+\d+){2}(?:\s+" + NUM + r"){7}\s*$",
    ),
    Family(
        name="darknet",
        writers="Darknet, YOLO until version 4 (its running mean)",
        needles=(b" avg", b" rate, "),
        line=r"^\s*(?P<step>\d+): "
        + NUM
        + r", (?P<value>"
        + NUM
        + r") (?:(?P<name>avg loss)|avg), "
        + NUM
        + r" rate, ",
        metrics=("avg(?: loss)?",),
    ),
    Family(
        name="paddle",
        writers="PaddleOCR, PaddleClas",
        needles=(b"global_step: ", b"epoch: ["),
        line=r"epoch: ?\[(?P<epoch>\d+)/(?P<epochs>\d+)\],? (?:iter: \d+, )?global_step: (?P<step>\d+),",
    ),
)
