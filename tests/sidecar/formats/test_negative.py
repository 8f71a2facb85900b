"""Logs that are no training logs give no series."""

import pytest

from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.table import make_reader

# Each line is written 60 times with a running number in the place of `#`.
LOGS = {
    "access": [
        '10.0.0.# - - [20/Nov/2026:10:00:0# +0000] "GET /loss?step=# HTTP/1.1" 200 #12 "-" "curl/8.#"'
    ],
    "nginx": [
        "2026/11/20 10:00:0# [error] 31#7: *# connect() failed (111: Connection refused) while connecting"
    ],
    "pip": [
        "Collecting keras==3.#",
        "  Downloading loss_functions-1.#-py3-none-any.whl (#.2 MB)",
        "Installed #",
    ],
    "pip bar": ["     \u2501\u2501\u2501\u2501\u2501\u2501 #.1/88.2 MB 12.# MB/s eta 0:00:0#"],
    "apt": [
        "Get:# http://deb.example.org stable/main amd64 libc6 2.# [#71 kB]",
        "Setting up libc6 (2.#) ...",
    ],
    "kubectl events": ["#m  Normal  Scheduled  pod/train-#  Successfully assigned ml/train-# to node-#"],
    "dmesg": ["[   #.123456] BIOS-e820: [mem 0x000000000000#000-0x0000000000#fff] usable", "[  #.5] map: #"],
    "systemd": [
        "Nov 20 10:00:0# host systemd[1]: Started Session # of user root.",
        "Nov 20 systemd[#]: score=#",
    ],
    "traceback": [
        "Traceback (most recent call last):",
        '  File "train.py", line #, in <module>',
        "    loss = model(x, step=#)",
        "ValueError: loss is not finite",
    ],
    "errors of folds": ["INFO Errors of the fold: {'mape': 0.#, 'rmse': 1#.5, 'r2': 0.2#}"],
    "stages": ["Step #/9", "loading the data: #.5 s", "Step #", "likelihood of rain: 0.#"],
    "table of sizes": ["  #/99   2.5G   0.1   0.2   0.3   0.6   4   640   files"],
    "sales": ["date,product,revenue,profit_loss", "2026-01-0#,widget,1#.5,-#.2"],
    "sales with loss": ["date,region,loss", "2026-01-0#,north,#.5"],
    "ping": ["64 bytes from 10.0.0.#: icmp_seq=# ttl=64 time=0.# ms", "# packets, packet loss: #, time #ms"],
    "source": ["    loss = 0", "    loss_weight = #", "    val_loss = 0.#", "    for epoch in range(#):"],
    "configuration": ["loss_scale: #", "label_smoothing: 0.#", "max_steps: #", "learning_rate: #e-05"],
    "nvidia-smi": ["| #%   45C    P0    70W / 300W |   #234MiB / 81920MiB |     9#%      Default |"],
    "nccl": [
        "node:#:# [0] NCCL INFO Channel 0#/32 : # # 2 3",
        "node:# [0] NCCL INFO comm 0x# rank # nranks 8",
    ],
    "go logs": ['{"level":"info","ts":#7.5,"msg":"reconciled","attempt":#,"duration":0.#}'],
    "logfmt": ['time=2026-11-20T10:00:0#Z level=info msg="request" status=200 step=# duration=#ms map=#'],
    "mail": ["X-Spam-Status: No, score=#.1 required=5.0 tests=BAYES_00 autolearn=#"],
    "git": [
        "commit #abc",
        "Author: A <a@example.org>",
        "    Improve the accuracy of step #: from 0.9 to 0.#",
    ],
    "dataloader": ["Loading shard # of 512", "\rDownloading:  #%|###   | #/99 [00:01<00:02, 9.#MB/s]"],
    "postgres": ["2026-11-20 10:00:0#.123 UTC [#] LOG:  checkpoint complete: wrote # buffers (0.#%)"],
    "table": ["name   size   loss", "a#  #  none", "b#  #  none"],
    "iostat": ["sda   #.00   0.#   12.#   0.00   0.00", "Device   tps    kB_read/s"],
}


@pytest.mark.parametrize("name", LOGS)
def test_no_series(name):
    """Nothing is found and nothing delivered, at the end of the log neither."""
    lines = [line.replace("#", str(number)).encode() for number in range(60) for line in LOGS[name]]
    reader = make_reader("auto", FormatOptions())
    assert reader.read(lines) + reader.finish() == []
    assert reader.chosen is None
    assert reader.unclassifiable is None
