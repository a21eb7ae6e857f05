from __future__ import annotations


def convert(config, target):
    return dict(config), []
