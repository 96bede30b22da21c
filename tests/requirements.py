"""Which promises does onhand make, and which test shows each?"""

import pytest

requirement = pytest.mark.requirement
