"""What does a program's first comment say?"""

import pytest

from onhand.corpora.skill_reading import describe_script
from requirements import requirement


@requirement("skills.scripts")
@pytest.mark.parametrize(
    ("source", "said"),
    [
        ('"""Fill in a form."""\n', "Fill in a form."),
        ("#!/usr/bin/env python3\n'''Fill in\na form.\n\nMore.'''\n", "Fill in a form."),
        ('#!/usr/bin/env python3\n# Copyright 2026 X\n\n"""Fill in."""\n', "Fill in."),
        ("#!/bin/sh\n# Deploy it.\n# Twice.\nset -e\n", "Deploy it. Twice."),
        ("#!/bin/sh\n\n# Deploy it.\n", "Deploy it."),
        ("# -*- coding: utf-8 -*-\n#\n# Deploy it.\n", "Deploy it."),
        ("// Deploy it.\n// Twice.\nlet a;", "Deploy it. Twice."),
        ("/**\n * Deploy it.\n * @param x what\n */\n", "Deploy it."),
        ("/* Copyright 2026 */\nlet a;", ""),
        ("<#\nDeploy it.\n#>\n", "Deploy it."),
        ("\ufeff# Deploy it.\r\n# Twice.\r\n", "Deploy it. Twice."),
        ("print('no comment')\n# later\n", ""),
        ("", ""),
        ('"""never closed', ""),
    ],
)
def test_the_first_comment_describes_a_program(source: str, said: str) -> None:
    assert describe_script(source) == said


def test_a_long_comment_is_cut_and_a_hostile_one_costs_no_time() -> None:
    assert len(describe_script("# " + "word " * 500)) == 200
    for hostile in ("#\n" * 4000, "/*" * 4000, "# a\n " * 2000, '"""' + "\n" * 8000, "@a\n" * 3000):
        assert len(describe_script(hostile)) <= 200
