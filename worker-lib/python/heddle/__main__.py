# SPDX-License-Identifier: BSD-3-Clause
"""python3 -m heddle COMMAND"""
import sys

from .doctor import main

sys.exit(main())
