"""Checks the English of docs, help texts, chart, alerts and panels: `python -m specon_tools.prose`.

It is our own because the wheel of vale downloads its program at the first run, which CI must not,
and proselint checks neither the length of sentences nor help texts and comments.
A library, markdown-it, reads the pages.
"""
