"""What a test asks of the file system."""

from __future__ import annotations

import sys

import pytest

NAMES_ARE_BYTES = sys.platform != "darwin"
"""Whether a name may be no UTF-8; the file systems of macOS refuse that."""

needs_names_of_bytes = pytest.mark.skipif(not NAMES_ARE_BYTES, reason="names are UTF-8 here")
